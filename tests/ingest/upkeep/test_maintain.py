from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from tests.ingest.commit_log.logs import begun, decided
from tests.ingest.merge.test_upsert import row
from tests.ingest.merge.upserted import Upserted
from tests.ingest.pipelines import settings
from tests.ingest.storage.stores import Store
from tests.ingest.upkeep.kept_up import DAY, HEAVY_IN_S3, merged, newest, upserted, values

from distributary.errors import ConfigError, PipelineError
from distributary.ingest.checkpoint.folder import Checkpoint
from distributary.ingest.checkpoint.generation import World, born
from distributary.ingest.commit_log.entries import Owner
from distributary.ingest.commit_log.owners import Records
from distributary.ingest.log_paths import entry_path
from distributary.ingest.merge.rule import memory_folder
from distributary.ingest.parquet.data_file import DataFile, file_name
from distributary.ingest.progress import Advance
from distributary.ingest.settings.groups import Keep
from distributary.ingest.settings.model import Settings
from distributary.ingest.storage.contract import Files
from distributary.ingest.tables.handle import options
from distributary.ingest.tables.log import append_actions, last_checkpoint, put_entry
from distributary.ingest.upkeep import maintain as module
from distributary.ingest.upkeep import record, worn
from distributary.ingest.upkeep.compaction import Compaction, Size, compact
from distributary.ingest.upkeep.maintain import Upkeep, Wish, maintain, time_there

EIGHT_DAYS = Wish(older_than_days=8)


@pytest.fixture
def table(root: Files) -> Upserted:
    """A table with one row a key, what remembers its deletes, and a ledger, each in small files."""
    table = upserted(root, deletes=True)
    table.merge([row(100, 1, "gone")], deletes=[row(100, 2)])
    table.merge([row(101, 1, "x")], deletes=[row(102, 2)])
    for number in range(3):
        append(root, "ledger_batches", number)
    return table


@pytest.fixture
def pipeline(table: Upserted, root: Files, tmp_path: Path, request: pytest.FixtureRequest) -> Settings:
    """The settings of a pipeline that has that table."""
    given = settings(tmp_path, sink={"root": root.url})
    if root.remote:
        store: Store = request.getfixturevalue("s3_store")
        given = given.model_copy(update={"storage": store.options_by(store.port)})
    own(root, given, table.folder)
    return given


def append(root: Files, folder: str, number: int) -> None:
    place = root.below(folder)
    write_deltalake(
        place.url, pa.table({"batch_id": [number]}), mode="append", storage_options=options(place)
    )


def own(root: Files, given: Settings, folder: str) -> Owner:
    """Let a table be a pipeline's, by the record of its checkpoint, which is made."""
    here = Checkpoint.at(str(given.checkpoint))
    if here.files.info("generation.json") is None:
        here.make()
        born(here, given.name, World("cluster", {}, {}))
        begun(here.files)
    generation = here.files.read("generation.json").decode().partition('"id": "')[2][:32]
    owner = Owner(given.name, str(here), generation)
    assert Records(root).put(folder, 0, owner)
    return owner


def later(days: float) -> Callable[[Files], int]:
    return lambda root: time_there(root) + int(days * DAY)


def everything(root: Files) -> dict[str, tuple[int, str]]:
    folders = [folder for folder in root.folders() if not folder.startswith(".")]
    return {
        info.path: (info.size, info.tag)
        for folder in folders
        for part in (folder, f"{folder}/_delta_log")
        for info in root.list(part)
    }


def test_each_table_of_the_pipeline_is_kept_up_and_none_of_others(
    root: Files, table: Upserted, pipeline: Settings
) -> None:
    append(root, "somebody_elses", 1)
    append(root, "somebody_elses", 2)
    elses = {path: found for path, found in everything(root).items() if path.startswith("somebody")}
    done = maintain(pipeline)
    assert [one.table for one in done.tables] == ["players", memory_folder("players"), "ledger_batches"]
    assert [one.after.files for one in done.tables] == [1, 1, 1]
    assert [one.before.files for one in done.tables][1:] == [2, 3]
    assert all(one.made == 1 and not one.left and one.failed is None for one in done.tables)
    assert values(table) == {**merged(), 101: "x"}
    done.check()
    # What was read of logs is not read again.
    assert list(Checkpoint.at(str(pipeline.checkpoint)).files.names("upkeep")) == [
        f"{one.table}.json" for one in sorted(done.tables, key=lambda one: f"{one.table}.json")
    ]
    again = maintain(pipeline, EIGHT_DAYS, clock=later(9))
    # Of what was brought together, of staged files of which each row lost, and of vectors nothing is left.
    assert all(
        one.deleted.files >= one_before.compacted
        for one, one_before in zip(again.tables, done.tables, strict=True)
    )
    assert [len(list(root.names(one.table))) for one in again.tables] == [1, 1, 1]
    assert {path: found for path, found in everything(root).items() if path.startswith("somebody")} == elses
    assert root.folders(".distributary") in ([], ["owners"], ("owners",))


def test_whoever_opens_a_table_behind_upkeep_goes_through_no_entry(
    root: Files, table: Upserted, pipeline: Settings
) -> None:
    for number in range(8):
        table.merge([row(200 + number, 1, "x")])
    maintain(pipeline, Wish(dry_run=True))
    assert last_checkpoint(table.place).version == -1
    maintain(pipeline)
    assert last_checkpoint(table.place).version == newest(table.place)
    assert values(table) == {**merged(), 101: "x", **{200 + number: "x" for number in range(8)}}
    # What these few entries are takes no longer than a checkpoint of them.
    assert last_checkpoint(root.below("ledger_batches")).version == -1


@HEAVY_IN_S3
def test_a_dry_run_tells_what_would_be_done_and_changes_nothing(
    root: Files, table: Upserted, pipeline: Settings
) -> None:
    before = everything(root)
    told = maintain(pipeline, Wish(dry_run=True))
    assert everything(root) == before
    done = maintain(pipeline)
    assert told.dry_run
    assert [(one.table, one.compacted, one.made) for one in told.tables] == [
        (one.table, one.compacted, one.made) for one in done.tables
    ]
    before = everything(root)
    told = maintain(pipeline, Wish(dry_run=True), clock=later(9))
    assert everything(root) == before
    done = maintain(pipeline, clock=later(9))
    assert [one.deleted for one in told.tables] == [one.deleted for one in done.tables]
    assert all(one.deleted.files for one in done.tables)


@HEAVY_IN_S3
def test_tables_are_chosen_by_their_folders(pipeline: Settings) -> None:
    done = maintain(pipeline, Wish(tables=("ledger_batches",)))
    assert [one.table for one in done.tables] == ["ledger_batches"]
    with pytest.raises(ConfigError, match=r"^chess, quarantine: no such table .* it has players, players__"):
        maintain(pipeline, Wish(tables=("quarantine", "chess", "players")))


@pytest.mark.parametrize("days", [6.9, 0, -1, float("nan"), float("inf")])
def test_a_time_that_is_too_short_is_refused_unless_forced(tmp_path: Path, days: float) -> None:
    with pytest.raises(ConfigError, match=r"--force|in days, such as 7"):
        maintain(settings(tmp_path), Wish(older_than_days=days))


def test_a_pipeline_without_tables_has_no_upkeep(tmp_path: Path) -> None:
    assert maintain(settings(tmp_path), Wish(older_than_days=1, force=True)).tables == ()
    assert not list(tmp_path.iterdir())


def test_a_clock_here_that_is_ahead_makes_no_file_old(
    root: Files, pipeline: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = time.time
    with monkeypatch.context() as patch:
        patch.setattr(time, "time", lambda: here() + 1000 * 86_400)
        done = maintain(pipeline)
    assert all(one.deleted == Size() for one in done.tables)
    assert abs(time_there(root) - here() * 1000) < 3_600_000


def test_a_clock_there_that_is_ahead_makes_no_file_old(
    root: Files, pipeline: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even what another program is about to commit, which no log of a pipeline tells of."""
    name = f"players/part-00000-{uuid.uuid4()}-c000.snappy.parquet"
    root.put(name, b"rows")
    at, here = time_there(root) / 1000, time.time
    with monkeypatch.context() as patch:
        patch.setattr(time, "time", lambda: here() - (here() - at) - 100 * 86_400)
        done = maintain(pipeline, Wish(older_than_days=0, force=True))
    assert all(one.deleted == Size() for one in done.tables)
    assert root.info(name) is not None


def test_what_was_brought_together_just_now_is_there_for_who_reads_it(
    root: Files, pipeline: Settings
) -> None:
    before = set(root.names("ledger_batches"))
    maintain(pipeline, Wish(older_than_days=0, force=True))
    assert before < set(root.names("ledger_batches"))
    maintain(pipeline, Wish(older_than_days=0, force=True), clock=later(0.01))
    assert not before & set(root.names("ledger_batches"))


@HEAVY_IN_S3
def test_a_parked_table_is_left_alone(table: Upserted, root: Files, pipeline: Settings) -> None:
    writer = begun(Checkpoint.at(str(pipeline.checkpoint)).files)
    writer.park({"players": (decided(writer).number,)}, "why")
    before = {path: found for path, found in everything(root).items() if path.startswith("players/")}
    done = maintain(pipeline, EIGHT_DAYS, clock=later(9))
    assert done.tables[0].left == ("it is parked, batches that wait for it: 1 (`distributary resolve`)",)
    assert {path: found for path, found in everything(root).items() if path.startswith("players/")} == before
    assert done.tables[-1].after.files == 1


@HEAVY_IN_S3
def test_what_remembers_the_deletes_of_a_parked_table_is_left_alone(root: Files, pipeline: Settings) -> None:
    writer, memory = begun(Checkpoint.at(str(pipeline.checkpoint)).files), memory_folder("players")
    number = decided(writer).number
    writer.settle(number)
    writer.park({"players": (number,)}, "why")
    before = set(root.names(memory))
    maintain(pipeline)
    done = maintain(pipeline, EIGHT_DAYS, clock=later(9))
    assert set(root.names(memory)) == before
    assert done.tables[1].left == ("players is parked, batches that wait for it: 1 (`distributary resolve`)",)


@HEAVY_IN_S3
def test_files_of_a_batch_that_is_not_settled_stay(root: Files, pipeline: Settings) -> None:
    owner = Records(root).of("players")
    assert owner is not None
    names = [file_name(owner.generation, number) for number in (0, 1, 5)]
    for name in names:
        root.put(f"players/{name}", b"rows")
    writer = begun(Checkpoint.at(str(pipeline.checkpoint)).files)
    writer.settle(0)
    decided(writer)
    maintain(pipeline, clock=later(100))
    assert set(names) & set(root.names("players")) == set(names[1:])


@HEAVY_IN_S3
def test_files_of_a_pipeline_whose_log_is_elsewhere_stay_and_are_told_of(
    root: Files, pipeline: Settings
) -> None:
    other = Owner("others", "/nowhere/checkpoint", "fedc" * 8)
    assert Records(root).put("theirs", 0, other)
    name = file_name(other.generation, 3)
    root.put(f"ledger_batches/{name}", b"rows")
    done = maintain(pipeline, clock=later(100))
    (why,) = done.tables[-1].left
    assert why == f"files that stay though they are old: 1, as the log of {other} cannot be reached from here"
    assert name in set(root.names("ledger_batches"))


def test_what_a_log_alone_tells_of_goes_before_the_log_is_summed_up(
    root: Files, pipeline: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a generation before the one that has the tables: no owner tells whose files in the ledger these are."""
    place = root.below("ledger_batches")
    place.put(name := file_name("fedc" * 8, 3), batch_ids(7))
    info = place.info(name)
    assert info is not None
    file = DataFile("ledger_batches", name, 1, info.size, '{"numRecords": 1}')
    assert put_entry(place, newest(place) + 1, append_actions([(file, info)], "g/batches", 3, {}))
    for number in range(8):
        append(root, "ledger_batches", number)
    with monkeypatch.context() as patch:
        patch.setattr(module, "shorten_tail", lambda *_: False)
        maintain(pipeline)
    ten_days_before(place)
    done = maintain(pipeline, EIGHT_DAYS, clock=later(9))
    assert last_checkpoint(place).version == newest(place)
    assert done.tables[-1].left == ()
    assert name not in set(place.names())


def batch_ids(number: int) -> bytes:
    memory = pa.BufferOutputStream()
    pq.write_table(pa.table({"batch_id": [number]}), memory)
    return bytes(memory.getvalue().to_pybytes())


def ten_days_before(place: Files) -> None:
    """Let what was taken away have been by then."""
    for version in range(newest(place) + 1):
        text = place.read(entry_path(version)).decode()
        old = re.sub(
            r'("deletionTimestamp":)(\d+)', lambda found: f"{found[1]}{int(found[2]) - 10 * DAY}", text
        )
        place.put(entry_path(version), old.encode())


@HEAVY_IN_S3
def test_a_table_that_delta_rs_cannot_open_is_left_with_the_reason(
    table: Upserted, root: Files, pipeline: Settings
) -> None:
    path = f"players/{entry_path(0)}"
    text = root.read(path).decode().replace('"deletionVectors"', '"deletionVectors","hovercraft"')
    root.put(path, text.encode())
    done = maintain(pipeline, EIGHT_DAYS, clock=later(9))
    assert "hovercraft" in done.tables[0].left[0].lower()
    assert done.tables[0].deleted == Size()
    assert done.tables[-1].after.files == 1


@HEAVY_IN_S3
def test_one_tables_failure_keeps_none_of_the_others_from_its_upkeep(
    table: Upserted, pipeline: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(place: Files, *, dry_run: bool) -> Compaction:
        if place.url.endswith("/players"):
            raise PermissionError(f"{place}: you may not")
        return compact(place, dry_run=dry_run)

    monkeypatch.setattr(worn, "compact", failing)
    done = maintain(pipeline)
    assert [one.failed for one in done.tables] == [f"{table.place}: you may not", None, None]
    assert done.tables[-1].after.files == 1
    with pytest.raises(PipelineError, match=r"upkeep failed for 1 of 3 tables; .* players: .*you may not"):
        done.check()


class PanicException(BaseException):
    """As Rust's reach Python."""


@HEAVY_IN_S3
@pytest.mark.parametrize(
    "fault", [KeyError("ann@example.org"), NotImplementedError("x"), PanicException("y")]
)
def test_a_fault_that_nobody_has_foreseen_is_told_and_keeps_no_other_table_from_its_upkeep(
    table: Upserted, pipeline: Settings, monkeypatch: pytest.MonkeyPatch, fault: BaseException
) -> None:
    def failing(place: Files, *, dry_run: bool) -> Compaction:
        if place.url.endswith("/players"):
            raise fault
        return compact(place, dry_run=dry_run)

    monkeypatch.setattr(worn, "compact", failing)
    done = maintain(pipeline)
    first, *others = [one.failed for one in done.tables]
    assert first is not None
    assert first.startswith(f"it failed by {type(fault).__name__} in ")
    assert first.endswith("which nobody has foreseen")
    assert "ann@" not in first
    assert (others, done.tables[-1].after.files) == ([None, None], 1)

    def broken(*_: object) -> None:
        raise fault

    monkeypatch.setattr(module, "state_of", broken)
    monkeypatch.setattr(record, "_generations", broken)
    given = pipeline.model_copy(
        update={"sink": pipeline.sink.model_copy(update={"keep": Keep(batches_days=1)})}
    )
    done = maintain(given)
    told = [done.record.failed, *(one.failed for one in done.tables)]
    assert all(one and one.endswith("which nobody has foreseen") for one in told)


@HEAVY_IN_S3
def test_a_table_at_which_upkeep_died_comes_last_the_next_time(
    table: Upserted, pipeline: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where memory does not do for it: all behind it would be without upkeep for ever, or behind the second of two."""
    kept, told = Checkpoint.at(str(pipeline.checkpoint)).files, list[list[str]]()

    def noted(place: Files, *, dry_run: bool) -> Compaction:
        told.append(json.loads(kept.read("upkeep/under-way")))
        return compact(place, dry_run=dry_run)

    monkeypatch.setattr(worn, "compact", noted)
    monkeypatch.setattr(module, "_THREADS_IN_STORES", 1)
    players, memory, ledger = order = ["players", memory_folder("players"), "ledger_batches"]
    assert ([one.table for one in maintain(pipeline).tables], told) == (order, [[one] for one in order])
    alone, both = [[memory], [ledger], []], [[memory, players, ledger], [players, memory], [players]]
    for died, since in ([players], [[players, *one] for one in alone]), ([memory, players], both):
        assert kept.info("upkeep/under-way") is None
        kept.put("upkeep/under-way", json.dumps(died).encode())
        assert ([one.table for one in maintain(pipeline).tables], told[-3:]) == (order, since)
    assert kept.info("upkeep/under-way") is None


@HEAVY_IN_S3
def test_who_asks_it_to_end_is_heard(
    table: Upserted, pipeline: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(place: Files, *, dry_run: bool) -> Compaction:
        raise KeyboardInterrupt

    monkeypatch.setattr(worn, "compact", interrupted)
    with pytest.raises(KeyboardInterrupt):
        maintain(pipeline)


@HEAVY_IN_S3
def test_progress_is_told_table_by_table(pipeline: Settings) -> None:
    told = list[object]()

    def bar(total: int | None, title: str) -> Advance:
        told.append((total, title))
        return told.append

    done: Upkeep = maintain(pipeline, make_bar=bar)
    assert told == [(3, "upkeep of tables"), 1, 1, 1]
    assert len(done.tables) == 3


def test_who_is_killed_amid_it_leaves_nothing_wrong(
    table: Upserted, root: Files, pipeline: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = values(table)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(module, "delete", killed)
        with pytest.raises(KeyboardInterrupt):
            maintain(pipeline)
    assert values(table) == before
    table.merge([row(0, 9, "later")])
    maintain(pipeline, EIGHT_DAYS, clock=later(9))
    assert values(table) == {**before, 0: "later"}
    assert newest(table.place) > 0
