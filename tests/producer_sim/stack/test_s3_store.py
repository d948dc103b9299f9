from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.ingest.storage.racer import race
from tests.ingest.storage.stores import of_stack, s3_store

from distributary.errors import SetupError
from distributary.producer_sim.stack import s3_store as module
from distributary.producer_sim.stack.s3_store import S3Store, Server


@pytest.fixture(scope="module", params=["gofakes3", "moto"])
def server(request: pytest.FixtureRequest) -> Server:
    name: Server = request.param
    return name


@pytest.fixture(scope="module")
def store(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Store]:
    with s3_store(tmp_path_factory.mktemp(server), server) as running:
        yield running


# The seam's own contract runs on one of them, in tests/ingest/storage.
def test_of_all_who_put_one_new_name_exactly_one_is_first(store: S3Store) -> None:
    names = [f"{number}" for number in range(10)]
    won = race(of_stack(store).files(), "thread", names, threads=8)
    assert sorted(name for name, _ in won) == names


def test_what_runs_is_found_again_by_its_state_and_without_it(store: S3Store) -> None:
    again = S3Store(store.folder)
    assert again.process == store.process
    assert not again.launch()
    again.wait_ready()
    state = store.folder / "state.json"
    kept = state.read_text("utf-8")
    state.write_text(json.dumps(json.loads(kept) | {"process": None}), "utf-8")
    found = S3Store(store.folder).process
    state.write_text(kept, "utf-8")
    assert found is not None
    assert found == store.process


def test_it_comes_back_at_its_port_with_an_empty_bucket(store: S3Store) -> None:
    address, files = store.endpoint, of_stack(store).files()
    files.put("kept", b"no")
    store.stop()
    assert not store.status().running
    store.start()
    assert (store.endpoint, store.status().address, store.status().keeps) == (address, address, False)
    assert not files.has_files()


def test_where_nothing_can_run_it_the_way_to_something_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "venv"))
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    with pytest.raises(
        SetupError, match=r"no server to run the S3 store by: install distributary\[s3-server\]"
    ):
        S3Store(tmp_path / "s3").start()
    assert not (tmp_path / "s3" / "state.json").exists()
