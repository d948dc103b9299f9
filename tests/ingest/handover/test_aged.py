"""Tables without their checkpoint whose logs others cleaned up, or whose records Kafka deleted: where a new checkpoint goes on, and what it has."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from deltalake import DeltaTable
from tests.ingest.handover.test_heritage import INLINE, WORLD, heritage, taken_over
from tests.ingest.kafka_records import TOPIC, Sent
from tests.ingest.queries import GOLF, Query, batches, one

from distributary.errors import PolicyStopped, TablesOfAnotherRun
from distributary.ingest import failpoints
from distributary.ingest.checkpoint import earlier_runs
from distributary.ingest.columns.safe_names import BATCHES_TABLE, CHANGES_TABLE, QUARANTINE_TABLE
from distributary.ingest.commit_log.owners import Records
from distributary.ingest.storage.opening import files_at


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


def aged_in_the_second_life(tmp_path: Path) -> tuple[str, str]:
    """Tables that a second checkpoint took over, and that tell of none by now; both generations, and no log is left."""
    first = batches(tmp_path, 2)
    new, _ = taken_over(tmp_path, "second", "from_tables")
    aged(tmp_path, GOLF, BATCHES_TABLE, CHANGES_TABLE)
    shutil.rmtree(tmp_path / "second")
    shutil.rmtree(first.here.folder)
    return first.runner.attempts.run.generation.id, new.id


def test_what_a_generation_before_the_lost_one_read_is_not_read_again(tmp_path: Path) -> None:
    old, dead = aged_in_the_second_life(tmp_path)
    start = heritage(tmp_path).start("from_tables", "games", [dead], WORLD)
    assert (start.offsets, start.lineage) == ({TOPIC: {0: 2}}, old)


def test_a_topic_that_only_a_life_in_between_read_is_gone_on_with(tmp_path: Path) -> None:
    """The first generation of the lineage is known by its name, those in between by the older records of tables."""
    batches(tmp_path, 1)
    for place in ("second", "third"):
        taken_over(tmp_path, place, "from_tables")
        query = Query(tmp_path, place, {TOPIC: {0: 1}}, decode=INLINE)
        query.resume()
        if place == "second":
            query.batch(1, one(1))
            query.log.close()
    aged(tmp_path, GOLF, BATCHES_TABLE, CHANGES_TABLE)
    dead = [owner.generation for owner in Records(files_at(tmp_path / "lake")).all().values()]
    for place in ("checkpoint", "second", "third"):
        shutil.rmtree(tmp_path / place)
    assert heritage(tmp_path).start("from_tables", "games", dead, WORLD).offsets == {TOPIC: {0: 2}}


@pytest.mark.parametrize("records", ["older ones", "all"])
def test_batches_whose_reading_nothing_tells_of_any_more_are_not_read_again(
    tmp_path: Path, records: str
) -> None:
    old, dead = aged_in_the_second_life(tmp_path)
    owners = tmp_path / "lake" / ".distributary/owners"
    if records == "all":
        shutil.rmtree(owners)
    else:
        (newest,) = Records(files_at(tmp_path / "lake")).all().values()
        shutil.rmtree(owners)
        # As an earlier version says it, which knew nothing of lineages.
        Records(files_at(tmp_path / "lake")).put(GOLF, 0, replace(newest, lineage=""))
    with pytest.raises(TablesOfAnotherRun, match=rf"ledger_batches has batches of generation {old}.*{TOPIC}"):
        heritage(tmp_path).start("from_tables", "games", [dead], WORLD)
    assert heritage(tmp_path).start("again", "games", [dead], WORLD).mode == "again"
    with pytest.raises(TablesOfAnotherRun, match="were filled from another checkpoint"):
        heritage(tmp_path).start("resume", "games", [dead], WORLD)


def test_what_was_read_before_somebody_said_again_holds_up_nothing(tmp_path: Path) -> None:
    first = batches(tmp_path, 2)
    new, _ = taken_over(tmp_path, "second", "again")
    aged(tmp_path, GOLF, BATCHES_TABLE, CHANGES_TABLE)
    shutil.rmtree(tmp_path / "second")
    shutil.rmtree(first.here.folder)
    start = heritage(tmp_path).start("from_tables", "games", [new.id], WORLD)
    assert (start.offsets, start.lineage) == (None, new.id)


def dead_before_the_ledger(tmp_path: Path) -> Query:
    """A run whose tables have its second batch, and whose ledger has not."""
    first = batches(tmp_path, 1)
    with pytest.MonkeyPatch.context() as patch, pytest.raises(PolicyStopped):
        patch.setattr(failpoints, "reach", before_the_ledger)
        first.batch(1, one(1))
    return first


@pytest.mark.parametrize("others", [0, 3])
def test_records_in_quarantine_are_not_there_twice_however_often_others_wrote_there_since(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, others: int
) -> None:
    """Pipelines share it, so that its log's newest commits may all be others'."""
    first = batches(tmp_path, 1)
    with pytest.MonkeyPatch.context() as patch, pytest.raises(PolicyStopped):
        patch.setattr(failpoints, "reach", before_the_ledger)
        first.batch(1, [*one(1), Sent(b"none", 2)])
    quarantine = DeltaTable(tmp_path / "lake" / QUARANTINE_TABLE)
    for _ in range(others):
        quarantine.create_write_transaction([], "append", quarantine.schema())
    monkeypatch.setattr(earlier_runs, "_COMMITS_LOOKED_AT", 2)
    if others:
        aged(tmp_path, QUARANTINE_TABLE)
    dead = first.runner.attempts.run.generation.id
    shutil.rmtree(first.here.folder)
    start = heritage(tmp_path).start("from_tables", "games", [dead], WORLD)
    assert (start.offsets, start.placed) == ({TOPIC: {0: 1}}, {TOPIC: {0: [(1, 3)]}})


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
