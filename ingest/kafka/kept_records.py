"""Records that are kept in files as they came, which workers read themselves: Spark between files and workers would take a quarter of all work."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from distributary.ingest.bronze import rows as bronze
from distributary.ingest.reshaping.rule import NOTHING_BESIDE, Beside
from distributary.ingest.spark.tasks.parts import Run, by_parts
from distributary.ingest.storage.contract import Files

# How many bytes of records a worker is given at once.
_BYTES = 8 * 2**20

# Into so many pieces what a task reads is cut, so that all have about as much.
_PIECES = 4

Wanted: TypeAlias = Callable[[pa.RecordBatch], pa.BooleanArray]
"""Which of some rows of a file, without the day, are among the records."""


@dataclass(frozen=True, slots=True)
class KeptFile:
    """A file of records as they came; or a part of it: of so many parts which one, to which row groups belong in turns."""

    place: Files
    name: str
    bytes: int
    part: int = 0
    parts: int = 1


@dataclass(frozen=True, slots=True)
class Reading:
    """How workers read them.

    wanted   which rows
    rows     how many they are given at once
    headers  the record headers that they read, by the columns those become
    beside   what rules of tables make columns of
    """

    wanted: Wanted
    rows: int = 10_000
    headers: Mapping[str, str] = field(default_factory=dict)
    beside: Beside = NOTHING_BESIDE

    def read(self, files: Iterable[KeptFile]) -> Iterator[pa.RecordBatch]:
        """The records with the columns that `worker_columns` has, and their topic."""
        for one in files:
            for rows in rows_of(one, self.rows):
                yield from _bounded(self._columns(rows))

    def _columns(self, whole: pa.RecordBatch) -> pa.RecordBatch:
        wanted = self.wanted(whole)
        kept = whole if wanted.true_count == len(wanted) else whole.filter(wanted)
        topic, partition, offset, ts, ts_type, key, value, headers = kept.columns
        found = {
            "topic": topic,
            "partition": partition,
            "offset": offset,
            "ts": ts,
            "key": key,
            "value": value,
            **{column: last_header(headers, name) for column, name in self.headers.items()},
        }
        if self.beside.headers:
            found["headers"] = _side_by_side([last_header(headers, name) for name in self.beside.headers])
        if self.beside.every_header:
            found["every_header"] = headers
        if self.beside.timestamp_type:
            found["ts_type"] = bronze.time_type_numbers(ts_type)
        return pa.RecordBatch.from_pydict(found)


@dataclass(frozen=True, slots=True)
class KeptRecords:
    """Records in files, to be given to workers as Spark's frames are."""

    spark: SparkSession
    files: Sequence[KeptFile]
    reading: Reading
    shares: Sequence[Sequence[KeptFile]] = ()

    @property
    def sparkSession(self) -> SparkSession:
        """The session."""
        return self.spark

    def coalesce(self, tasks: int) -> KeptRecords:
        """Dealt to so many tasks, to each about as much, whether a file can be cut or is one row group whole."""
        share = max(sum(one.bytes for one in self.files) // (tasks * _PIECES), 1)
        pieces = [
            (one.bytes // parts, number, replace(one, part=part, parts=parts))
            for number, one in enumerate(self.files)
            for parts in (max(-(-one.bytes // share), 1),)
            for part in range(parts)
        ]
        dealt: list[list[KeptFile]] = [[] for _ in range(tasks)]
        least = [(0, number) for number in range(tasks)]
        # A file of one row group is all in its first piece, and the others have nothing: so first pieces are dealt first.
        for size, _, piece in sorted(pieces, key=lambda one: (one[2].part, -one[0], one[1])):
            so_far, number = least[0]
            dealt[number].append(piece)
            heapq.heapreplace(least, (so_far + max(size, 1), number))
        return replace(self, shares=[some for some in dealt if some])

    def mapInArrow(self, work: Run, schema: str) -> DataFrame:
        """What `work` makes of each task's records."""
        reading = self.reading
        return by_parts(self.spark, self.shares, lambda files: work(reading.read(files)), schema)


def rows_of(file: KeptFile, most: int = 10_000) -> Iterator[pa.RecordBatch]:
    """The rows of a file, at most so many at once, with the columns that records have, whoever wrote it."""
    data = pq.ParquetFile(
        file.place.reader(file.name, file.bytes),
        pre_buffer=file.place.remote,
        coerce_int96_timestamp_unit="us",
    )
    there = [name for name in bronze.RECORD.names if name in data.schema_arrow.names]
    for group in range(file.part, data.num_row_groups, file.parts):
        told = data.metadata.row_group(group)
        each = max(told.total_byte_size // max(told.num_rows, 1), 1)
        for batch in data.iter_batches(min(most, max(_BYTES // each, 1)), [group], columns=there):
            yield _as_records(batch)


def _as_records(batch: pa.RecordBatch) -> pa.RecordBatch:
    names = batch.schema.names
    # Whoever brought files together may have written texts as other kinds of texts.
    return pa.RecordBatch.from_arrays(
        [
            batch[one.name].cast(one.type) if one.name in names else pa.nulls(len(batch), one.type)
            for one in bronze.RECORD
        ],
        schema=bronze.RECORD,
    )


def last_header(headers: pa.ListArray, name: str) -> pa.BinaryArray:
    """The value of the last record header of this name, as in Kafka's clients; null where there is none."""
    if headers.null_count == len(headers):
        return pa.nulls(len(headers), pa.binary())
    each = pc.list_flatten(headers)
    mine = pc.fill_null(pc.equal(pc.struct_field(each, "key"), name), False)
    places = np.flatnonzero(mine.to_numpy(zero_copy_only=False))
    last = np.full(len(headers), -1, np.int64)
    # Of several the one that is put there last stays.
    np.maximum.at(last, pc.list_parent_indices(headers).to_numpy()[places], places)
    return pc.struct_field(each, "value").take(pa.array(last, mask=last < 0))


def _side_by_side(columns: Sequence[pa.BinaryArray]) -> pa.ListArray:
    """A list of each row's values, in the columns' order."""
    rows, count = len(columns[0]), len(columns)
    order = np.arange(rows * count).reshape(count, rows).T.reshape(-1)
    values = pa.concat_arrays(columns).take(pa.array(order))
    return pa.ListArray.from_arrays(pa.array(np.arange(rows + 1, dtype=np.int32) * count), values)


def _bounded(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The same rows, no more at once than have room: among small records there may be large ones."""
    if batch.nbytes <= 2 * _BYTES or batch.num_rows < 2:
        if batch.num_rows:
            yield batch
        return
    half = batch.num_rows // 2
    for first, count in ((0, half), (half, batch.num_rows - half)):
        yield from _bounded(batch.slice(first, count))
