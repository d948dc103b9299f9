"""A query's batches from records to commits, with workers in this process: what the driver does needs no JVM."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from tests.ingest.batches import generation
from tests.ingest.kafka_records import Sent, numbered
from tests.ingest.pipelines import make_table
from tests.ingest.queries import EVENTS, GOLF, QUEST, InProcess, Query, batches, files, one, value

from distributary.errors import CheckpointMismatch, Fenced, PipelineError, PolicyStopped, TableAhead
from distributary.ingest import failpoints
from distributary.ingest.batch.finish import Finisher
from distributary.ingest.batch.passes import Records
from distributary.ingest.batch.restart import RestartToEvolve
from distributary.ingest.checkpoint.folder import CHANGES
from distributary.ingest.checkpoint.manifests import ManifestStore
from distributary.ingest.checkpoint.stuck import Resolutions
from distributary.ingest.columns.safe_names import BATCHES_TABLE, CHANGES_TABLE, QUARANTINE_TABLE
from distributary.ingest.commit_log import writing
from distributary.ingest.commit_log.reading import entry_path
from distributary.ingest.commit_log.writing import Writer
from distributary.ingest.parquet.data_file import file_name
from distributary.ingest.pins import Pins
from distributary.ingest.storage.contract import Files
from distributary.ingest.tables import transaction
from distributary.ingest.tables.handle import opened
from distributary.ingest.worker.report import TaskReport


def test_what_is_unknown_is_asked_for_and_taken_up_by_a_second_pass(tmp_path: Path) -> None:
    query = Query(tmp_path)
    query.batch(0, numbered(EVENTS))
    assert (query.rows(GOLF), query.rows(QUEST), query.rows(QUARANTINE_TABLE)) == (1, 1, 1)
    assert query.rows(BATCHES_TABLE) == 1
    first, second = query.workers.passes
    assert (first.schemas.records, first.turn.count_input) == ((), True)
    assert ([one.key[0] for one in second.schemas.records], second.turn.count_input) == ([1, 2], False)
    (done,) = query.done
    assert (done.resumed, done.manifest.counts.total_read, done.manifest.counts.dropped) == (
        False,
        4,
        {"tombstone": 1},
    )


def test_a_batch_that_was_decided_is_finished_and_not_decided_again(tmp_path: Path) -> None:
    query = Query(tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Finisher, "finish", stopped)
        with pytest.raises(PolicyStopped):
            query.batch(0, numbered(EVENTS))
    again = Query(tmp_path)
    again.resume(numbered(EVENTS))
    assert (again.workers.passes, again.done[0].resumed) == ([], True)
    assert (again.rows(GOLF), again.rows(BATCHES_TABLE)) == (1, 1)


def test_a_batch_that_all_tables_have_is_left_alone(tmp_path: Path) -> None:
    Query(tmp_path).batch(0, numbered(EVENTS))
    again = Query(tmp_path)
    again.resume(numbered(EVENTS))
    assert (again.workers.passes, again.done) == ([], [])
    assert (again.rows(GOLF), again.rows(BATCHES_TABLE)) == (1, 1)


def test_a_query_of_the_same_run_finishes_what_the_one_before_left(tmp_path: Path) -> None:
    query = Query(tmp_path)
    query.resume()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Finisher, "finish", stopped)
        with pytest.raises(PolicyStopped):
            query.batch(0, numbered(EVENTS))
    query.resume(numbered(EVENTS))
    assert [done.resumed for done in query.done] == [True]
    assert (query.rows(GOLF), query.rows(BATCHES_TABLE)) == (1, 1)
    assert query.log.settled == 1


def test_a_batch_of_no_offsets_is_none(tmp_path: Path) -> None:
    query = Query(tmp_path)
    query.batch(0, [])
    assert (query.done, query.log.next) == ([], 1)
    query.batch(0, numbered(EVENTS))
    query.batch(len(EVENTS), [])
    assert [done.manifest.batch_id for done in query.done] == [1]


def test_what_a_run_wrote_and_did_not_decide_is_swept_by_the_next_one(tmp_path: Path) -> None:
    query = Query(tmp_path)
    query.batch(0, numbered(EVENTS))
    kept = {path.name for path in (tmp_path / "lake").glob("*/*.parquet")}
    orphan = tmp_path / "lake" / GOLF / file_name(generation(tmp_path).id, query.log.next)
    orphan.write_bytes(b"rows")
    Query(tmp_path).resume()
    assert {path.name for path in (tmp_path / "lake").glob("*/*.parquet")} == kept


def test_tables_that_are_ahead_of_the_log_stop_the_run_before_anything_is_swept(tmp_path: Path) -> None:
    query = Query(tmp_path)
    query.batch(0, numbered(EVENTS))
    for number in (0, 1):
        (query.here.folder / entry_path(number)).unlink()
    kept = {path.name for path in (tmp_path / "lake").glob("*/*.parquet")}
    again = Query(tmp_path)
    with pytest.raises(
        CheckpointMismatch, match=r"have batch 1, and the log in .* knows no batch.* an older copy"
    ):
        again.resume()
    assert {path.name for path in (tmp_path / "lake").glob("*/*.parquet")} == kept


def test_a_ledger_that_does_not_answer_is_asked_again_before_anything_is_swept(tmp_path: Path) -> None:
    query = batches(tmp_path, 1)
    shutil.copytree(query.here.folder, tmp_path / "copy")
    query.batch(1, one(1))
    shutil.rmtree(query.here.folder)
    shutil.copytree(tmp_path / "copy", query.here.folder)
    kept = files(tmp_path)

    def unavailable(_: object) -> None:
        raise DeltaError("503 Slow Down")

    again = Query(tmp_path)
    for _ in range(2):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(transaction, "opened", unavailable)
            with pytest.raises(PipelineError, match=r"ledger_batches.*503 Slow Down.*tried again") as caught:
                again.resume()
        assert not caught.value.fatal
    with pytest.raises(CheckpointMismatch, match="into an empty folder"):
        again.resume()
    assert files(tmp_path) == kept


def put_back(query: Query, copy: Path) -> None:
    shutil.rmtree(query.here.folder)
    shutil.copytree(copy, query.here.folder)


def test_a_table_that_alone_is_ahead_of_an_old_copy_stops_the_run_before_anything_is_swept(
    tmp_path: Path,
) -> None:
    query = batches(tmp_path, 1)
    shutil.copytree(query.here.folder, tmp_path / "copy")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(failpoints, "_fired", set())
        patch.setenv(failpoints.VARIABLE, f"{failpoints.BETWEEN_COMMITS}=fail")
        with pytest.raises(failpoints.Failpoint):
            query.batch(1, one(1))
    put_back(query, tmp_path / "copy")
    kept = files(tmp_path)
    with pytest.raises(TableAhead, match=rf"table {GOLF} in .* has a batch that the log in .* does not"):
        Query(tmp_path).resume()
    assert files(tmp_path) == kept


def test_two_copies_of_a_log_do_not_take_each_others_batches_for_their_own(tmp_path: Path) -> None:
    query = batches(tmp_path, 1)
    shutil.copytree(query.here.folder, tmp_path / "copy")
    query = Query(tmp_path)
    query.resume()
    query.batch(1, one(1))
    put_back(query, tmp_path / "copy")
    again = Query(tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        # As if that had happened since the copy's run began.
        patch.setattr(Finisher, "reached", lambda *_: 1)
        patch.setattr(Finisher, "newest", lambda *_: {})
        patch.setattr(Finisher, "require_in_ledger", lambda *_: None)
        again.resume()
    with pytest.raises(TableAhead, match="has a batch 3 of other offsets"):
        again.batch(1, [*one(1), *one(2)])
    assert again.rows(GOLF) == 2
    # The next start knows it by the ledger, whose newest batch has this one's number.
    with pytest.raises(TableAhead, match=f"{BATCHES_TABLE} has a batch 3 of other offsets"):
        Query(tmp_path).resume()


def test_a_run_that_wakes_in_the_middle_of_its_commits_is_told_that_others_went_on(tmp_path: Path) -> None:
    query = batches(tmp_path, 1)
    with pytest.MonkeyPatch.context() as patch:
        commit = Finisher.finish

        def overtaken(*given: Any, **more: Any) -> None:
            patch.setattr(Finisher, "finish", commit)
            other = Query(tmp_path)
            other.resume(one(1))
            other.batch(2, one(2))
            commit(*given, **more)

        patch.setattr(Finisher, "finish", overtaken)
        with pytest.raises(Fenced, match="another run"):
            query.batch(1, one(1))
    assert query.rows(GOLF) == 3


@pytest.mark.parametrize("logs_only", [False, True])
def test_tables_that_were_put_back_from_a_copy_stop_the_run(tmp_path: Path, logs_only: bool) -> None:
    query, lake, copy = batches(tmp_path, 1), tmp_path / "lake", tmp_path / "copy"
    shutil.copytree(lake, copy)
    for begin in (1, 2):
        query.batch(begin, one(begin))
    for folder_ in [path.parent for path in lake.glob("*/_delta_log")]:
        part = "_delta_log" if logs_only else ""
        shutil.rmtree(folder_ / part)
        shutil.copytree(copy / folder_.name / part, folder_ / part)
    with pytest.raises(CheckpointMismatch, match=r"has batch 1 as .* batch 2 was in .* tables were put back"):
        Query(tmp_path).resume()


def test_a_ledger_that_was_let_go_without_a_row_is_no_older_copy(tmp_path: Path) -> None:
    query = batches(tmp_path, 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Finisher, "finish", stopped)
        with pytest.raises(PolicyStopped):
            query.batch(1, one(1))
    Resolutions(query.here).skip(2, BATCHES_TABLE)
    query = Query(tmp_path)
    query.resume(one(1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Finisher, "finish", stopped)
        with pytest.raises(PolicyStopped):
            query.batch(2, one(2))
    again = Query(tmp_path)
    again.resume(one(2))
    assert (again.rows(GOLF), again.rows(BATCHES_TABLE)) == (3, 2)


@pytest.mark.parametrize("decided", [1, 3])
def test_a_ledger_that_was_dropped_is_made_anew_and_nothing_is_swept_without_it(
    tmp_path: Path, decided: int
) -> None:
    batches(tmp_path, decided)
    shutil.rmtree(tmp_path / "lake" / BATCHES_TABLE)
    again = Query(tmp_path)
    again.resume()
    assert again.done == []
    again.resume()
    again.batch(decided, one(decided))
    assert (again.rows(GOLF), again.rows(BATCHES_TABLE)) == (decided + 1, 1)
    Query(tmp_path).resume()


def test_lost_files_of_a_decided_batch_are_written_again_from_its_manifest(tmp_path: Path) -> None:
    decided_and_lost(tmp_path)
    again = Query(tmp_path)
    again.resume(numbered(EVENTS))
    (replayed,) = again.workers.passes
    assert replayed.turn.schemas_final and replayed.turn.tables_final
    assert (again.rows(GOLF), again.rows(QUEST), again.rows(QUARANTINE_TABLE)) == (1, 1, 1)


@pytest.mark.parametrize("arrives", [False, True])
def test_files_written_again_by_an_attempt_that_was_not_told_of_its_entry_do_not_stay(
    tmp_path: Path, arrives: bool
) -> None:
    decided_and_lost(tmp_path)
    again = Query(tmp_path)
    late: list[Mapping[str, Any]] = []

    def unanswered(_: Writer, decided: Mapping[str, Any]) -> None:
        late.append(decided)
        raise OSError("no answer")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Writer, "rewrite", unanswered)
        for _ in range(2):
            with pytest.raises(OSError, match="no answer"):
                again.resume(numbered(EVENTS))
    assert len(set(parquet_files(tmp_path / "lake" / GOLF))) == 2
    if arrives:
        # Behind the writer's back, as by a request that was on its way.
        Writer(again.here.log, again.log.start, again.here.log.state()).rewrite(late[0])
    again.resume(numbered(EVENTS))
    # By the second one the log says that the number is settled, so that no start looks at it again.
    for offset in (len(EVENTS), len(EVENTS) + 1):
        again.batch(offset, [Sent(EVENTS[0], offset)])
    Query(tmp_path).resume()
    table = DeltaTable(tmp_path / "lake" / GOLF)
    assert sorted(Path(uri).name for uri in table.file_uris()) == parquet_files(tmp_path / "lake" / GOLF)
    assert (again.rows(GOLF), again.rows(QUEST), again.rows(QUARANTINE_TABLE)) == (3, 1, 1)


def test_lost_files_are_no_ones_that_were_committed_only_because_a_table_gives_no_answer(
    tmp_path: Path,
) -> None:
    decided_and_lost(tmp_path)

    def unavailable(table: Files) -> DeltaTable:
        if str(table).endswith(GOLF):
            raise DeltaError("503 Slow Down")
        return opened(table)

    again = Query(tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transaction, "opened", unavailable)
        with pytest.raises(PipelineError, match="503 Slow Down") as caught:
            again.resume(numbered(EVENTS))
    assert not caught.value.fatal
    again.resume(numbered(EVENTS))
    assert (again.rows(GOLF), again.rows(QUEST), again.rows(BATCHES_TABLE)) == (1, 1, 1)


def parquet_files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*.parquet"))


def test_the_ledger_tells_of_tables_that_an_attempt_made_before_it_died(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Writer, "append", stopped)
        with pytest.raises(PolicyStopped):
            Query(tmp_path / "died").batch(0, numbered(EVENTS))
    for name in ("died", "lived"):
        query = Query(tmp_path / name)
        query.resume()
        query.batch(0, numbered(EVENTS))
    died, lived = (told_of(tmp_path / name) for name in ("died", "lived"))
    assert died and {batch for batch, *_ in died} == {2}
    assert [what for _, *what in died] == [what for _, *what in lived]


def told_of(root: Path) -> list[tuple[Any, ...]]:
    """The ledger's rows of changes: of which batch, and what came to which table."""
    rows = DeltaTable(root / "lake" / CHANGES_TABLE).to_pyarrow_table().to_pylist()
    return sorted((row["batch_id"], row["table"], row["column"], row["kind"]) for row in rows)


def decided_and_lost(root: Path) -> None:
    """A batch that was decided and is in no table yet, of which one table's files are gone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Finisher, "finish", stopped)
        with pytest.raises(PolicyStopped):
            Query(root).batch(0, numbered(EVENTS))
    for file in (root / "lake" / GOLF).glob("*.parquet"):
        file.unlink()


def stopped(*_: object, **__: object) -> None:
    raise PolicyStopped("the process dies before its commits")


def test_what_is_noted_of_changes_does_not_grow_with_a_pipelines_age(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "KEPT", 2)
    monkeypatch.setattr(writing, "AT_ONCE", 1)
    query = Query(tmp_path)
    for begin in range(8):
        query.batch(begin, [Sent(value(1, game_name=f"game{begin}", score=1), begin)])
    noted = sorted(path.name for path in (query.here.folder / CHANGES).iterdir())
    assert noted == [f"{number:010d}-0.json" for number in (7, 8)]
    assert len({table for _, table, _, kind in told_of(tmp_path) if kind == "created"}) == 8
    # Attempts that died since the newest batch have noted what the next one is to tell, however many starts there were.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Writer, "append", stopped)
        with pytest.raises(PolicyStopped):
            query.batch(8, [Sent(value(1, game_name="last", score=1), 8)])
    for _ in range(6):
        again = Query(tmp_path)
        again.resume()
    again.batch(8, [Sent(value(1, game_name="last", score=1), 8)])
    assert len({table for _, table, _, kind in told_of(tmp_path) if kind == "created"}) == 9


def test_a_record_type_that_brings_columns_to_a_table_ends_the_query(tmp_path: Path) -> None:
    query = Query(tmp_path)
    query.batch(0, numbered(EVENTS[:1]))
    later = [Sent(value(2, game_name="golf", season="s"), 1)]
    with pytest.raises(RestartToEvolve):
        query.batch(1, later)
    assert ManifestStore(query.here).last_batch() == 1
    evolved = Query(tmp_path)
    evolved.resume()
    evolved.batch(1, later)
    assert "season" in DeltaTable(tmp_path / "lake" / GOLF).to_pyarrow_table().column_names
    assert [change.folder for change in evolved.done[0].changes] == [GOLF]


class KeepingBack(InProcess):
    """Workers that were handed large records, and wrote the others."""

    def run_small(self, records: Records, pins: Pins) -> TaskReport:
        report = self.run(records, pins)
        report.large = True
        return report


def test_of_a_pass_that_kept_large_records_back_nothing_stays(tmp_path: Path) -> None:
    class Large(Query):
        workers_of = KeepingBack

    query = Large(tmp_path)
    query.batch(0, numbered([value(1, game_name="golf", score=number) for number in (1, 2, 3)]))
    assert len(query.workers.passes) > 1
    (done,) = query.done
    assert files(tmp_path) == done.manifest.file_names()
    assert sorted(DeltaTable(tmp_path / "lake" / GOLF).to_pyarrow_table()["score"].to_pylist()) == [1, 2, 3]


class Retried(InProcess):
    """Workers whose first pass did a task twice, and left a file of which no report tells."""

    def run(self, todo: Records, pins: Pins) -> TaskReport:
        report = super().run(todo, pins)
        if len(self.passes) == 1:
            report.retried = True
            pins.batch.root.put(f"{GOLF}/{file_name(pins.batch.generation, pins.batch.made_for)}", b"lost")
        return report


def test_a_pass_that_is_begun_again_does_not_forget_that_a_task_was_done_twice(tmp_path: Path) -> None:
    class Unlucky(Query):
        workers_of = Retried

    query = Unlucky(tmp_path)
    # A column that somebody else named otherwise: what was written in the first pass does not go with it.
    make_table(tmp_path, GOLF, pa.schema([("score", pa.string())]))
    query.batch(0, numbered([value(1, game_name="golf", score=1)]))
    assert sum(one.turn.count_input for one in query.workers.passes) > 1, "begun again from the beginning"
    (done,) = query.done
    assert files(tmp_path) == done.manifest.file_names()


def test_a_checkpoint_that_got_another_name_before_its_first_batch_knows_the_tables_that_it_took_over(
    tmp_path: Path,
) -> None:
    batches(tmp_path, 1)
    query = Query(tmp_path, "second")
    owners = query.runner.attempts.run.owners
    assert owners.records.put(GOLF, 1, owners.me)
    owners.me = replace(owners.me, pipeline="renamed")
    assert query.runner.attempts.before(None).entities == {"golf": GOLF}
    query.resume()
    assert owners.records.pipelines()[GOLF] == "renamed"
