"""A table that nobody can open, whatever keeps them from it: with `park` all others go on, and it gets all that came once it can be read again."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable
from tests.ingest.batch.test_parked_at_random import World
from tests.ingest.kafka_records import Sent
from tests.ingest.pipelines import settings
from tests.ingest.queries import GOLF, QUEST, Query, value

from distributary.errors import CommitImpossible, PipelineError
from distributary.ingest import failpoints
from distributary.ingest.columns.safe_names import BATCHES_TABLE, CHANGES_TABLE
from distributary.ingest.commit_log import writing
from distributary.ingest.log_paths import entry_path
from distributary.ingest.resolve import resolve, stuck_tables
from distributary.ingest.tables.known import TableBook

# Breaks a table, and gives what puts it right.
Harm = Callable[[Path], Callable[[], object]]


def emptied_beginning(table: Path) -> Callable[[], object]:
    """Its log begins with what is no entry."""
    first = table / entry_path(0)
    before = first.read_bytes()
    first.write_text("at work")
    return lambda: first.write_bytes(before)


def other_things(table: Path) -> Callable[[], object]:
    """An entry of its log is JSON, and none of Delta's."""
    path = table / entry_path(DeltaTable(table).version() + 1)
    path.write_text('{"txn": null}\n{"add": 7}\n')
    return path.unlink


def newer_protocol(table: Path) -> Callable[[], object]:
    """It was given a protocol that nobody here reads."""
    path = table / entry_path(DeltaTable(table).version() + 1)
    path.write_text(json.dumps({"protocol": {"minReaderVersion": 99, "minWriterVersion": 99}}) + "\n")
    return path.unlink


def input_output_error(table: Path) -> Callable[[], object]:
    """Whoever reads its newest entry gets an OSError, as of a bad block: there is nothing at the beginning of a process's memory."""
    path = table / entry_path(DeltaTable(table).version())
    aside = table.parent / f".{table.name}-entry"
    shutil.move(path, aside)
    path.symlink_to("/proc/self/mem")
    return lambda: os.replace(aside, path)


HARMS = [emptied_beginning, other_things, newer_protocol, input_output_error]

# What a run has read of a log it does not read again: a beginning that is emptied meanwhile the next start meets.
MET_AT_ONCE = HARMS[1:]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """Batches of two rows for one table and one for the other, of which two are in."""
    for name in ("lake", "checkpoint"):
        (tmp_path / name).mkdir()
    world = World(tmp_path, 0)
    monkeypatch.setattr(failpoints, "reach", world.reach)
    monkeypatch.setattr(world.dice, "choices", lambda games, k: ["golf", "quest", "golf"])
    world.begin()
    for _ in range(2):
        world.batch()
    return world


def assert_whole(world: World, batches: int) -> None:
    assert world.so_far.parked == {}
    rows = Counter(offset for batch in range(batches) for offset in (3 * batch, 3 * batch + 2))
    assert world.offsets(GOLF) == rows
    assert world.offsets(QUEST) == Counter(range(1, 3 * batches, 3))
    assert world.unnamed() == set()


def quest(world: World) -> int:
    return sum(world.offsets(QUEST).values())


@pytest.mark.parametrize("harm", HARMS)
def test_a_start_leaves_it_alone_and_it_gets_what_came_since(
    world: World, harm: Harm, tmp_path: Path
) -> None:
    newest = world.so_far.last
    mend = harm(world.golf)
    world.begin()
    assert world.so_far.parked == {GOLF: (newest,)}
    assert f"table {GOLF} is parked since batch {newest}" in world.query.runner.attempts.run.parked.told()
    world.batch()
    world.begin()
    world.batch()
    assert (quest(world), len(world.so_far.parked[GOLF])) == (4, 3)
    told = stuck_tables(settings(tmp_path))
    assert [one.batch_id for one in told] == list(world.so_far.parked[GOLF])
    assert "cannot be opened" in told[0].why and "Traceback" not in told[0].why
    mend()
    # What it has already does not wait for a decision.
    assert [one.batch_id for one in stuck_tables(settings(tmp_path))] == list(world.so_far.parked[GOLF])[1:]
    world.begin()
    assert_whole(world, 4)
    assert stuck_tables(settings(tmp_path)) == []


@pytest.mark.parametrize("harm", MET_AT_ONCE)
def test_between_two_batches_the_next_one_leaves_it_alone(world: World, harm: Harm) -> None:
    mend = harm(world.golf)
    world.batch()
    world.batch()
    assert (quest(world), len(world.so_far.parked[GOLF])) == (4, 3)
    mend()
    world.begin()
    assert_whole(world, 4)


@pytest.mark.parametrize("harm", MET_AT_ONCE)
@pytest.mark.parametrize("point", [failpoints.AFTER_MANIFEST, failpoints.BEFORE_MANIFEST])
def test_amid_a_batch_the_others_get_theirs(
    world: World, harm: Harm, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    back: list[Callable[[], object]] = []

    def reached(at: str, _: int) -> None:
        if at == point and not back:
            back.append(harm(world.golf))

    monkeypatch.setattr(failpoints, "reach", reached)
    world.batch()
    assert (quest(world), len(world.so_far.parked[GOLF])) == (3, 1)
    world.begin()
    world.batch()
    assert (quest(world), len(world.so_far.parked[GOLF])) == (4, 2)
    back[0]()
    world.begin()
    assert_whole(world, 4)


@pytest.mark.parametrize("harm", HARMS)
def test_a_batch_that_died_before_its_commits_gets_to_the_others(
    world: World, harm: Harm, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Died(BaseException):
        pass

    def dies(point: str, _: int) -> None:
        if point == failpoints.AFTER_MANIFEST:
            raise Died

    with monkeypatch.context() as patch, pytest.raises(Died):
        patch.setattr(failpoints, "reach", dies)
        world.batch()
    mend = harm(world.golf)
    world.begin()
    assert quest(world) == 3
    mend()
    world.begin()
    assert_whole(world, 3)


def test_what_is_met_while_a_batch_is_laid_out_has_it_begun_anew(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    states, back = TableBook.states, list[Callable[[], object]]()

    def broken(book: TableBook, folders: object) -> object:
        named = list(folders)  # type: ignore[call-overload]
        if named == [GOLF, QUEST] and not back:
            found = states(book, named)
            back.append(newer_protocol(world.golf))
            return found
        if back and GOLF in named and GOLF not in book.parked:
            book.changed(GOLF)
        return states(book, named)

    with (
        monkeypatch.context() as patch,
        pytest.raises(PipelineError, match=f"table {GOLF} is parked since batch .*begun anew") as met,
    ):
        patch.setattr(TableBook, "states", broken)
        world.batch()
    assert not met.value.fatal
    # Which is what the supervisor does: the next query begins.
    world.begin()
    world.batch()
    back[0]()
    world.begin()
    assert_whole(world, 3)


@pytest.mark.parametrize("harm", MET_AT_ONCE)
def test_where_nothing_is_to_be_parked_the_run_stops_with_the_tables_name_and_a_remedy(
    world: World, harm: Harm, tmp_path: Path
) -> None:
    mend = harm(world.golf)
    with pytest.raises(PipelineError, match=rf"table [^ ]*{GOLF}[ :].*(move|Restore)"):
        Query(tmp_path).resume()
    mend()
    query = Query(tmp_path)
    query.resume()
    harm(world.golf)
    begin = sum(map(len, world.sent))
    more = [Sent(value(1, game_name="golf"), begin)]
    with pytest.raises(PipelineError, match=rf"table [^ ]*{GOLF}[ :].*(stuck_table: park|Restore)"):
        query.batch(begin, more)
    assert world.so_far.parked == {}


@pytest.mark.parametrize("own", [BATCHES_TABLE, CHANGES_TABLE])
def test_tables_of_the_pipelines_own_are_never_left_alone(world: World, own: str, tmp_path: Path) -> None:
    newer_protocol(tmp_path / "lake" / own)
    newer_protocol(world.golf)
    with pytest.raises(PipelineError, match=own):
        world.begin()
    # Who cannot read the ledger decides nothing.
    assert bool(world.so_far.parked) == (own != BATCHES_TABLE)


def test_a_table_without_a_batch_that_the_log_names_is_left_alone_until_records_come_for_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "KEPT", 2)
    monkeypatch.setattr(writing, "AT_ONCE", 1)
    with monkeypatch.context() as patch:
        patch.setattr(world.dice, "choices", lambda games, k: ["quest"])
        for _ in range(6):
            world.batch()
        mend = emptied_beginning(world.golf)
        world.begin()
        world.batch()
    before = quest(world)
    assert (world.so_far.parked, before) == ({}, 9)
    assert world.query.runner.attempts.run.parked.waits() == {GOLF: 0}
    with pytest.raises(CommitImpossible, match=f"{GOLF}.*got no record for so long"):
        world.batch()
    world.sent.pop()
    mend()
    world.begin()
    world.batch()
    assert (world.so_far.parked, quest(world), sum(world.offsets(GOLF).values())) == ({}, 10, 6)


def test_one_that_breaks_within_a_run_waits_though_the_log_names_none_of_its_batches(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "KEPT", 2)
    monkeypatch.setattr(writing, "AT_ONCE", 1)
    with monkeypatch.context() as patch:
        patch.setattr(world.dice, "choices", lambda games, k: ["quest"])
        for _ in range(6):
            world.batch()
    mend = newer_protocol(world.golf)
    world.batch()
    assert len(world.so_far.parked[GOLF]) == 1
    mend()
    world.begin()
    assert (world.so_far.parked, quest(world), sum(world.offsets(GOLF).values())) == ({}, 9, 6)


def test_a_decision_may_be_taken_about_one_that_stays_as_it_is(world: World, tmp_path: Path) -> None:
    input_output_error(world.golf)
    world.begin()
    world.batch()
    resolve(settings(tmp_path), GOLF, "recreate")
    world.begin()
    assert world.so_far.parked == {}
    # What its newest batch brought goes with what waited; the rest is put aside with the old table.
    assert world.offsets(GOLF) == Counter([3, 5, 6, 8])
    assert quest(world) == 3
