"""A query's batches from records to commits, with workers in this process: what the driver does needs no JVM."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame
from tests.ingest.batches import generation
from tests.ingest.kafka_records import TOPIC, Sent, batch, body, folder, numbered
from tests.ingest.pipelines import checkpoint, registry, schema_book, settings, table_book

from distributary.errors import PolicyStopped
from distributary.ingest.batch.attempt import Attempts, Run
from distributary.ingest.batch.finish import Finisher
from distributary.ingest.batch.passes import Workers
from distributary.ingest.batch.restart import RestartToEvolve
from distributary.ingest.batch.rewrite import Rewriter
from distributary.ingest.batch.runner import BatchRunner, Done
from distributary.ingest.checkpoint.lease import Lease
from distributary.ingest.checkpoint.manifest_file import ManifestStore
from distributary.ingest.columns.table_and_column_names import BATCHES_TABLE, QUARANTINE_TABLE
from distributary.ingest.pins import Pins
from distributary.ingest.pipeline import run_rules
from distributary.ingest.tables.log_commit import NativeCommits
from distributary.ingest.worker.demux import Demultiplexer
from distributary.ingest.worker.report import TaskReport
from distributary.producer_sim.formats.corruption import framed

GOLF, QUEST = folder("golf"), folder("quest")


@dataclass(frozen=True)
class InProcess(Workers):
    """Workers without Spark: one task, and every pass that it was sent on."""

    passes: list[Pins] = field(default_factory=list)

    def columns(self, records: DataFrame, pins: Pins) -> DataFrame:
        return records

    def run(self, todo: DataFrame, pins: Pins) -> TaskReport:
        self.passes.append(pins)
        task = Demultiplexer(pins)
        task.take(cast("Any", todo).batch)
        return task.finish()


def frame(sent: Sequence[Sent]) -> DataFrame:
    """Records as the driver gets them, of a session that reads back what was set aside."""

    def parquet(*paths: str) -> Any:
        (rows,) = [pq.ParquetFile(path).read().combine_chunks().to_batches()[0] for path in paths]
        return SimpleNamespace(batch=rows)

    conf = SimpleNamespace(set=lambda *_: None)
    session = SimpleNamespace(conf=conf, read=SimpleNamespace(parquet=parquet))
    return cast("DataFrame", SimpleNamespace(sparkSession=session, batch=batch(sent)))


class Query:
    """One query on the checkpoint under `root`, and what it said of its batches."""

    def __init__(self, root: Path, **groups: Any) -> None:
        self.root, self.here = root, checkpoint(root)
        chosen, native, tables = settings(root, **groups), NativeCommits(), table_book(root)
        (root / "lake").mkdir(exist_ok=True)
        born = generation(root)
        self.workers = InProcess(1, {}, 100)
        self.done: list[Done] = []
        self.lease = Lease(self.here, None, "games")
        run = Run(
            pipeline="games",
            checkpoint=self.here,
            generation=born,
            lease=self.lease,
            tables=tables,
            rules=run_rules(chosen),
            workers=self.workers,
        )
        schemas = schema_book(self.here, registry())
        schemas.open([])
        self.runner = BatchRunner(
            attempts=Attempts(run, schemas),
            finisher=Finisher(chosen.sink.columns, self.here, tables, native, born.lineage),
            rewriter=Rewriter(self.here, self.workers),
            on_start=lambda _: None,
            on_done=self.done.append,
        )

    def batch(self, number: int, begin: int, sent: Sequence[Sent]) -> None:
        """Spark plans a batch of these records, which are next, and the query brings it to its end."""
        plan = {self.here.initial_offsets: ["\0v1", positions(0)]} if number == 0 else {}
        plan[self.here.offsets / str(number)] = ["v1", "{}", positions(begin + len(sent))]
        for path, lines in plan.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("\n".join(lines))
        with self.lease:
            self.runner(frame(sent), number)

    def rows(self, table: str) -> int:
        """How many rows a table has."""
        found: int = DeltaTable(self.root / "lake" / table).to_pyarrow_table().num_rows
        return found


def positions(offset: int) -> str:
    return json.dumps({TOPIC: {"0": offset}})


def value(version: int, **fields: Any) -> bytes:
    """An event on the wire; the registry knows its version by the same number."""
    return framed(version, body(version, **fields))


EVENTS = [value(1, game_name="golf", score=1), value(2, game_name="quest"), b"\x7f", None]


def test_what_is_unknown_is_asked_for_and_taken_up_by_a_second_pass(tmp_path: Path) -> None:
    query = Query(tmp_path)
    query.batch(0, 0, numbered(EVENTS))
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
    Query(tmp_path).batch(0, 0, numbered(EVENTS))
    again = Query(tmp_path)
    again.batch(0, 0, numbered(EVENTS))
    assert (again.workers.passes, again.done[0].resumed) == ([], True)
    assert (again.rows(GOLF), again.rows(BATCHES_TABLE)) == (1, 1)


def test_lost_files_of_a_decided_batch_are_written_again_from_its_manifest(tmp_path: Path) -> None:
    query = Query(tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Finisher, "finish", stopped)
        with pytest.raises(PolicyStopped):
            query.batch(0, 0, numbered(EVENTS))
    for file in (tmp_path / "lake" / GOLF).glob("*.parquet"):
        file.unlink()
    again = Query(tmp_path)
    again.batch(0, 0, numbered(EVENTS))
    (replayed,) = again.workers.passes
    assert replayed.turn.schemas_final and replayed.turn.tables_final
    assert (again.rows(GOLF), again.rows(QUEST), again.rows(QUARANTINE_TABLE)) == (1, 1, 1)


def stopped(*_: object) -> None:
    raise PolicyStopped("the process dies before its commits")


def test_a_record_type_that_brings_columns_to_a_table_ends_the_query(tmp_path: Path) -> None:
    query = Query(tmp_path)
    query.batch(0, 0, numbered(EVENTS[:1]))
    later = [Sent(value(2, game_name="golf", season="s"), 1)]
    with pytest.raises(RestartToEvolve):
        query.batch(1, 1, later)
    assert ManifestStore(query.here).last_batch() == 0
    evolved = Query(tmp_path)
    evolved.batch(1, 1, later)
    assert "season" in DeltaTable(tmp_path / "lake" / GOLF).to_pyarrow_table().column_names
    assert [change.folder for change in evolved.done[0].changes] == [GOLF]
