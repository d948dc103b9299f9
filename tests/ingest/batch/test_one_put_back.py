"""One table put back from an older copy, while all others and the checkpoint stay: what it lacks is never hidden by what comes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pytest
from tests.ingest import queries
from tests.ingest.batch.test_parked_partitions import GONE, UPSERT, WITH_DELETES, begun, golf
from tests.ingest.batch.test_runner import stopped
from tests.ingest.batch.test_standing_still import goes_on, query
from tests.ingest.kafka_records import TOPIC, Sent
from tests.ingest.pipelines import settings
from tests.ingest.queries import GOLF, QUEST, Query, value

from distributary.errors import CheckpointMismatch, CommitImpossible, PolicyStopped, SumsDisagree
from distributary.ingest import failpoints
from distributary.ingest.batch.finish import Finisher
from distributary.ingest.checkpoint.manifests import manifest_of
from distributary.ingest.checkpoint.stuck import Resolutions, StuckCommits
from distributary.ingest.columns.safe_names import BATCHES_TABLE
from distributary.ingest.commit_log import writing
from distributary.ingest.merge.rule import memory_folder
from distributary.ingest.resolve import resolve, stuck_tables
from distributary.ingest.routing.conditions import conditions_ahead
from distributary.ingest.running.rules import run_rules
from distributary.ingest.tables.transaction import newest_batch

LIFE = ("both", "both", "both", "both")


def records(begin: int, of: str) -> list[Sent]:
    names = ("golf", "quest") if of == "both" else (of, of)
    return [Sent(value(1, game_name=name), begin + at) for at, name in enumerate(names)]


def batch(of: Query, entities: str = "both") -> None:
    begin = of.log.so_far.ends[TOPIC][0]
    of.batch(begin, records(begin, entities))


def lived(root: Path, life: tuple[str, ...], copied_behind: int) -> Callable[[], None]:
    """A run of batches for these tables, of which one is copied amid it; what puts that back."""
    run = goes_on(query(root))
    table, copy = root / "lake" / GOLF, root / "copy"
    for number, entities in enumerate(life):
        if number == copied_behind:
            shutil.copytree(table, copy)
        batch(run, entities)

    def put_back() -> None:
        shutil.rmtree(table)
        shutil.copytree(copy, table)

    return put_back


def starts(root: Path) -> Query:
    """A start that has to read the newest batch again may."""
    found = query(root)
    last, _ = found.log.last()
    assert last is not None
    found.resume(records(last.offsets[TOPIC][0][0], "both"))
    return found


@pytest.mark.parametrize("life", [LIFE, ("both", "both", "both", "quest", "quest")], ids=["busy", "quiet"])
def test_a_table_that_lacks_batches_from_before_the_newest_is_named_and_nothing_is_added(
    tmp_path: Path, life: tuple[str, ...]
) -> None:
    put_back = lived(tmp_path, life, copied_behind=1)
    put_back()
    for _ in range(2):
        with pytest.raises(CommitImpossible, match=f"{GOLF} has batch 1 as its newest one, and batch 3 was"):
            starts(tmp_path)
    run = query(tmp_path)
    assert (run.rows(GOLF), run.rows(QUEST)) == (1, sum(2 if one == "quest" else 1 for one in life))
    (stuck,) = StuckCommits(run.here).read()
    assert (stuck.batch_id, stuck.tables) == (4 if life == LIFE else 3, (GOLF,))
    # The user lets it go without them.
    Resolutions(run.here).skip(stuck.batch_id, GOLF)
    batch(starts(tmp_path))
    assert starts(tmp_path).rows(GOLF) == 2


def test_one_that_lacks_the_newest_batch_alone_gets_it_again(tmp_path: Path) -> None:
    put_back = lived(tmp_path, LIFE, copied_behind=3)
    put_back()
    assert starts(tmp_path).rows(GOLF) == 4


@pytest.mark.parametrize("batches", [0, 1, 3], ids=["none", "one", "three"])
def test_tables_that_all_lack_the_newest_batch_are_named_as_put_back_and_nothing_is_added(
    tmp_path: Path, batches: int
) -> None:
    """What the ledger had of it cannot be made again from records; as where a day's copy lacks the one batch of the hour."""
    run = goes_on(query(tmp_path))
    lake, copy = tmp_path / "lake", tmp_path / "copy"
    for number in range(batches + 1):
        if number == batches:
            shutil.copytree(lake, copy) if lake.exists() else copy.mkdir()
        batch(run)
    shutil.rmtree(lake)
    shutil.copytree(copy, lake)
    for _ in range(2):
        with pytest.raises(
            CheckpointMismatch,
            match=r"has none of batch .* put back from an older copy.*`start: from_tables`",
        ):
            starts(tmp_path)
    assert not StuckCommits(query(tmp_path).here).read()
    assert {path.relative_to(lake) for path in lake.rglob("*.parquet")} == {
        path.relative_to(copy) for path in copy.rglob("*.parquet")
    }


def plain(root: Path) -> Query:
    return goes_on(query(root))


def killed_before_its_commits(batch: Callable[[], object]) -> None:
    with pytest.MonkeyPatch.context() as patch, pytest.raises(PolicyStopped):
        patch.setattr(Finisher, "finish", stopped)
        batch()


@pytest.mark.parametrize("batches", [0, 1])
@pytest.mark.parametrize("starts", [plain, partial(begun, rule=UPSERT)], ids=["row", "row yet to be made"])
def test_a_ledger_that_is_dropped_behind_a_killed_run_says_nothing_of_the_other_tables(
    tmp_path: Path, starts: Callable[[Path], Query], batches: int
) -> None:
    """No copy was put back, and whoever lets the ledger go without the row has all else."""
    run = starts(tmp_path)
    for at in range(batches):
        run.batch(at, golf(at, score=1))
    killed_before_its_commits(lambda: run.batch(batches, golf(batches, score=2)))
    shutil.rmtree(tmp_path / "lake" / BATCHES_TABLE)
    with pytest.raises(CommitImpossible, match=BATCHES_TABLE):
        starts(tmp_path)
    resolve(settings(tmp_path), BATCHES_TABLE, "skip")
    again = starts(tmp_path)
    again.batch(batches + 1, golf(batches + 1, score=3))
    app = again.runner.attempts.run.generation.app_id("events")
    assert newest_batch(tmp_path / "lake" / GOLF, app) == again.done[-1].manifest.batch_id


def test_who_let_the_ledger_go_without_a_row_is_not_told_of_older_copies(tmp_path: Path) -> None:
    """As of a batch of which all records were dropped: no other table has it, whatever was put back."""
    dropping: dict[str, Any] = {"policies": {"no_entity": "drop"}}
    run = goes_on(Query(tmp_path, **dropping))
    run.batch(0, golf(0, score=1))
    stray = [Sent(value(1, game_name=""), 1)]
    killed_before_its_commits(lambda: run.batch(1, stray))
    last, _ = run.log.last()
    assert last is not None
    manifest = manifest_of(last, run.here.log)
    (file,) = manifest.file_names()
    (tmp_path / "lake" / BATCHES_TABLE / file).unlink()
    Resolutions(run.here).skip(last.number, BATCHES_TABLE)
    again = Query(tmp_path, **dropping)
    again.resume(stray)
    again.batch(2, golf(2, score=3))
    assert again.rows(GOLF) == 2


def test_one_that_lacks_the_newest_batch_gets_it_though_the_log_is_closed_behind_what_was_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a pipeline is started each minute and no record comes: which files the other table has of it has to be known still."""
    run = goes_on(query(tmp_path))
    batch(run)
    log = tmp_path / "lake" / QUEST / "_delta_log"
    shutil.copytree(log, tmp_path / "copy")
    before = set((tmp_path / "lake" / GOLF).glob("*.parquet"))
    with monkeypatch.context() as patch, pytest.raises(PolicyStopped):
        patch.setattr(Finisher, "finish", stopped)
        batch(run)
    for file in set((tmp_path / "lake" / GOLF).glob("*.parquet")) - before:
        file.unlink()
    starts(tmp_path)
    monkeypatch.setattr(writing, "KEPT", 2)
    monkeypatch.setattr(writing, "AT_ONCE", 1)
    for _ in range(6):
        starts(tmp_path)
    shutil.rmtree(log)
    shutil.copytree(tmp_path / "copy", log)
    again = starts(tmp_path)
    assert (again.rows(GOLF), again.rows(QUEST)) == (2, 2)


def test_a_table_of_which_the_last_batches_have_nothing_is_looked_for_so_far_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_back = lived(tmp_path, ("both", "both", "quest", "quest"), copied_behind=1)
    put_back()
    monkeypatch.setattr("distributary.ingest.checkpoint.put_back._MOST_LOOKED_AT", 1)
    batch(starts(tmp_path), "quest")
    monkeypatch.setattr("distributary.ingest.checkpoint.put_back._MOST_LOOKED_AT", 10)
    with pytest.raises(CommitImpossible, match="and batch 2 was in it"):
        starts(tmp_path)


def test_a_table_that_is_put_back_while_a_run_goes_on_stops_it(tmp_path: Path) -> None:
    run = goes_on(query(tmp_path))
    batch(run)
    shutil.copytree(tmp_path / "lake" / GOLF, tmp_path / "copy")
    batch(run)
    shutil.rmtree(tmp_path / "lake" / GOLF)
    shutil.copytree(tmp_path / "copy", tmp_path / "lake" / GOLF)
    with pytest.raises(
        CheckpointMismatch, match="had batch 2 in this run, and has batch 1 as its newest one"
    ):
        batch(run)
    with pytest.raises(CommitImpossible, match="and batch 2 was in it"):
        starts(tmp_path)


def parking(root: Path) -> Query:
    return Query(root, policies={"stuck_table": "park"})


def log_of(root: Path, table: str) -> Path:
    return root / "lake" / table / "_delta_log"


def broken(root: Path, table: str) -> Path:
    """The entry by which nobody can open a table any more."""
    log = log_of(root, table)
    entry = log / f"{len(list(log.glob('*.json'))):020d}.json"
    entry.write_text(json.dumps({"protocol": {"minReaderVersion": 99, "minWriterVersion": 99}}) + "\n")
    return entry


def broken_amid(of: Query, table: str) -> Path:
    """The same amid a batch, which is the first that waits for the table."""
    made: list[Path] = []

    def breaks(point: str, _: int) -> None:
        if point == failpoints.AFTER_MANIFEST:
            made.append(broken(of.root, table))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(failpoints, "reach", breaks)
        batch(of)
    return made[0]


def put_right_by_copy(root: Path, table: str) -> None:
    shutil.rmtree(log_of(root, table))
    shutil.copytree(root / f"copy-{table}", log_of(root, table))


def with_copies(root: Path, batches: int) -> Query:
    """So many batches, with a copy of both tables' logs behind the first."""
    run = goes_on(parking(root))
    for number in range(batches):
        for table in (GOLF, QUEST) if number == 1 else ():
            shutil.copytree(log_of(root, table), root / f"copy-{table}")
        batch(run)
    return run


def decided(root: Path, table: str) -> int:
    """The first of the batches that the table is let go without."""
    return resolve(settings(root), table, "skip").batch_id


def test_two_parked_tables_that_lack_the_same_batch_are_both_named(tmp_path: Path) -> None:
    """By a note that is of the other one alone, what waits would be skipped, and what it lacks hidden."""
    with_copies(tmp_path, 4)
    for table in (GOLF, QUEST):
        broken(tmp_path, table)
    batch(goes_on(parking(tmp_path)))
    for table in (GOLF, QUEST):
        put_right_by_copy(tmp_path, table)
    notes = []
    for _ in range(2):
        again = goes_on(parking(tmp_path))
        notes += [stuck for stuck in StuckCommits(again.here).read() if stuck.batch_id == 3]
    assert notes[0].tables == tuple(sorted((GOLF, QUEST)))
    # Said at each start it does not grow.
    assert (notes[1].tables, notes[1].message) == (notes[0].tables, notes[0].message)
    assert [decided(tmp_path, table) for table in (GOLF, QUEST)] == [3, 3]
    last = goes_on(parking(tmp_path))
    assert (last.log.so_far.parked, last.rows(GOLF), last.rows(QUEST)) == ({}, 3, 3)


@pytest.mark.parametrize("comes_in", [True, False])
def test_a_note_of_one_that_was_put_back_stays_whatever_becomes_of_its_batch_in_another(
    tmp_path: Path, comes_in: bool
) -> None:
    run = with_copies(tmp_path, 3)
    before = set((tmp_path / "lake" / QUEST).glob("*.parquet"))
    unreadable = broken_amid(run, QUEST)
    (waits,) = set((tmp_path / "lake" / QUEST).glob("*.parquet")) - before
    broken_amid(run, GOLF)
    parked = run.log.so_far.parked
    unreadable.unlink()
    if not comes_in:
        waits.unlink()
    put_right_by_copy(tmp_path, GOLF)
    again = goes_on(parking(tmp_path))
    left = {} if comes_in else {QUEST: parked[QUEST]}
    assert again.log.so_far.parked == {GOLF: parked[GOLF], **left}
    assert decided(tmp_path, GOLF) == parked[QUEST][0] < parked[GOLF][0]
    last = goes_on(parking(tmp_path))
    assert (last.log.so_far.parked, last.rows(GOLF)) == (left, 2)


@pytest.mark.parametrize("amid", [False, True], ids=["at a start", "amid a batch"])
def test_a_parked_table_that_is_put_right_by_an_older_copy_is_named_before_it_gets_what_waits(
    tmp_path: Path, amid: bool
) -> None:
    """What waits would hide what it lacks, which nobody would ever ask for."""
    run = with_copies(tmp_path, 4)
    lacks = 4 if amid else 3
    if amid:
        broken_amid(run, GOLF)
    else:
        broken(tmp_path, GOLF)
        batch(goes_on(parking(tmp_path)))
    put_right_by_copy(tmp_path, GOLF)
    for _ in range(2):
        again = goes_on(parking(tmp_path))
        assert again.log.so_far.parked.keys() == {GOLF} and again.rows(GOLF) == 1
    waits = again.log.so_far.parked[GOLF]
    told = {stuck.batch_id: stuck.why for stuck in stuck_tables(settings(tmp_path))}
    assert list(told) == [*waits, lacks]
    assert f"{GOLF} has batch 1 as its newest one, and batch {lacks} was" in told[lacks]
    # The user lets it go without them.
    assert resolve(settings(tmp_path), GOLF, "skip").batch_id == lacks
    last = goes_on(parking(tmp_path))
    batch(last)
    assert (last.log.so_far.parked, last.rows(GOLF)) == ({}, 1 + len(waits) + 1)


@pytest.mark.parametrize("choice", ["skip", "skip_lost"])
def test_what_waits_being_decided_says_nothing_of_what_a_table_lacks_from_before(
    tmp_path: Path, choice: Literal["skip", "skip_lost"]
) -> None:
    """As by whoever gives up the batch whose file is gone, before a start has seen the table that he put right."""
    run = with_copies(tmp_path, 4)
    before = set((tmp_path / "lake" / GOLF).glob("*.parquet"))
    broken_amid(run, GOLF)
    for file in set((tmp_path / "lake" / GOLF).glob("*.parquet")) - before:
        file.unlink()
    batch(run)
    waits = run.log.so_far.parked[GOLF]
    put_right_by_copy(tmp_path, GOLF)
    assert resolve(settings(tmp_path), GOLF, choice).batch_id == waits[0]
    again = goes_on(parking(tmp_path))
    assert (again.log.so_far.parked, again.rows(GOLF)) == ({GOLF: waits}, 1)
    assert decided(tmp_path, GOLF) == 4
    last = goes_on(parking(tmp_path))
    assert (last.log.so_far.parked, last.rows(GOLF)) == ({}, 1 if choice == "skip" else 2)
    batch(last)
    batch(goes_on(parking(tmp_path)))


@pytest.fixture
def deletes(monkeypatch: pytest.MonkeyPatch) -> None:
    conditions = conditions_ahead([("deletes", GONE)])
    monkeypatch.setattr(queries, "run_rules", partial(run_rules, conditions=conditions))


def deleted(root: Path, scores: tuple[int, ...], copied_behind: int) -> Path:
    """A table with one row a key after these batches of one record, with what remembers its deletes as it was amid them."""
    run, memory = begun(root, WITH_DELETES), root / "lake" / memory_folder(GOLF)
    for number, score in enumerate(scores):
        if number == copied_behind:
            shutil.copytree(memory, root / "copy")
        run.batch(number, golf(number, score))
    # Files that its log does not name stay: a record that is read again would make them anew.
    shutil.rmtree(memory / "_delta_log")
    shutil.copytree(root / "copy" / "_delta_log", memory / "_delta_log")
    return memory


@pytest.mark.usefixtures("deletes")
def test_what_remembers_deletes_is_named_where_it_alone_was_put_back(tmp_path: Path) -> None:
    """A late record of a key that a forgotten delete took away would be a row for ever."""
    memory = deleted(tmp_path, (11, 12, 13, 1, 2), copied_behind=1)
    for _ in range(2):
        with pytest.raises(
            CommitImpossible, match=rf"{memory.name} has batch 1 as its newest one, and batch 3"
        ):
            begun(tmp_path, WITH_DELETES)
    chosen = settings(tmp_path, tables=[WITH_DELETES])
    assert resolve(chosen, GOLF, "skip").batch_id == 3
    begun(tmp_path, WITH_DELETES).batch(5, golf(5, score=14))
    begun(tmp_path, WITH_DELETES)


@pytest.mark.usefixtures("deletes")
def test_what_remembers_deletes_gets_the_newest_batch_again_where_it_lacks_that_alone(tmp_path: Path) -> None:
    memory = deleted(tmp_path, (11, 12, 13), copied_behind=2)
    run = begun(tmp_path, WITH_DELETES)
    app = run.runner.attempts.run.generation.app_id("events")
    assert newest_batch(memory, app) == run.done[-1].manifest.batch_id == 3


def without_its_newest_files(memory: Path) -> None:
    """As where it was put back into an empty folder."""
    for file in {one.name for one in memory.glob("*.parquet")} - {
        one.name for one in (memory.parents[1] / "copy").glob("*.parquet")
    }:
        (memory / file).unlink()


@pytest.mark.usefixtures("deletes")
def test_the_files_of_what_remembers_deletes_are_made_again_where_its_table_has_the_batch(
    tmp_path: Path,
) -> None:
    without_its_newest_files(memory := deleted(tmp_path, (11, 12, 13), copied_behind=2))
    run = begun(tmp_path, WITH_DELETES, golf(2, 13))
    app = run.runner.attempts.run.generation.app_id("events")
    assert newest_batch(memory, app) == run.done[-1].manifest.batch_id == 3


@pytest.mark.usefixtures("deletes")
def test_where_nobody_has_the_records_any_more_its_table_waits_for_a_decision(tmp_path: Path) -> None:
    without_its_newest_files(deleted(tmp_path, (11, 12, 13), copied_behind=2))
    with pytest.raises(SumsDisagree):
        begun(tmp_path, WITH_DELETES)
    chosen = settings(tmp_path, tables=[WITH_DELETES])
    assert [stuck.table for stuck in stuck_tables(chosen)] == [GOLF]
    assert resolve(chosen, GOLF, "skip").batch_id == 3
    begun(tmp_path, WITH_DELETES).batch(3, golf(3, score=14))
