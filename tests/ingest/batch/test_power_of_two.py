"""Two pipelines share ledger and quarantine, and the power fails: each goes on alone with what both had written there."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from deltalake import DeltaTable
from tests.ingest.batch.test_power import RECORDS, offsets, sent
from tests.ingest.kafka_records import TEMPLATE, TOPIC
from tests.ingest.power import Disk, PowerFailed, seeds
from tests.ingest.queries import GOLF, QUEST, Query

from distributary import files
from distributary.ingest.columns.safe_names import BATCHES_TABLE, QUARANTINE_TABLE
from distributary.ingest.tables import change

# A file that was being written when the power failed is closed by whoever comes by.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

# Each pipeline's checkpoint, and what its tables' names begin with.
PIPELINES = {"checkpoint": "", "second": "other_"}

CALLS, BATCHES = 900, 6


def run(root: Path, count: int, rng: random.Random) -> dict[str, Query]:
    """A start of each, and so many batches of one or the other."""
    started: dict[str, Query] = {}
    try:
        for place, prefix in PIPELINES.items():
            route = {"field": "game_name", "table": f"{prefix}{TEMPLATE}"}
            of = started[place] = Query(root, place, decode={"evolution": "inline"}, route=route)
            last, _ = of.log.last()
            of.resume([] if last is None else sent(last.offsets[TOPIC][0][0]))
        for _ in range(count):
            of = started[rng.choice(list(PIPELINES))]
            begin = of.log.so_far.ends[TOPIC][0]
            of.batch(begin, sent(begin))
    finally:
        for of in started.values():
            of.runner.finisher._native.settle()
    return started


def assert_each_once(root: Path, ends: dict[str, int]) -> None:
    for place, prefix in PIPELINES.items():
        for table, first in ((GOLF, 0), (QUEST, 1)):
            wanted = [at for at in range(first, ends[place], 2) if at % RECORDS != RECORDS - 1]
            assert not wanted or offsets(root, f"{prefix}{table}") == wanted
    rows = DeltaTable(root / "lake" / BATCHES_TABLE).to_pyarrow_table(columns=["rows_read"])["rows_read"]
    assert sum(rows.to_pylist()) == sum(ends.values())
    assert len(offsets(root, QUARANTINE_TABLE)) == sum(ends.values()) // RECORDS


def round_of(root: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    monkeypatch.setattr(change, "_CREATED_WITH", {"delta.checkpointInterval": rng.choice(("2", "3", "25"))})
    monkeypatch.setattr(files, "MANY", rng.choice((3, 10, 1000)))
    folders = tuple(root / name for name in ("lake", *PIPELINES))
    for folder in folders:
        folder.mkdir()
    for _ in range(rng.choice((1, 2))):
        disk = Disk(folders, rng.randrange(1, CALLS))
        try:
            with disk.watched():
                run(root, BATCHES, rng)
        except PowerFailed:
            disk.fail(rng)
    ended = {place: of.log.so_far.ends[TOPIC][0] for place, of in run(root, 4, rng).items()}
    assert_each_once(root, ended)


@pytest.mark.parametrize("seed", seeds(3, 60))
def test_a_loss_of_power_loses_and_doubles_no_record_of_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    round_of(tmp_path, seed, monkeypatch)
