"""What workers do by parts, such as reading files: each task is given what it has to do, and nothing of it stays on the driver's disk.

A function that is given to Spark takes along what it refers to. Beyond a megabyte Spark puts that into a file of the driver's, and leaves it there
for as long as its session lives: a pipeline has such functions with every batch. So parts that are many, or large, go as rows do.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias, TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import BinaryType, StructField, StructType

P = TypeVar("P")

Run: TypeAlias = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""What Spark's `mapInArrow` takes."""

# Half of what Spark would put into a file, beside what else a function takes along.
_WITH_THE_FUNCTION_BYTES = 2**19

# A task takes its rows along, and beyond 128 MiB (`spark.rpc.message.maxSize`) it is none; up to twice this comes together in one.
_TASK_BYTES = 8 * 2**20

_ROWS = StructType([StructField("part", BinaryType(), nullable=False)])


def by_parts(
    spark: SparkSession,
    parts: Sequence[P],
    work: Callable[[P], Iterator[pa.RecordBatch]],
    schema: StructType | str,
    mark: Callable[[Run], None] = lambda _: None,
) -> DataFrame:
    """What `work` makes of each of these parts, which are done side by side.

    Few are a task each, many as many tasks as there are slots, and large ones as many as it takes for Spark to send each of them.

    work  is small itself: what it refers to goes along with each task
    mark  is shown what Spark is given, before it is
    """
    pickled = [pickle.dumps(part) for part in parts]
    if sum(map(len, pickled)) <= _WITH_THE_FUNCTION_BYTES:
        tasks, run = spark.range(0, len(pickled), 1, max(len(pickled), 1)), _numbered(pickled, work)
    else:
        tasks, run = _sent(spark, pickled), _in_rows(work)
    mark(run)
    return tasks.mapInArrow(run, schema)


def _sent(spark: SparkSession, pickled: Sequence[bytes]) -> DataFrame:
    rows, context = [(part,) for part in pickled], spark.sparkContext
    a_task = _TASK_BYTES // max(map(len, pickled)) or 1
    tasks = -(-len(rows) // a_task)
    if tasks <= context.defaultParallelism:
        return spark.createDataFrame(rows, _ROWS)
    # Spark makes no more tasks of a list than there are slots, however few these are when it begins.
    return spark.createDataFrame(context.parallelize(rows, tasks), _ROWS)


def _numbered(pickled: Sequence[bytes], work: Callable[[P], Iterator[pa.RecordBatch]]) -> Run:
    def run(numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                # The driver made it.
                yield from work(pickle.loads(pickled[number]))  # noqa: S301

    return run


def _in_rows(work: Callable[[P], Iterator[pa.RecordBatch]]) -> Run:
    def run(rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in rows:
            for part in batch.column(0):
                yield from work(pickle.loads(part.as_py()))  # noqa: S301

    return run
