"""Parked tables at which somebody is at work, or was when something ended half way: all others go on, and no row is lost or twice."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable, Field
from deltalake.schema import PrimitiveType
from tests.ingest.batch.test_parked_at_random import World, parked
from tests.ingest.kafka_records import Sent
from tests.ingest.pipelines import settings
from tests.ingest.queries import GOLF, QUEST, Query, value

from distributary.errors import CheckpointMismatch, CommitImpossible, ConfigError
from distributary.ingest import failpoints
from distributary.ingest import resolve as deciding
from distributary.ingest.batch import finish
from distributary.ingest.columns.safe_names import QUARANTINE_TABLE
from distributary.ingest.commit_log.reading import CommitLog
from distributary.ingest.log_paths import entry_path
from distributary.ingest.parquet.data_file import file_name, owner
from distributary.ingest.resolve import resolve, stuck_tables
from distributary.ingest.storage.posix import PosixFiles
from distributary.ingest.tables import change
from distributary.ingest.tables.transaction import TableCommit


class PowerFailed(BaseException):
    """Nothing of the process goes on."""


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """Batches of two rows for one table and one for the other: two that are in, three that wait for a table that is spoiled."""
    return parked(tmp_path, monkeypatch, before=2)


def golf(batches: Sequence[int]) -> Counter[int]:
    """The offsets of that table's rows, by how manieth a batch is."""
    return Counter(offset for batch in batches for offset in (3 * batch, 3 * batch + 2))


def made_for(name: str) -> int | None:
    found = owner(name)
    return None if found is None else found[1]


def assert_whole(world: World, batches: int) -> None:
    assert world.so_far.parked == {}
    assert world.offsets(GOLF) == golf(range(batches))
    assert world.offsets(QUEST) == Counter(range(1, 3 * batches, 3))


def spoiled_amid(world: World, number: int, reach: Callable[[str, int], None]) -> Callable[[str, int], None]:
    """Once this batch of those that wait is in, the table is spoiled again."""

    def reached(point: str, batch_id: int) -> None:
        reach(point, batch_id)
        if point == failpoints.BETWEEN_COMMITS and batch_id == number:
            entry = world.golf / entry_path(DeltaTable(world.golf).version() + 1)
            spoiled = max(
                path.read_text()
                for path in (world.golf / "_delta_log").glob("*.json")
                if '"mode":"Overwrite"' in path.read_text()
            )
            entry.write_text(spoiled)

    return reached


def test_a_table_that_has_a_part_of_what_waited_is_made_anew_for_the_rest(
    world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    first, *rest = world.so_far.parked[GOLF]
    world.mend()
    with monkeypatch.context() as patch:
        patch.setattr(failpoints, "reach", spoiled_amid(world, first, world.reach))
        world.begin()
    assert [one.batch_id for one in stuck_tables(settings(tmp_path))] == rest
    resolve(settings(tmp_path), GOLF, "recreate")
    world.begin()
    assert world.so_far.parked == {}
    assert world.offsets(GOLF) == golf([3, 4])
    world.batch()
    assert world.offsets(GOLF) == golf([3, 4, 5])


def test_a_batch_whose_file_is_gone_is_given_up_without_those_that_wait_behind_it(
    world: World, tmp_path: Path
) -> None:
    """As where `VACUUM` took what had waited for a week."""
    first, *_ = world.so_far.parked[GOLF]
    (waiting,) = [file for file in world.golf.glob("*.parquet") if made_for(file.name) == first]
    waiting.unlink()
    world.mend()
    world.begin()
    assert len(world.so_far.parked[GOLF]) == 3
    told = {one.batch_id: one.why for one in stuck_tables(settings(tmp_path))}
    assert [number for number, why in told.items() if f"file {waiting.name} is gone" in why] == [first]
    resolve(settings(tmp_path), GOLF, "skip_lost")
    world.begin()
    assert world.so_far.parked == {}
    assert world.offsets(GOLF) == golf([0, 1, 3, 4])


def test_files_that_were_put_aside_are_not_gone(
    world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with monkeypatch.context() as patch, pytest.raises(PowerFailed):
        patch.setattr(deciding, "create", failed)
        resolve(settings(tmp_path), GOLF, "recreate")
    with pytest.raises(ConfigError, match="none of the files that wait for it is gone"):
        resolve(settings(tmp_path), GOLF, "skip_lost")


def test_a_table_is_made_anew_twice_within_a_second(
    world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("time.time", lambda: 1_800_000_000.5)
    for _ in range(2):
        resolve(settings(tmp_path, policies={"stuck_table": "park"}), GOLF, "recreate")
    assert len(list((tmp_path / "lake").glob(f".{GOLF}.replaced-*"))) == 2
    world.begin()
    assert (world.so_far.parked, world.offsets(GOLF)) == ({}, golf(range(2, 5)))


def test_what_waits_is_found_where_whoever_put_a_table_aside_died(
    world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with monkeypatch.context() as patch, pytest.raises(PowerFailed):
        patch.setattr(deciding, "create", failed)
        resolve(settings(tmp_path), GOLF, "recreate")
    assert not world.golf.exists()
    resolve(settings(tmp_path), GOLF, "recreate")
    world.begin()
    assert world.so_far.parked == {}
    assert world.offsets(GOLF) == golf([2, 3, 4])


def failed(*_: object, **__: object) -> None:
    raise PowerFailed


def test_a_log_of_which_an_entry_is_gone_keeps_only_its_table(world: World) -> None:
    gone = world.golf / entry_path(DeltaTable(world.golf).version() - 1)
    moved = shutil.move(gone, world.root / "moved")
    world.begin()
    world.batch()
    assert len(world.so_far.parked[GOLF]) == 4
    assert world.offsets(QUEST) == Counter(range(1, 18, 3))
    shutil.move(moved, gone)
    world.mend()
    world.begin()
    assert_whole(world, 6)


def test_a_log_that_nobody_can_read_keeps_only_its_table(world: World) -> None:
    first = world.golf / entry_path(0)
    before = first.read_bytes()
    first.write_text("at work")
    number = world.query.log.next
    left = world.golf / file_name(world.query.runner.attempts.run.generation.id, number)
    left.write_bytes(b"of a batch that was never decided")
    world.begin()
    world.batch()
    assert len(world.so_far.parked[GOLF]) == 4
    # What is committed there nobody can tell.
    assert left.exists()
    first.write_bytes(before)
    world.mend()
    world.begin()
    assert_whole(world, 6)


def test_where_nothing_is_to_be_parked_a_log_of_which_an_entry_is_gone_stops_the_run(world: World) -> None:
    (world.golf / entry_path(DeltaTable(world.golf).version() - 1)).unlink()
    with pytest.raises(CheckpointMismatch, match="of its log is gone, and later ones are there"):
        Query(world.root).resume()


def test_a_compaction_that_was_not_synced_before_what_waited_came_in_takes_no_row_with_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.mend()
    before = set(world.golf.glob("*.parquet"))
    DeltaTable(world.golf).optimize.compact()
    (compacted,) = set(world.golf.glob("*.parquet")) - before

    def amid(root: PosixFiles, commits: Sequence[TableCommit], *_: object) -> None:
        if commits and commits[0].table == GOLF:
            raise PowerFailed

    with monkeypatch.context() as patch, pytest.raises(PowerFailed):
        patch.setattr(finish, "make_lasting", amid)
        world.begin()
    compacted.write_bytes(b"")
    world.begin()
    assert_whole(world, 5)


def test_of_each_batch_that_waits_no_more_is_held_than_the_tables_own(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a thousand batches of a thousand tables all took gigabytes, and no start came through."""
    held, bring_in = list[int](), finish.Finisher.bring_in

    def counted(*given: Any) -> None:
        manifest = given[1]
        held.append(len(manifest.tables) + len(manifest.entities) + len(manifest.pins.schemas))
        bring_in(*given)

    monkeypatch.setattr(finish.Finisher, "bring_in", counted)
    world.mend()
    world.begin()
    assert held == [2, 2, 2]
    assert_whole(world, 5)


def test_of_what_waits_a_start_reads_no_more_than_a_table_takes(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand batches that wait for a table which still cannot take the first would have it read them all."""
    read, as_finished = list[int](), CommitLog.as_finished

    def counted(log: CommitLog, number: int) -> Any:
        read.append(number)
        return as_finished(log, number)

    waits = world.so_far.parked[GOLF]
    monkeypatch.setattr(CommitLog, "as_finished", counted)
    world.begin()
    assert world.so_far.parked[GOLF] == waits
    assert set(read) == {waits[0], waits[-1]} and len(waits) > len(set(read))
    world.mend()
    world.begin()
    assert_whole(world, 5)


def test_a_table_altered_amid_a_batch_that_is_not_decided_stops_the_run_and_the_next_goes_by_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No file of it is in question yet, so that it is not parked."""

    def begun() -> Query:
        query = Query(tmp_path, policies={"stuck_table": "park"}, decode={"evolution": "inline"})
        query.resume()
        return query

    query = begun()
    query.batch(0, [Sent(value(1, game_name="golf"), 0)])
    evolve = change.evolve

    def amid(*given: Any, **more: Any) -> Any:
        monkeypatch.setattr(change, "evolve", evolve)
        DeltaTable(tmp_path / "lake" / GOLF).alter.add_columns([Field("season", PrimitiveType("long"))])
        return evolve(*given, **more)

    monkeypatch.setattr(change, "evolve", amid)
    sent = [Sent(value(2, game_name="golf", season="x"), 1), Sent(value(1, game_name="quest"), 2)]
    with pytest.raises(CommitImpossible, match="season is int64 in the table and string") as stopped:
        query.batch(1, sent)
    assert (stopped.value.tables, query.log.so_far.parked) == ((), {})
    begun().batch(1, sent)
    assert [query.rows(one) for one in (GOLF, QUEST, QUARANTINE_TABLE)] == [1, 1, 1]
