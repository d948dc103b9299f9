from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from distributary.ingest.settings.model import load
from distributary.producer_sim.demo.scenario import Demo, _simulation, _together, write_settings
from distributary.producer_sim.stack.local import LocalStack
from distributary.producer_sim.truth.sent import Group, Sent, Truth

STORE = {
    "s3": {
        "endpoint": "http://127.0.0.1:3",
        "login": {"access_key_id": "anybody", "secret_access_key": "${NOWHERE:-anything}"},
    }
}
STACK = cast(
    "LocalStack",
    SimpleNamespace(
        bootstrap_servers="127.0.0.1:1",
        registry_url="http://127.0.0.1:2",
        s3=SimpleNamespace(url="s3://lake", storage=lambda: STORE),
    ),
)


def test_the_settings_left_behind_can_run(tmp_path: Path) -> None:
    settings = load(write_settings(Demo(folder=tmp_path, batch_rows=77), STACK))
    assert settings.sink.root.path == tmp_path / "lake"
    assert settings.checkpoint.path == tmp_path / "checkpoints" / "demo"
    assert settings.registry.url == "http://127.0.0.1:2"
    assert settings.limits.batch_rows == 77


def test_in_a_store_they_can_run_too(tmp_path: Path) -> None:
    settings = load(write_settings(Demo(folder=tmp_path, s3=True), STACK))
    assert str(settings.sink.root) == "s3://lake/games"
    assert str(settings.decode.schema_location) == "s3://lake/schemas"
    assert settings.storage.s3.endpoint == "http://127.0.0.1:3"
    assert settings.checkpoint.path == tmp_path / "checkpoints" / "demo"


@pytest.mark.parametrize(("events", "versions"), [(300, 3), (10, 3), (3, 3)])
def test_events_are_spread_over_the_versions(tmp_path: Path, events: int, versions: int) -> None:
    simulation = _simulation(Demo(folder=tmp_path, events=events, versions=versions), STACK)
    assert (simulation.pace.events, simulation.evolution.versions) == (events // versions, versions)


def test_the_truths_of_all_versions_are_one() -> None:
    parts = [
        Truth("t", {Group("golf", number): Sent(number, 5, 7)}, {}, frozenset(), {0: ((at, at + 5),)})
        for number, at in ((1, 0), (2, 5))
    ]
    whole = _together(parts)
    assert set(whole.sent) == {Group("golf", 1), Group("golf", 2)}
    assert whole.records == 10
