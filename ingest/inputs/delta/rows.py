"""Rows of a Delta table as records: each is the JSON of its row, by Spark's own writer, from files that its workers read wherever they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from distributary.codecs.types.walk import around, children, held, rebuilt
from distributary.codecs.writing.json_text import texts
from distributary.ingest.clustering.reading import alive, opened_in
from distributary.ingest.inputs.delta.versions import BEFORE, CAME, CHANGE, DELETED, GONE, RowsFile
from distributary.ingest.merge import vectors
from distributary.ingest.merge.columns import at_places
from distributary.ingest.merge.live_files import Action
from distributary.ingest.reshaping.texts import as_texts
from distributary.ingest.spark.tasks.parts import by_parts
from distributary.ingest.storage.contract import Files
from distributary.ingest.tables.state_by_spark import spark_schema

# With all that a table's times have, in words that name one moment.
_AS_JSON = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
    "timeZone": "UTC",
}

# As Kafka calls a time that whoever keeps the records gave them.
_LOG_APPEND_TIME = 1

# So many rows go together, or as many as have about so many bytes.
_AT_ONCE, _BYTES_AT_ONCE = 10_000, 2**28

_PLACED = pa.schema([("offset", pa.int64()), ("millis", pa.int64())])

_DDL = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int, "
    "headers array<struct<key: string, value: binary>>"
)


def records_of(  # noqa: PLR0913, PLR0917 - one value each of what an extent is
    spark: SparkSession,
    topic: str,
    place: Files,
    files: Sequence[RowsFile],
    columns: pa.Schema,
    ends: tuple[int, int],
    *,
    before: bool = False,
) -> DataFrame:
    """The rows of these files whose offsets lie between these ends, as records, with all the columns of Spark's Kafka source.

    `before`: whether what a row was before an update is one that was deleted, too; else it is left out.
    """
    tasks = max(1, min(len(files), spark.sparkContext.defaultParallelism))
    portions = [list(files[number::tasks]) for number in range(tasks)]
    row = _keyed_by_text(pa.nulls(0, pa.struct(list(columns))))
    schema = spark_schema(pa.schema([*_PLACED, pa.field("row", row.type)]))
    rows = by_parts(spark, portions, lambda portion: _read(place, portion, columns, ends, before), schema)
    return rows.select(
        sql.lit(None).cast("binary").alias("key"),
        sql.to_json("row", _AS_JSON).cast("binary").alias("value"),
        sql.lit(topic).alias("topic"),
        sql.lit(0).alias("partition"),
        "offset",
        sql.timestamp_millis("millis").alias("timestamp"),
        sql.lit(_LOG_APPEND_TIME).alias("timestampType"),
        sql.lit(None).cast("array<struct<key: string, value: binary>>").alias("headers"),
    )


def no_records(spark: SparkSession) -> DataFrame:
    """None, with their columns."""
    return spark.createDataFrame([], _DDL)


def _read(
    place: Files, files: Sequence[RowsFile], columns: pa.Schema, ends: tuple[int, int], before: bool
) -> Iterator[pa.RecordBatch]:
    for file in files:
        yield from _rows(place, file, columns, ends, before)


def _rows(
    place: Files, file: RowsFile, columns: pa.Schema, ends: tuple[int, int], before: bool
) -> Iterator[pa.RecordBatch]:
    sized = {"size": _size(place, file), **file.add}
    # Those that are marked on the other side, too: only what came between is read.
    later = _marked(place, file.after)
    for opened, marked in opened_in(place, [(file.name, sized)]):
        for number, first, count in opened.groups():
            there = alive(marked, first, count)
            if file.after is not None:
                there = np.setdiff1d(there, alive(later, first, count), assume_unique=True)
            kept = _within(there, file.offset + first, ends)
            begin = first
            for some in opened.parts(number, columns) if len(kept) else ():
                low, high = np.searchsorted(kept, [begin - first, begin - first + some.num_rows])
                yield from _of_part(some, kept[low:high] - (begin - first), file, begin, before)
                if high == len(kept):
                    break
                begin += some.num_rows


def _of_part(rows: pa.Table, kept: Any, file: RowsFile, first: int, before: bool) -> Iterator[pa.RecordBatch]:
    """Of rows that a file has from one on, those that are kept."""
    change = file.change
    if change in (GONE, CAME):
        kept = kept[np.isin(kept, _of_kind(rows[CHANGE], change, before=before))]
        change = DELETED if change == GONE else None
    if change is not None:
        at = rows.schema.get_field_index(CHANGE)
        rows = rows.set_column(at, rows.schema.field(at), pa.repeat(pa.scalar(change), rows.num_rows))
    most = max(1, min(_AT_ONCE, _BYTES_AT_ONCE * rows.num_rows // max(rows.nbytes, 1)))
    for begin in range(0, len(kept), most):
        some = kept[begin : begin + most]
        yield _placed(at_places(rows, some), file, some + file.offset + first)


def _marked(place: Files, action: Action | None) -> vectors.Positions:
    vector = None if action is None else action.get("deletionVector")
    return np.empty(0, np.uint32) if vector is None else vectors.read(place, vector, {})


def _within(there: Any, first: int, ends: tuple[int, int]) -> Any:
    """Those of a file's rows that an extent has, whose first row has this offset."""
    return there[(there + first >= ends[0]) & (there + first < ends[1])]


def _of_kind(changes: pa.ChunkedArray, kind: str, *, before: bool) -> Any:
    """The rows of a change data feed that are no more, those `before` an update among them only where that is wanted, or those that are there now."""
    away = pa.array([DELETED, BEFORE] if kind == CAME or before else [DELETED])
    is_away = pc.is_in(changes, away).to_numpy(zero_copy_only=False)
    return np.flatnonzero(is_away if kind == GONE else ~is_away)


def _placed(rows: pa.Table, file: RowsFile, offsets: Any) -> pa.RecordBatch:
    row = rows.combine_chunks().to_struct_array()
    row = _keyed_by_text(row.combine_chunks() if isinstance(row, pa.ChunkedArray) else row)
    millis = np.full(len(offsets), file.millis, np.int64)
    schema = pa.schema([*_PLACED, pa.field("row", row.type)])
    return pa.RecordBatch.from_arrays([pa.array(offsets, pa.int64()), pa.array(millis), row], schema=schema)


def _keyed_by_text(values: pa.Array) -> pa.Array:
    """The same with texts for those keys of maps that Spark's writer makes none of: days come as their numbers, bytes and lists as an object's name."""
    fields = children(values.type)
    if not fields:
        return values
    inside = [_keyed_by_text(one) for one in held(values)]
    if kinds.is_map(values.type) and kinds.is_nested(inside[0].type):
        inside[0] = texts(inside[0]).cast(pa.string())
    elif kinds.is_map(values.type) and _has_no_text(inside[0].type):
        inside[0] = as_texts(inside[0])
    if all(one.type == field.type for one, field in zip(inside, fields, strict=True)):
        return values
    of = rebuilt(values.type, [field.with_type(one.type) for field, one in zip(fields, inside, strict=True)])
    return around(values, of, inside)


def _has_no_text(keys: pa.DataType) -> bool:
    return bool(kinds.is_temporal(keys) or kinds.is_binary(keys))


def _size(place: Files, file: RowsFile) -> int:
    if "size" in file.add:
        return int(file.add["size"])
    info = place.info(file.name)
    return 0 if info is None else info.size
