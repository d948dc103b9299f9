"""A store that only a proxy leads to, asked by the seam and by delta-rs."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from tests.ingest.storage.relay import relayed
from tests.ingest.storage.stores import Store

from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.opening import open_files
from distributary.ingest.storage.options import StorageOptions
from distributary.ingest.storage.place import Place
from distributary.producer_sim.stack.ports import free_port


def behind(store: Store, **http: str) -> Files:
    """The files of a place in the store, reached in this way, and no other."""
    given = store.options_by(store.port).model_dump()
    given["s3"]["login"] = {"access_key_id": "anybody", "secret_access_key": "anything"}
    # Nobody answers to this name: who passes the proxy by gets nowhere. It has no dot, as moto would take what stands
    # before one for the name of a bucket.
    endpoint = given["s3"]["endpoint"] if "no_proxy" in http else "http://nobody:9"
    options = {"s3": {**given["s3"], "endpoint": endpoint}, "http": {**http, "retry_seconds": 1}}
    return open_files(Place.parse(f"{store.url}/{uuid.uuid4().hex}"), StorageOptions.model_validate(options))


@pytest.fixture(params=["through", "around", "around all that are near"])
def files(s3_store: Store, request: pytest.FixtureRequest) -> Iterator[Files]:
    """A place behind a proxy, and one for which a proxy that is not there is not to be asked."""
    if request.param.startswith("around"):
        near = "127.0.0.1" if request.param == "around" else "127.0.0.0/8"
        yield behind(s3_store, proxy=f"http://127.0.0.1:{free_port()}", no_proxy=near)
        return
    with relayed(s3_store.port) as relay:
        yield behind(s3_store, proxy=f"http://127.0.0.1:{relay.port}")


def test_files_and_tables_are_read_and_written(files: Files) -> None:
    assert files.put_new("one", b"first")
    assert not files.put_new("one", b"second")
    assert (files.read("one"), [info.name for info in files.list()]) == (b"first", ["one"])
    rows = pa.table({"level": [1, 2]})
    write_deltalake(f"{files.url}/table", rows, storage_options=dict(files.options))
    assert DeltaTable(f"{files.url}/table", storage_options=dict(files.options)).to_pyarrow_table() == rows


@pytest.mark.parametrize("told", ["http://127.0.0.1:9", "/proxy"])
def test_a_proxy_of_other_programs_is_not_asked_for_tables_alone(
    s3_store: Store, monkeypatch: pytest.MonkeyPatch, told: str
) -> None:
    """delta-rs took it for its own, and no table could be opened where it leads nowhere."""
    monkeypatch.setenv("PROXY_URL", told)
    files, rows = behind(s3_store, no_proxy=""), pa.table({"level": [1, 2]})
    write_deltalake(f"{files.url}/table", rows, storage_options=dict(files.options))
    # AWS's own is all's.
    monkeypatch.setenv("AWS_PROXY_URL", "http://proxy:3128")
    assert StorageOptions().for_delta(Place.parse("s3://lake/tables"))["proxy_url"] == "http://proxy:3128"
