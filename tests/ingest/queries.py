"""A query's batches with workers in this process, from records to commits: what the driver does needs no JVM."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar, cast

import pyarrow.parquet as pq
from deltalake import DeltaTable
from pyspark.sql import DataFrame
from tests.ingest.batches import generation
from tests.ingest.kafka_records import TOPIC, Sent, batch, body, folder
from tests.ingest.pipelines import begun, checkpoint, owners, registry, schema_book, settings, table_book

from distributary.ingest.batch.attempt import Attempts, Run
from distributary.ingest.batch.finish import Finisher
from distributary.ingest.batch.passes import Records, Workers
from distributary.ingest.batch.rewrite import Rewriter
from distributary.ingest.batch.runner import BatchRunner, Done
from distributary.ingest.checkpoint.generation import check_same_topics
from distributary.ingest.checkpoint.spark_files import SparkFiles
from distributary.ingest.kafka.offsets import Offsets, Positions
from distributary.ingest.pins import Pins
from distributary.ingest.running.rules import run_rules
from distributary.ingest.tables.log_commit import NativeCommits
from distributary.ingest.worker.demux import Demultiplexer
from distributary.ingest.worker.report import TaskReport
from distributary.producer_sim.formats.corruption import framed

T = TypeVar("T")
GOLF, QUEST = folder("golf"), folder("quest")


@dataclass(frozen=True)
class InProcess(Workers):
    """Workers without Spark: one task, and every pass that it was sent on."""

    passes: list[Pins] = field(default_factory=list)

    def columns(self, records: Records, pins: Pins) -> Records:
        return records

    def run(self, todo: Records, pins: Pins) -> TaskReport:
        self.passes.append(pins)
        task = Demultiplexer(pins)
        task.take(cast("Any", todo).batch)
        return task.finish()


def frame(sent: Sequence[Sent]) -> DataFrame:
    """Records as the driver gets them, of a session that reads back what was set aside."""

    def parquet(*paths: str) -> Any:
        (rows,) = [pq.ParquetFile(path).read().combine_chunks().to_batches()[0] for path in paths]
        found = SimpleNamespace(batch=rows, columns=rows.schema.names)
        # It is none of Spark's, in which lists that are null are slow.
        found.selectExpr = lambda *_: found
        return found

    conf = SimpleNamespace(set=lambda *_: None, get=lambda _, default: default)
    reader = SimpleNamespace(parquet=parquet)
    session = SimpleNamespace(conf=conf, read=SimpleNamespace(option=lambda *_: reader))
    return cast("DataFrame", SimpleNamespace(sparkSession=session, batch=batch(sent)))


class Query:
    """One query on the checkpoint under `root`, and what it said of its batches."""

    workers_of: type[InProcess] = InProcess

    def __init__(
        self, root: Path, place: str = "checkpoint", ends: Positions | None = None, **groups: Any
    ) -> None:
        """`place` is its folder under `root`, `ends` where a new log begins."""
        self.root, self.here = root, checkpoint(root, place)
        chosen, native, tables = settings(root, **groups), NativeCommits(), table_book(root)
        (root / "lake").mkdir(exist_ok=True)
        born = generation(root, place)
        self.workers = self.workers_of(1, {}, 100)
        self.done: list[Done] = []
        self.log = begun(self.here, ends)
        self.spark = SparkFiles(root / f"spark-{place}-{self.log.start.number}")
        self.planned, self.native = 0, native
        self.topics = dict(born.world.topics)
        run = Run(
            owners=owners(root, born, f"{root}/{place}"),
            checkpoint=self.here,
            generation=born,
            log=self.log,
            tables=tables,
            rules=run_rules(chosen),
            workers=self.workers,
        )
        schemas = schema_book(self.here, registry())
        schemas.open([])
        self.runner = BatchRunner(
            attempts=Attempts(run, schemas, still_as_read=lambda: check_same_topics(born, self.topics)),
            finisher=Finisher(chosen.sink.columns, self.here, tables, native, born.lineage),
            rewriter=Rewriter(self.here.log, self.log, tables, self.workers),
            spark=self.spark,
            reading=self,
            on_start=lambda _: None,
            on_done=self.done.append,
        )

    def resume(self, sent: Sequence[Sent] = ()) -> None:
        """The query begins: what was decided is finished, of these records where they are read again."""
        self.sent = sent
        self.runner.resume()

    def batch(self, begin: int, sent: Sequence[Sent]) -> None:
        """Spark plans a batch of these records, which are next, and the query brings it to its end."""
        plan = {self.spark.initial_offsets: ["\0v1", positions(begin)]} if self.planned == 0 else {}
        plan[self.spark.offsets(self.planned)] = ["v1", "{}", positions(begin + len(sent))]
        for path, lines in plan.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("\n".join(lines))
        self.planned += 1
        self.runner(frame(sent), self.planned - 1)

    def range(self, offsets: Offsets) -> DataFrame:
        """The records that are read again."""
        return frame(self.sent)

    def through(self, records: DataFrame, offsets: Offsets, use: Callable[[DataFrame], T]) -> T:
        """These records can be read."""
        return use(records)

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


def batches(root: Path, count: int) -> Query:
    """A query that has brought so many batches of one record to their end."""
    query = Query(root)
    query.resume()
    for begin in range(count):
        query.batch(begin, one(begin))
    return query


def one(offset: int) -> list[Sent]:
    return [Sent(value(1, game_name="golf", score=1), offset)]


def files(root: Path) -> set[str]:
    return {path.name for path in (root / "lake").glob("*/*.parquet")}
