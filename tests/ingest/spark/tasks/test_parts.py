from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from distributary.ingest.derived.lookups import Lookup
from distributary.ingest.derived.told import Input
from distributary.ingest.inputs.delta.rows import records_of
from distributary.ingest.inputs.delta.versions import RowsFile
from distributary.ingest.kinesis import reading as kinesis
from distributary.ingest.kinesis.kept import Piece
from distributary.ingest.kinesis.questions import Shard
from distributary.ingest.landing import reading as landing
from distributary.ingest.landing.numbers import Landed
from distributary.ingest.origins.plans import marked, origins
from distributary.ingest.spark.tasks import parts as parts_module
from distributary.ingest.spark.tasks.parts import by_parts
from distributary.ingest.storage.posix import PosixFiles

_LONG, _FILES = "x" * 400, PosixFiles("/nowhere")


@pytest.fixture
def left(spark: SparkSession) -> Callable[[], set[Path]]:
    """What came since then to where Spark puts what is large."""
    folder = Path(spark.sparkContext._temp_dir)
    before = {*folder.iterdir()}
    return lambda: {*folder.iterdir()} - before


def _told(part: tuple[int, str]) -> Iterator[pa.RecordBatch]:
    yield pa.RecordBatch.from_pydict({"number": pa.array([part[0]], pa.int64())})


@pytest.mark.parametrize("bytes_each", [1, 100_000], ids=["small", "large"])
def test_each_part_is_done_once_and_nothing_of_it_stays_on_a_disk(
    spark: SparkSession, left: Callable[[], set[Path]], bytes_each: int
) -> None:
    parts = [(number, "x" * bytes_each) for number in range(15)]
    frame = by_parts(spark, parts, _told, "number bigint")
    assert sorted(row.number for row in frame.union(frame).collect()) == sorted([*range(15), *range(15)])
    assert not left()


@pytest.mark.parametrize(("bound", "most_of_a_task"), [(2**18, 4), (2**16, 1), (2**30, 10)])
def test_large_parts_are_as_many_tasks_as_it_takes_to_send_each(
    spark: SparkSession,
    left: Callable[[], set[Path]],
    monkeypatch: pytest.MonkeyPatch,
    bound: int,
    most_of_a_task: int,
) -> None:
    """A task has its parts with it, and beyond a size Spark sends none; of a list it made two here, whatever came together in them."""
    monkeypatch.setattr(parts_module, "_TASK_BYTES", bound)
    parts = [(number, "x" * 60_000) for number in range(20)]
    frame = by_parts(spark, parts, _told, "number bigint").select("number", sql.spark_partition_id())
    tasks = {row[0]: row[1] for row in frame.collect()}
    assert sorted(tasks) == [*range(20)]
    assert max(Counter(tasks.values()).values()) <= most_of_a_task
    assert not left()


@pytest.mark.parametrize("count", [0, 1])
def test_there_may_be_no_part_or_one_with_nothing_in_it(spark: SparkSession, count: int) -> None:
    parts = [(0, _LONG)] * count
    assert by_parts(spark, parts, lambda _: iter(()), "number bigint").collect() == []


@pytest.mark.parametrize("bytes_each", [1, 100_000], ids=["small", "large"])
def test_a_plan_tells_whose_rows_they_are(spark: SparkSession, bytes_each: int) -> None:
    parts = [(number, "x" * bytes_each) for number in range(15)]
    frame = by_parts(spark, parts, _told, "number bigint", lambda run: marked(run, "events"))
    found = origins(frame.selectExpr("number + 1 as next"))
    assert [(one.table, one.column) for one in found["next"]] == [("events", "number")]


def _of_files(spark: SparkSession) -> DataFrame:
    files = [Landed(number, f"{_LONG}{number}", 1, 0, "", "") for number in range(5_000)]
    return landing.records(spark, landing.Landing(_FILES, "files", "json", _FILES), files)


def _of_a_table(spark: SparkSession) -> DataFrame:
    files = [RowsFile(f"{_LONG}{number}", {"size": 1}, number << 32, 1, 0) for number in range(5_000)]
    return records_of(spark, "table", _FILES, files, pa.schema([("level", pa.int64())]), (0, 1 << 62))


def _of_a_stream(spark: SparkSession) -> DataFrame:
    shard = Shard("shardId-000000000001")
    pieces = [Piece(shard, number, number, 1, "records", f"{_LONG}{number}", 0) for number in range(5_000)]
    return kinesis.records(spark, _FILES, "stream", kinesis.parts_of(pieces, 0, 5_000))


def _of_a_lookup(spark: SparkSession) -> DataFrame:
    table = pa.table({"device": [f"{_LONG}{number}" for number in range(50_000)]})
    frame = Lookup(Input("0", 0), table, "devices").rows(spark)
    assert frame.count() == 50_000
    return frame


@pytest.mark.parametrize("made", [_of_files, _of_a_table, _of_a_stream, _of_a_lookup])
def test_inputs_leave_nothing_on_a_disk_however_much_a_batch_reads(
    spark: SparkSession, left: Callable[[], set[Path]], made: Callable[[SparkSession], DataFrame]
) -> None:
    """A session has such a frame, or several, with each batch, for months."""
    made(spark)
    assert not left()
