"""A frame's column of payloads decoded into columns: the fast way, Arrow in and Arrow out, without Spark's functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql.types import BinaryType, BooleanType, StringType, StructField, StructType

from distributary.codecs.base import Mode
from distributary.codecs.json.options import RESCUING
from distributary.codecs.notebook.column import spark_type
from distributary.codecs.notebook.rows import DecodedColumn, SubjectRows, raise_first
from distributary.codecs.notebook.shipped import shipped
from distributary.codecs.notebook.subject import SubjectDecoding
from distributary.codecs.types.masks import Mask
from distributary.codecs.wire.record_headers import schema_header
from distributary.errors import ConfigError

ERROR, CORRUPT = "_decode_error", "_corrupt_record"

Batches = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What a decoded frame is made of.

    column   the payloads
    payload  `key` where they are records' keys; else they are values
    headers  the column of Kafka's record headers, which may name schemas; None where only payloads do
    into     the struct that takes all that is decoded; None for columns of their own
    mode     with PERMISSIVE two columns follow: why a record could not be decoded, and its bytes
    """

    column: str
    headers: str | None = None
    payload: str = "value"
    into: str | None = None
    mode: Mode = "FAILFAST"


def decoded_frame(frame: DataFrame, decoding: SubjectDecoding, shape: Shape) -> DataFrame:
    """The frame with its payloads replaced by what is in them. Raises ConfigError."""
    column, into, mode = shape.column, shape.into, shape.mode
    _check_column(frame, column)
    _check_options(decoding)
    kept = [field for field in frame.schema if field.name != column]
    rows = spark_type(decoding.columns)
    fields = [*kept, *([StructField(into, rows)] if into else rows)]
    if mode == "PERMISSIVE":
        fields += [StructField(ERROR, StringType()), StructField(CORRUPT, BinaryType())]
    _check_names([field.name for field in fields])
    others = [field.name for field in kept]
    taken = [frame[f"`{name}`"] for name in (*others, column)]
    if shape.headers is not None:
        taken.append(_header_ids(frame, shape.headers, shape.payload))
    # By position: a name with a dot in it is taken for a path on the way into mapInArrow.
    given = frame.select(*(column.alias(f"c{place}") for place, column in enumerate(taken)))
    # Rows of no column at all would be none.
    kinds = [field.dataType for field in fields] or [BooleanType()]
    named = StructType([StructField(f"c{place}", kind) for place, kind in enumerate(kinds)])
    decoded = given.mapInArrow(_decoder(decoding, shape, named.names), named)
    return decoded.toDF(*(field.name for field in fields)) if fields else decoded.select()


def _header_ids(frame: DataFrame, headers: str, payload: str) -> Column:
    if headers not in frame.columns:
        raise ConfigError(
            f"the frame has no column {headers!r} of record headers; read from Kafka with includeHeaders=true, and keep it"
        )
    return schema_header(frame[f"`{headers}`"], payload)


def _decoder(decoding: SubjectDecoding, shape: Shape, names: list[str]) -> Batches:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = SubjectRows(decoding)
        for batch in batches:
            columns = list(batch.columns)
            header_ids = columns.pop() if shape.headers else None
            *kept, values = columns
            decoded = rows.decode(values, header_ids)
            if shape.mode == "FAILFAST":
                raise_first(decoded.failures)
            kept += _columns(decoded, shape.into)
            if shape.mode == "PERMISSIVE":
                kept += _errors(decoded, values)
            kept = kept or [pa.nulls(len(values), pa.bool_())]
            yield pa.RecordBatch.from_arrays(kept, names=names)

    unpacked = shipped(run)

    def there(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return unpacked()(batches)

    return there


def _columns(decoded: DecodedColumn, into: str | None) -> list[pa.Array]:
    if into is None:
        return list(decoded.rows.columns)
    whole = decoded.rows.to_struct_array()
    return [pa.StructArray.from_arrays(whole.flatten(), fields=list(whole.type), mask=pa.array(~decoded.ok))]


def _errors(decoded: DecodedColumn, values: pa.Array) -> list[pa.Array]:
    texts: list[str | None] = [None] * len(values)
    for failure in decoded.failures:
        texts[failure.row] = f"{failure.reason}: {failure.detail}"
    failed: Mask = np.array([text is not None for text in texts], np.bool_)
    places = pa.array(np.arange(len(values)), mask=~failed)
    return [pa.array(texts, pa.string()), values.take(places)]


def _check_column(frame: DataFrame, column: str) -> None:
    if column not in frame.columns:
        raise ConfigError(f"the frame has no column {column!r}; it has: {', '.join(frame.columns)}")
    if not isinstance(frame.schema[column].dataType, BinaryType):
        kind = frame.schema[column].dataType.simpleString()
        raise ConfigError(f"column {column!r} is {kind}; payloads are binary, as Kafka's source gives them")


def _check_options(decoding: SubjectDecoding) -> None:
    if decoding.codec in RESCUING and decoding.options:
        names = ", ".join(decoding.options)
        raise ConfigError(
            f"decode: {names}: only Spark's own from_json reads by these options; leave them out, or call from_json"
        )


def _check_names(names: list[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name.lower() in seen:
            raise ConfigError(
                f"two columns would be called {name!r}; put what is decoded into a struct (into=), or rename the frame's own"
            )
        seen.add(name.lower())
