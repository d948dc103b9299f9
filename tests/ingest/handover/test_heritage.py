"""A new checkpoint over tables that earlier ones filled: what it takes over, from whom, and when it has to be told more."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pytest
from pyspark.sql import SparkSession
from tests.ingest import queries
from tests.ingest.batches import generation
from tests.ingest.kafka_records import TOPIC
from tests.ingest.pipelines import checkpoint, settings, table_book
from tests.ingest.queries import GOLF, Query, batches, one

from distributary.errors import (
    CheckpointMismatch,
    CommitImpossible,
    Fenced,
    NewerFormat,
    PolicyStopped,
    TablesOfAnotherRun,
)
from distributary.ingest.batch.finish import Finisher
from distributary.ingest.batch.waiting_records import place_aside
from distributary.ingest.beginnings import going_on
from distributary.ingest.checkpoint.folder import Checkpoint
from distributary.ingest.checkpoint.generation import Generation, Start, StartMode, World, born
from distributary.ingest.columns.safe_names import BATCHES_TABLE
from distributary.ingest.commit_log.entries import Owner, Process, Standing
from distributary.ingest.commit_log.owners import Owners, Records
from distributary.ingest.commit_log.writing import begin as begin_log
from distributary.ingest.handover.heritage import Heritage
from distributary.ingest.handover.reaching import Reaching
from distributary.ingest.kafka.offsets import Positions
from distributary.ingest.resolve import resolve
from distributary.ingest.settings.groups import Columns
from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.opening import files_at
from distributary.ingest.tables.known import TableBook
from distributary.ingest.tables.log_commit import NativeCommits

NO_SPARK = cast("SparkSession", None)
# A new checkpoint meets schemas that its tables have met long ago.
INLINE = {"evolution": "inline"}
WORLD = World("cluster", {TOPIC: "topic"}, {})


def heritage(root: Path) -> Heritage:
    tables = table_book(root, native := NativeCommits())
    return Heritage(Reaching(tables, native, NO_SPARK, lambda log: checkpoint(root, Path(log).name)))


def begin_at(
    root: Path,
    place: str,
    mode: StartMode,
    dead: Sequence[str] = (),
    *,
    world: World = WORLD,
) -> tuple[Generation, Owners]:
    """A new checkpoint's birth, at which nothing is taken over yet."""
    found = heritage(root)
    new = born(checkpoint(root, place), "games", world, found.start(mode, "games", dead, world))
    me = Owner("games", f"{root}/{place}", new.id, new.lineage)
    return new, Owners(found.records, me, found.log, new.start.dead)


def taken_over(
    root: Path, place: str, mode: StartMode, dead: Sequence[str] = (), world: World = WORLD
) -> tuple[Generation, Positions | None]:
    new, owners = begin_at(root, place, mode, dead, world=world)
    return new, heritage(root).complete(new, owners)


def owned(root: Path) -> dict[str, str]:
    """The generation that has each table."""
    return {table: owner.generation for table, owner in Records(files_at(root / "lake")).all().items()}


def unfinished(query: Query, begin: int) -> None:
    """A batch that is decided, and no table has it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Finisher, "finish", stopped)
        with pytest.raises(PolicyStopped):
            query.batch(begin, one(begin))


def stopped(*_: object, **__: object) -> None:
    raise PolicyStopped("the process dies before its commits")


@pytest.mark.parametrize("file", ["generation.json", "log/00000000000000000001.json"])
def test_an_earlier_checkpoint_of_a_newer_version_is_told_as_one_and_not_as_out_of_reach(
    tmp_path: Path, file: str
) -> None:
    batches(tmp_path, 1)
    (newest,) = sorted(checkpoint(tmp_path).folder.glob(file.replace("00000000000000000001", "*")))[-1:]
    newest.write_text(json.dumps({**json.loads(newest.read_text()), "format": 99}))
    with pytest.raises(NewerFormat, match="has format 99"):
        taken_over(tmp_path, "second", "from_tables")


def test_without_tables_of_the_pipeline_a_checkpoint_starts_where_the_settings_say(tmp_path: Path) -> None:
    modes: tuple[StartMode, ...] = ("resume", "from_tables", "again")
    empty = [heritage(tmp_path).start(mode, "games", (), WORLD) for mode in modes]
    batches(tmp_path, 1)
    beside_another = [heritage(tmp_path).start(mode, "other", (), WORLD) for mode in modes]
    assert empty == beside_another == [Start("resume"), Start("resume"), Start("again")]


def test_tables_of_another_checkpoint_ask_for_a_decision(tmp_path: Path) -> None:
    batches(tmp_path, 1)
    with pytest.raises(
        TablesOfAnotherRun, match=rf"\({GOLF}\).*`start: from_tables`.*`start: again`.*another `name`"
    ):
        heritage(tmp_path).start("resume", "games", (), WORLD)


@pytest.mark.parametrize("decided", [False, True])
def test_a_run_whose_tables_were_taken_loses_its_next_batch_and_what_it_decided_is_finished(
    tmp_path: Path, decided: bool
) -> None:
    first = batches(tmp_path, 2)
    if decided:
        unfinished(first, 2)
    new, ends = taken_over(tmp_path, "second", "from_tables")
    reached = 3 if decided else 2
    assert ends == {TOPIC: {0: reached}}
    assert (first.rows(GOLF), owned(tmp_path)) == (reached, {GOLF: new.id})
    with pytest.raises(
        Fenced, match=rf"were handed over to pipeline 'games' \(log {tmp_path}/second, generation {new.id}"
    ):
        first.batch(reached, one(reached))
    second = Query(tmp_path, "second", ends, decode=INLINE)
    second.resume()
    second.batch(reached, one(reached))
    assert second.rows(GOLF) == reached + 1
    with pytest.raises(TablesOfAnotherRun, match="were handed over to pipeline 'games'"):
        Query(tmp_path)


def test_records_that_waited_when_the_earlier_run_was_killed_are_deleted_with_its_log_taken(
    tmp_path: Path,
) -> None:
    first = batches(tmp_path, 1)
    place = place_aside(first.here.files, files_at(tmp_path / "lake"), generation(tmp_path).id)
    place.put("3-attempt/raw.parquet", b"payloads")
    taken_over(tmp_path, "second", "from_tables")
    assert not place.has_files("3-attempt")


def test_a_table_that_cannot_take_the_earlier_checkpoints_batch_is_decided_about_there(
    tmp_path: Path,
) -> None:
    unfinished(batches(tmp_path, 1), 1)
    shutil.rmtree(tmp_path / "lake" / GOLF)
    new, owners = begin_at(tmp_path, "second", "from_tables")
    with pytest.raises(CommitImpossible, match=f"no Delta table.*\n.*`checkpoint: {tmp_path}/checkpoint`"):
        heritage(tmp_path).complete(new, owners)
    resolve(settings(tmp_path), GOLF, "skip")
    assert heritage(tmp_path).complete(new, owners) == {TOPIC: {0: 2}}


def test_again_shuts_the_earlier_run_out_as_well(tmp_path: Path) -> None:
    first = batches(tmp_path, 1)
    unfinished(first, 1)
    new, ends = taken_over(tmp_path, "second", "again")
    assert (ends, new.lineage, first.rows(GOLF), owned(tmp_path)) == (None, new.id, 2, {GOLF: new.id})
    with pytest.raises(Fenced):
        first.batch(2, one(2))


def test_taking_over_is_repeated_without_harm_wherever_it_died(tmp_path: Path) -> None:
    first = batches(tmp_path, 1)
    unfinished(first, 1)
    new, owners = begin_at(tmp_path, "second", "from_tables")
    for step in ("finish", "take_over"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Finisher if step == "finish" else Owners, step, stopped)
            with pytest.raises(PolicyStopped):
                heritage(tmp_path).complete(new, owners)
        assert owned(tmp_path) == {GOLF: first.runner.attempts.run.generation.id}
    for _ in range(2):
        assert heritage(tmp_path).complete(new, owners) == {TOPIC: {0: 2}}
    assert (first.rows(GOLF), owned(tmp_path)) == (2, {GOLF: new.id})


def test_a_checkpoint_that_died_before_its_log_began_hands_over_what_it_was_to_take(tmp_path: Path) -> None:
    batches(tmp_path, 1)
    second, owners = begin_at(tmp_path, "second", "from_tables")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Owners, "take_over", stopped)
        with pytest.raises(PolicyStopped):
            heritage(tmp_path).complete(second, owners)
    third, ends = taken_over(tmp_path, "third", "from_tables")
    assert (ends, third.lineage, owned(tmp_path)) == ({TOPIC: {0: 1}}, second.lineage, {GOLF: third.id})


def test_of_two_that_take_the_same_tables_one_has_them(tmp_path: Path) -> None:
    batches(tmp_path, 1)
    begun = [begin_at(tmp_path, place, "from_tables") for place in ("second", "third")]
    heritage(tmp_path).complete(*begun[0])
    with pytest.raises(TablesOfAnotherRun, match=rf"were handed over to .*log {tmp_path}/second.* meanwhile"):
        heritage(tmp_path).complete(*begun[1])
    assert owned(tmp_path) == {GOLF: begun[0][0].id}


def test_a_log_that_is_gone_is_refused_until_the_user_says_that_its_run_is_dead(tmp_path: Path) -> None:
    first = batches(tmp_path, 2)
    dead = first.runner.attempts.run.generation.id
    shutil.rmtree(first.here.folder)
    modes: tuple[StartMode, ...] = ("from_tables", "again")
    for mode in modes:
        with pytest.raises(TablesOfAnotherRun, match=rf'cannot be reached.*`confirm_dead: \["{dead}"\]`'):
            heritage(tmp_path).start(mode, "games", ["another"], WORLD)
    new, ends = taken_over(tmp_path, "second", "from_tables", [dead])
    # What the tables tell is kept with the new checkpoint, since no log can be asked again.
    assert ends is None
    assert new.start == Start("from_tables", {TOPIC: {0: 2}}, {}, dead, None, (dead,))
    assert owned(tmp_path) == {GOLF: new.id}


def test_a_log_that_is_older_than_the_tables_is_not_gone_on_from(tmp_path: Path) -> None:
    first = batches(tmp_path, 1)
    shutil.copytree(first.here.folder, tmp_path / "copy")
    first.batch(1, one(1))
    shutil.rmtree(first.here.folder)
    shutil.copytree(tmp_path / "copy", first.here.folder)
    old = generation(tmp_path).id
    with pytest.raises(TablesOfAnotherRun, match=r"older than the tables.*confirm_dead"):
        heritage(tmp_path).start("from_tables", "games", (), WORLD)
    start = heritage(tmp_path).start("from_tables", "games", [old], WORLD)
    assert (start.offsets, start.dead) == ({TOPIC: {0: 2}}, (old,))


@pytest.mark.parametrize("lacking", [1, 2], ids=["the newest batch alone", "two batches"])
def test_tables_that_are_older_than_the_log_are_gone_on_from_where_they_end(
    tmp_path: Path, lacking: int
) -> None:
    """The log has read what they lack: behind its end, or skipped, their records were lost."""
    first = batches(tmp_path, 1)
    shutil.copytree(tmp_path / "lake", tmp_path / "copy")
    for begin in range(1, lacking + 1):
        first.batch(begin, one(begin))
    shutil.rmtree(tmp_path / "lake")
    shutil.copytree(tmp_path / "copy", tmp_path / "lake")
    old = generation(tmp_path).id
    for mode in ("from_tables", "again"):
        with pytest.raises(TablesOfAnotherRun, match=r"older than the log.*confirm_dead"):
            heritage(tmp_path).start(mode, "games", (), WORLD)
    start = heritage(tmp_path).start("from_tables", "games", [old], WORLD)
    assert (start.offsets, start.dead) == ({TOPIC: {0: 1}}, (old,))


def test_a_ledger_that_was_dropped_makes_no_tables_older_than_the_log(tmp_path: Path) -> None:
    batches(tmp_path, 3)
    shutil.rmtree(tmp_path / "lake" / BATCHES_TABLE)
    start = heritage(tmp_path).start("from_tables", "games", (), WORLD)
    assert (start.after and start.after.generation, start.dead) == (generation(tmp_path).id, ())


def test_the_lineage_is_that_of_the_tables_owner_whatever_the_clock_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three logs in one root: games, games once more from the start, and another pipeline, which commits last by the clock."""
    batches(tmp_path, 3)
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now - 3600)
    new, _ = taken_over(tmp_path, "second", "again")
    second = Query(tmp_path, "second", decode=INLINE)
    second.resume()
    second.batch(0, one(0))
    monkeypatch.setattr(time, "time", lambda: now + 3600)
    born(checkpoint(tmp_path, "other"), "other", WORLD)
    other = Query(tmp_path, "other", route={"table": "other_{entity}"})
    other.resume()
    for begin in range(5):
        other.batch(begin, one(begin))
    monkeypatch.undo()
    for gone in ("checkpoint", "second"):
        shutil.rmtree(tmp_path / gone)
    start = heritage(tmp_path).start("from_tables", "games", [new.id], WORLD)
    assert (start.offsets, start.lineage) == ({TOPIC: {0: 1}}, new.id)
    assert set(owned(tmp_path).values()) == {new.id, other.runner.attempts.run.generation.id}


def test_tables_from_before_there_were_owners_are_gone_on_from_by_the_ledgers_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = batches(tmp_path, 2)
    now = time.time()
    born(checkpoint(tmp_path, "other"), "other", WORLD)
    other = Query(tmp_path, "other", route={"table": "other_{entity}"})
    other.batch(0, one(0))
    monkeypatch.setattr(time, "time", lambda: now - 3600)
    first.batch(2, one(2))
    monkeypatch.undo()
    shutil.rmtree(tmp_path / "lake" / ".distributary")
    old = first.runner.attempts.run.generation.id
    with pytest.raises(
        TablesOfAnotherRun, match=rf'nothing tells where its log is.*confirm_dead: \["{old}"\]'
    ):
        heritage(tmp_path).start("from_tables", "games", (), WORLD)
    start = heritage(tmp_path).start("from_tables", "games", [old], WORLD)
    assert (start.offsets, start.lineage) == ({TOPIC: {0: 3}}, old)


def test_the_first_start_adopts_the_tables_of_its_own_log(tmp_path: Path) -> None:
    batches(tmp_path, 1)
    shutil.rmtree(tmp_path / "lake" / ".distributary")
    again = Query(tmp_path)
    again.resume()
    assert owned(tmp_path) == {GOLF: again.runner.attempts.run.generation.id}


def test_a_copy_of_a_checkpoint_elsewhere_is_refused_before_anything_is_changed(tmp_path: Path) -> None:
    first = batches(tmp_path, 1)
    unfinished(first, 1)
    shutil.copytree(first.here.folder, tmp_path / "copy")
    with pytest.raises(TablesOfAnotherRun, match="a copy of that one or was moved"):
        Query(tmp_path, "copy").resume(one(1))
    assert first.rows(GOLF) == 1


def test_two_pipelines_over_one_table_are_refused_before_it_is_touched(tmp_path: Path) -> None:
    batches(tmp_path, 1)
    born(checkpoint(tmp_path, "other"), "other", WORLD)
    other = Query(tmp_path, "other")
    other.resume()
    with pytest.raises(TablesOfAnotherRun, match=rf"{GOLF} is that of pipeline 'games'"):
        other.batch(0, one(0))
    assert other.rows(GOLF) == 1


def test_offsets_of_a_topic_that_was_made_anew_are_not_gone_on_from(tmp_path: Path) -> None:
    batches(tmp_path, 1)
    anew, elsewhere = World("cluster", {TOPIC: "another"}, {}), World("another", {TOPIC: "another"}, {})
    for world, why in (
        (anew, f"topic '{TOPIC}' was made anew"),
        (elsewhere, "it belongs to the Kafka cluster"),
    ):
        with pytest.raises(CheckpointMismatch, match=f"{why}.*`start: again`"):
            heritage(tmp_path).start("from_tables", "games", (), world)
        assert heritage(tmp_path).start("again", "games", (), world).mode == "again"


@pytest.mark.parametrize("anew", [False, True])
def test_a_topic_that_was_left_for_a_while_is_gone_on_with(tmp_path: Path, anew: bool) -> None:
    """Unless it was made anew meanwhile: then it is another one, and read from its beginning."""
    both = World("cluster", {TOPIC: "topic", "more": "more"}, {})
    born(checkpoint(tmp_path), "games", both)
    first = Query(tmp_path, ends={TOPIC: {0: 0}, "more": {0: 7}})
    first.resume()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(queries, "positions", lambda at: json.dumps({TOPIC: {"0": at}, "more": {"0": 7}}))
        first.batch(0, one(0))
    new, ends = taken_over(tmp_path, "second", "from_tables")
    assert (ends, new.start.left) == ({TOPIC: {0: 1}, "more": {0: 7}}, {"more": "more"})
    begins = going_on(ends or {}, {TOPIC: {0: 0}}, {})
    assert begins == Standing(ends={TOPIC: {0: 1}}, left={"more": {0: 7}})
    begin_log(checkpoint(tmp_path, "second").log, Process("here", 1, "0"), lambda: begins)
    second = Query(tmp_path, "second", decode=INLINE)
    second.resume()
    second.batch(1, one(1))
    now = World("cluster", {TOPIC: "topic", "more": "another" if anew else "more"}, {})
    third, ends = taken_over(tmp_path, "third", "from_tables", world=now)
    assert third.start.left == {}
    assert ends == {TOPIC: {0: 2}, **({} if anew else {"more": {0: 7}})}


@pytest.mark.parametrize("anew", [False, True])
def test_a_topic_that_a_log_left_which_never_began_is_gone_on_with(tmp_path: Path, anew: bool) -> None:
    """Unless it was made anew meanwhile, as behind one that began."""
    born(checkpoint(tmp_path), "games", World("cluster", {TOPIC: "topic", "more": "more"}, {}))
    first = Query(tmp_path, ends={TOPIC: {0: 0}, "more": {0: 7}})
    first.resume()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(queries, "positions", lambda at: json.dumps({TOPIC: {"0": at}, "more": {"0": 7}}))
        first.batch(0, one(0))
    taken_over(tmp_path, "second", "from_tables")
    now = World("cluster", {TOPIC: "topic", "more": "another" if anew else "more"}, {})
    _, ends = taken_over(tmp_path, "third", "from_tables", world=now)
    assert ends == {TOPIC: {0: 1}, **({} if anew else {"more": {0: 7}})}


@pytest.mark.parametrize("anew", [False, True])
def test_what_tables_have_of_a_topic_that_was_left_is_passed_by(tmp_path: Path, anew: bool) -> None:
    """Unless it was made anew meanwhile: its records have the same offsets, and are in no table."""
    already = {GOLF: {TOPIC: {0: 0}, "more": {0: 7}}}
    start = Start("from_tables", already=already, left={"more": "more"})
    born(checkpoint(tmp_path), "games", WORLD, start)
    batches(tmp_path, 1)
    now = World("cluster", {TOPIC: "topic", "more": "another" if anew else "more"}, {})
    found = heritage(tmp_path).start("from_tables", "games", (), now)
    assert found.already == {GOLF: {TOPIC: {0: 0}, **({} if anew else {"more": {0: 7}})}}


def test_behind_a_log_that_was_to_begin_again_and_never_began_nothing_is_gone_on_with(tmp_path: Path) -> None:
    """The offsets of the one before may be those of another cluster, which is why it was to be done again."""
    batches(tmp_path, 1)
    elsewhere = World("another", {TOPIC: "topic"}, {})
    taken_over(tmp_path, "second", "again", world=elsewhere)
    third, ends = taken_over(tmp_path, "third", "from_tables", world=elsewhere)
    assert (ends, owned(tmp_path)) == (None, {GOLF: third.id})


def test_records_that_a_run_set_aside_in_a_store_go_with_its_tables_once_it_is_said_to_be_dead(
    in_s3: Files,
) -> None:
    """They hold payloads, and nobody else looks there again."""
    root = in_s3.below("lake")
    for name in ("dead", "alive"):
        root.put(f"_aside/{name}/5-a/records.parquet", b"payload")
    tables = TableBook(root, Columns(), None, 4, native := NativeCommits())
    new = Generation("new", "", "games", WORLD, Start("from_tables", {}, dead=("dead",)))
    owners = Owners(Records(root), Owner("games", "there", "new"), dead=new.start.dead)
    Heritage(Reaching(tables, native, NO_SPARK, lambda log: Checkpoint(in_s3))).complete(new, owners)
    assert [info.path for info in root.list("_aside/dead/5-a")] == []
    assert [info.path for info in root.list("_aside/alive/5-a")] == ["_aside/alive/5-a/records.parquet"]
