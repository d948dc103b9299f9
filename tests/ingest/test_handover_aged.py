"""Tables without their checkpoint whose logs others cleaned up, or whose records Kafka deleted: where a new checkpoint goes on, and what it has."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from deltalake import DeltaTable
from tests.ingest.kafka_records import TOPIC
from tests.ingest.queries import GOLF, Query, batches, one
from tests.ingest.test_handover import INLINE, WORLD, heritage, taken_over

from distributary.errors import PolicyStopped, TablesOfAnotherRun
from distributary.ingest import failpoints
from distributary.ingest.columns.safe_names import BATCHES_TABLE


def aged(root: Path, *tables: str) -> None:
    """Leave nothing of these tables' logs but a checkpoint, and what somebody else did at last."""
    for table in tables:
        DeltaTable(root / "lake" / table).alter.set_table_properties({"delta.checkpointInterval": "25"})
        DeltaTable(root / "lake" / table).create_checkpoint()
        *old, _ = sorted((root / "lake" / table / "_delta_log").glob("*.json"))
        for entry in old:
            entry.unlink()


def test_where_the_tables_logs_tell_of_no_batch_any_more_the_ledger_does(tmp_path: Path) -> None:
    first = batches(tmp_path, 2)
    dead = first.runner.attempts.run.generation.id
    aged(tmp_path, GOLF, BATCHES_TABLE)
    shutil.rmtree(first.here.folder)
    start = heritage(tmp_path).start("from_tables", "games", [dead], WORLD)
    assert (start.offsets, start.lineage) == ({TOPIC: {0: 2}}, dead)


@pytest.mark.parametrize("dropped", [False, True])
def test_records_of_which_neither_log_nor_ledger_tell_are_not_read_again(
    tmp_path: Path, dropped: bool
) -> None:
    first = dead_before_the_ledger(tmp_path)
    dead = first.runner.attempts.run.generation.id
    aged(tmp_path, GOLF, BATCHES_TABLE)
    shutil.rmtree(first.here.folder)
    if dropped:
        shutil.rmtree(tmp_path / "lake" / BATCHES_TABLE)
    with pytest.raises(TablesOfAnotherRun, match=f"{GOLF} has batch 2, and neither its log nor the ledger"):
        heritage(tmp_path).start("from_tables", "games", [dead], WORLD)
    assert heritage(tmp_path).start("again", "games", [dead], WORLD).mode == "again"


def dead_before_the_ledger(tmp_path: Path) -> Query:
    """A run whose tables have its second batch, and whose ledger has not."""
    first = batches(tmp_path, 1)
    with pytest.MonkeyPatch.context() as patch, pytest.raises(PolicyStopped):
        patch.setattr(failpoints, "reach", before_the_ledger)
        first.batch(1, one(1))
    return first


def before_the_ledger(point: str, _: int) -> None:
    if point == failpoints.BEFORE_LEDGER:
        raise PolicyStopped("the process dies")


def test_records_that_tables_have_of_a_batch_that_kafka_has_no_more_are_not_counted_as_lost(
    tmp_path: Path,
) -> None:
    first = dead_before_the_ledger(tmp_path)
    dead = first.runner.attempts.run.generation.id
    shutil.rmtree(first.here.folder)
    new, ends = taken_over(tmp_path, "second", "from_tables", [dead])
    assert (new.start.offsets, ends) == ({TOPIC: {0: 1}}, None)
    assert new.start.placed == {TOPIC: {0: [(1, 2)]}}
    second = Query(tmp_path, "second", {TOPIC: {0: 1}}, decode=INLINE)
    second.resume()
    second.runner.pass_over({TOPIC: {0: (1, 4)}})
    row = DeltaTable(tmp_path / "lake" / BATCHES_TABLE).to_pyarrow_table().to_pylist()
    (told,) = [one for one in row if one["generation"] == new.id]
    assert (told["rows_already"], told["rows_read"], told["rows_by_reason"]) == (1, 1, '{"data_lost": 2}')
    assert (told["offsets"], told["gaps"]) == (
        f'{{"{TOPIC}": {{"0": [1, 4]}}}}',
        f'{{"{TOPIC}": {{"0": 2}}}}',
    )
