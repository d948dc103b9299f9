from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder
from tests.ingest.batches import decided, settled, settled_by
from tests.ingest.commits import by_log, table_commit
from tests.ingest.kafka_records import TOPIC, folder, numbered, value
from tests.ingest.pipelines import checkpoint, keep, settings
from tests.ingest.queries import Query, one

from distributary.errors import CommitImpossible, ConfigError, LeaseHeld, PipelineError
from distributary.ingest import failpoints
from distributary.ingest.batch.finish import Finisher
from distributary.ingest.checkpoint.manifest import Manifest
from distributary.ingest.checkpoint.stuck import Resolutions, StuckCommits
from distributary.ingest.columns.safe_names import BATCHES_TABLE
from distributary.ingest.erasure.erase import put_aside
from distributary.ingest.lease.holding import held
from distributary.ingest.lease.replaying import alone
from distributary.ingest.merge.rule import memory_folder
from distributary.ingest.progress import Advance
from distributary.ingest.resolve import resolve, stuck_tables
from distributary.ingest.routing.conditions import conditions_ahead
from distributary.ingest.settings.groups import Columns
from distributary.ingest.storage.opening import files_at
from distributary.ingest.tables.known import (
    ENTITY_PROPERTY,
    PIPELINE_PROPERTY,
    REMEMBERS_PROPERTY,
    UPSERT_PROPERTY,
    MadeWith,
    TableBook,
)
from distributary.ingest.tables.log import put_entry
from distributary.ingest.tables.log_commit import NativeCommits
from distributary.ingest.upkeep.maintain import maintain

A = pa.schema([])
GOLF, QUEST = folder("golf"), folder("quest")


@pytest.fixture
def stuck(tmp_path: Path) -> Manifest:
    """A batch of two tables, decided, of which one cannot take its file."""
    here = checkpoint(tmp_path)
    values = [value(1, game_name="golf"), value(1, game_name="quest")]
    manifest = decided(tmp_path, settled(tmp_path, numbered(values)), {TOPIC: {0: (0, 2)}})
    keep(here, manifest)
    error = table_commit(tmp_path / "lake" / GOLF, [], A, "app", manifest.batch_id).impossible(
        "it was altered"
    )
    StuckCommits(here).write(manifest.batch_id, error)
    return manifest


def test_the_stuck_table_is_named_with_the_rows_that_wait(tmp_path: Path, stuck: Manifest) -> None:
    (found,) = stuck_tables(settings(tmp_path))
    assert (found.batch_id, found.table, found.rows) == (stuck.batch_id, GOLF, 1)
    assert "it was altered" in found.why


def test_a_table_waits_whatever_words_say_that_it_does(tmp_path: Path, stuck: Manifest) -> None:
    error = CommitImpossible("nothing of a table is in this sentence", (GOLF,))
    StuckCommits(checkpoint(tmp_path)).write(stuck.batch_id, error)
    assert [one.table for one in stuck_tables(settings(tmp_path))] == [GOLF]
    other = CommitImpossible(f"table /lake/{GOLF} is named here, and does not wait", (QUEST,))
    StuckCommits(checkpoint(tmp_path)).write(stuck.batch_id, other)
    assert [one.table for one in stuck_tables(settings(tmp_path))] == [QUEST]


def test_where_an_earlier_version_named_no_tables_all_that_lack_the_batch_wait(
    tmp_path: Path, stuck: Manifest
) -> None:
    earlier = {
        "batch_id": stuck.batch_id,
        "message": "a table was altered",
        "at": "2026-01-02T03:04:05+00:00",
    }
    (checkpoint(tmp_path).folder / "stuck" / f"{stuck.batch_id}.json").write_text(json.dumps(earlier))
    (quest,) = [one for one in stuck.tables if one.folder == QUEST]
    path = tmp_path / "lake" / QUEST
    by_log(NativeCommits(), path, quest.files, quest.layout.columns, quest.app_id, stuck.batch_id, {})
    waiting = stuck_tables(settings(tmp_path))
    assert {one.table for one in waiting} == {one.folder for one in stuck.tables} - {QUEST}
    assert GOLF in {one.table for one in waiting}
    resolve(settings(tmp_path), GOLF, "skip")
    assert GOLF not in {one.table for one in stuck_tables(settings(tmp_path))}


def test_a_table_that_does_not_wait_cannot_be_decided_about(tmp_path: Path, stuck: Manifest) -> None:
    with pytest.raises(ConfigError, match=f"table {QUEST} does not wait.*those that do: {GOLF}"):
        resolve(settings(tmp_path), QUEST, "skip")


def test_a_table_that_is_skipped_waits_no_more(tmp_path: Path, stuck: Manifest) -> None:
    resolve(settings(tmp_path), GOLF, "skip")
    assert stuck_tables(settings(tmp_path)) == []
    assert Resolutions(checkpoint(tmp_path)).skipped(stuck.batch_id) == {GOLF}


def test_a_table_made_anew_is_empty_and_has_the_files_that_wait(tmp_path: Path, stuck: Manifest) -> None:
    resolve(settings(tmp_path), GOLF, "recreate")
    (old,) = (tmp_path / "lake").glob(f".{GOLF}.replaced-*")
    # An erasure does not look there, and says so.
    assert put_aside(files_at(tmp_path / "lake"), [QUEST, GOLF]) == [old.name]
    table = DeltaTable(tmp_path / "lake" / GOLF)
    assert table.metadata().configuration[ENTITY_PROPERTY] == "golf"
    assert table.to_pyarrow_table().num_rows == 0
    assert DeltaTable(old).version() == 0
    (files,) = [one.files for one in stuck.tables if one.folder == GOLF]
    for file in files:
        assert (tmp_path / "lake" / GOLF / file.name).stat().st_size == file.bytes


def test_no_table_is_made_anew_while_upkeep_may_commit_to_the_one_before(
    tmp_path: Path, stuck: Manifest
) -> None:
    chosen = settings(tmp_path)
    refused = list[str]()

    def amid(total: int | None, title: str) -> Advance:
        with pytest.raises(PipelineError) as error:
            resolve(chosen, GOLF, "recreate")
        refused.append(str(error.value))
        return lambda done: None

    maintain(chosen, make_bar=amid)
    assert len(refused) == 1
    assert "upkeep is under way" in refused[0]
    assert list((tmp_path / "lake").glob(f".{GOLF}.*")) == []
    resolve(chosen, GOLF, "recreate")
    assert stuck_tables(chosen) != []


def test_no_table_is_made_anew_while_a_replay_may_commit_to_the_one_before(
    tmp_path: Path, stuck: Manifest
) -> None:
    with alone(checkpoint(tmp_path)), pytest.raises(LeaseHeld, match="replay"):
        resolve(settings(tmp_path), GOLF, "recreate")
    assert list((tmp_path / "lake").glob(f".{GOLF}.*")) == []


def test_a_table_with_one_row_a_key_is_made_anew_as_one_and_takes_what_waits(tmp_path: Path) -> None:
    here = checkpoint(tmp_path)
    by = settings(tmp_path, tables=[{"match": "golf", "mode": "upsert", "keys": ["score"]}])
    book = by.rule_book()
    values = [value(1, game_name="golf", score=score) for score in (1, 2, 1)]
    batch = settled_by(by, tmp_path, numbered(values), specs=book.specs, patterns=book.patterns)
    manifest = decided(tmp_path, batch, {TOPIC: {0: (0, 3)}}, chosen=by)
    keep(here, manifest)
    shutil.rmtree(tmp_path / "lake" / GOLF / "_delta_log")
    made_with = MadeWith(spec_of=book.of, by_text=False)
    tables = TableBook(str(tmp_path / "lake"), Columns(), None, made_with=made_with)
    finisher = Finisher(Columns(), here, tables, NativeCommits(), "lineage")
    with pytest.raises(CommitImpossible, match=GOLF):
        finisher.finish(manifest, None)

    resolve(by, GOLF, "recreate")
    finisher.finish(manifest, None)
    (row,) = DeltaTable(tmp_path / "lake" / BATCHES_TABLE).to_pyarrow_table().to_pylist()
    assert (row["rows_inserted"], row["rows_duplicate"]) == (2, 1)
    assert tables.pinned({"golf": GOLF}).keys() == {GOLF}
    told = DeltaTable(tmp_path / "lake" / GOLF).metadata().configuration[UPSERT_PROPERTY]
    assert json.loads(told) == {"keys": ["score"], "sequence_by": [], "topics": {TOPIC: "topic"}}


def test_what_remembers_a_tables_deletes_is_made_anew_where_it_is_gone(tmp_path: Path) -> None:
    here, when = checkpoint(tmp_path), "score > 10"
    rule = {"match": "golf", "mode": "upsert", "keys": ["score"], "deletes": when}
    by = settings(tmp_path, tables=[rule])
    book = replace(by.rule_book(), conditions=conditions_ahead([("deletes", when)]))
    values = [value(1, game_name="golf", score=score) for score in (1, 12, 1)]
    told = {"specs": book.specs, "patterns": book.patterns, "conditions": book.conditions}
    batch = settled_by(by, tmp_path, numbered(values), **told)
    manifest = decided(tmp_path, batch, {TOPIC: {0: (0, 3)}}, chosen=by)
    keep(here, manifest)
    assert manifest.table(GOLF).rows == 3
    memory = tmp_path / "lake" / memory_folder(GOLF)
    shutil.rmtree(memory / "_delta_log", ignore_errors=True)
    made_with = MadeWith(spec_of=book.of, by_text=False)
    tables = TableBook(str(tmp_path / "lake"), Columns(), None, made_with=made_with)
    finisher = Finisher(Columns(), here, tables, NativeCommits(), "lineage")
    with pytest.raises(CommitImpossible, match=memory.name) as caught:
        finisher.finish(manifest, None)
    # By that it is the table that waits, or is parked.
    assert caught.value.tables == (GOLF,)
    (waits,) = stuck_tables(by)
    assert (waits.table, waits.rows) == (GOLF, 3)

    resolve(by, GOLF, "recreate")
    finisher.finish(manifest, None)
    (row,) = DeltaTable(tmp_path / "lake" / BATCHES_TABLE).to_pyarrow_table().to_pylist()
    assert (row["rows_inserted"], row["rows_duplicate"], row["rows_deleted"]) == (1, 1, 1)
    assert DeltaTable(memory).to_pyarrow_table()["kafka_offset"].to_pylist() == [1]
    assert DeltaTable(memory).metadata().configuration[REMEMBERS_PROPERTY] == GOLF
    # Once more it changes nothing.
    versions = [DeltaTable(one).version() for one in (memory, tmp_path / "lake" / GOLF)]
    finisher.finish(manifest, None)
    assert [DeltaTable(one).version() for one in (memory, tmp_path / "lake" / GOLF)] == versions


def test_a_table_whose_folder_is_gone_is_made_anew(tmp_path: Path, stuck: Manifest) -> None:
    shutil.rmtree(tmp_path / "lake" / GOLF)
    resolve(settings(tmp_path), GOLF, "recreate")
    assert DeltaTable(tmp_path / "lake" / GOLF).version() == 0


def test_a_table_with_one_row_a_key_that_is_made_anew_takes_the_rows_that_wait_and_those_that_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = [{"match": "*", "mode": "upsert", "keys": ["game_name"], "comment": "Newest games"}]
    chosen = settings(tmp_path, tables=rules)

    def begun() -> Query:
        query = Query(tmp_path, tables=rules)
        run = query.runner.attempts.run
        run.tables.made_with = MadeWith(
            spec_of=chosen.rule_book().of, topics=run.generation.world.topics, by_text=False
        )
        query.resume()
        return query

    def dropped(point: str, _: int) -> None:
        if point == failpoints.AFTER_MANIFEST:
            shutil.rmtree(tmp_path / "lake" / GOLF / "_delta_log")

    with monkeypatch.context() as patch, pytest.raises(CommitImpossible, match="no Delta table any more"):
        patch.setattr(failpoints, "reach", dropped)
        begun().batch(0, one(0))
    resolve(chosen, GOLF, "recreate")
    query = begun()
    assert offsets(tmp_path / "lake" / GOLF) == [0]
    query.batch(1, one(1))
    assert offsets(tmp_path / "lake" / GOLF) == [1]
    table = DeltaTable(tmp_path / "lake" / GOLF)
    assert table.metadata().configuration[PIPELINE_PROPERTY] == "games"
    assert table.metadata().description == "Newest games"


def offsets(table: Path) -> list[int]:
    """The offsets of a table's rows, but for those that are marked as gone."""
    reader = QueryBuilder().register("it", DeltaTable(table))
    found: list[int] = pa.table(reader.execute("SELECT kafka_offset FROM it").read_all())[
        "kafka_offset"
    ].to_pylist()
    return found


def test_nothing_is_decided_while_a_run_is_alive(tmp_path: Path, stuck: Manifest) -> None:
    with held(checkpoint(tmp_path), "games"), pytest.raises(LeaseHeld):
        resolve(settings(tmp_path), GOLF, "skip")


def test_a_batch_that_came_to_its_end_is_stuck_no_more(tmp_path: Path, stuck: Manifest) -> None:
    StuckCommits(checkpoint(tmp_path)).clear(stuck.batch_id)
    StuckCommits(checkpoint(tmp_path)).clear(stuck.batch_id)
    assert stuck_tables(settings(tmp_path)) == []


def test_a_table_that_nobody_can_open_any_more_is_decided_about_once_it_is_moved_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = Query(tmp_path)
    query.resume()
    query.batch(0, one(0))
    golf = tmp_path / "lake" / GOLF

    def upgraded(point: str, _: int) -> None:
        if point == failpoints.AFTER_MANIFEST:
            of = {"minReaderVersion": 3, "minWriterVersion": 7}
            features = {"readerFeatures": ["fromTheFuture"], "writerFeatures": ["fromTheFuture"]}
            assert put_entry(golf, 2, [{"protocol": {**of, **features}}])

    with monkeypatch.context() as patch:
        patch.setattr(failpoints, "reach", upgraded)
        with pytest.raises(CommitImpossible, match=r"nobody can open it \(.*fromTheFuture"):
            query.batch(1, one(1))
    with pytest.raises(
        PipelineError,
        match=r"move its folder away, and let `distributary resolve` decide about the rows that wait then",
    ):
        Query(tmp_path).resume()
    golf.rename(tmp_path / "away")
    with pytest.raises(CommitImpossible, match="no Delta table any more"):
        Query(tmp_path).resume(one(1))
    resolve(settings(tmp_path), GOLF, "recreate")
    last = Query(tmp_path)
    last.resume(one(1))
    assert last.rows(GOLF) == 1
