"""The other decoder: Spark's own `from_protobuf`, giving the same columns, types and values.

It is handed the plainer type of plain_type.py, so that what becomes of enums, times, wrappers and defaults is said
here, in Spark SQL, and does not depend on which options a version of spark-protobuf knows.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import pyarrow as pa
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from pyspark.sql import Column as SparkColumn
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.protobuf.functions import from_protobuf

from distributary.codecs import reasons
from distributary.codecs.base import Mode
from distributary.codecs.protobuf.columns import Column, Many, Shape
from distributary.codecs.protobuf.plain_type import wire_message
from distributary.codecs.protobuf.text import LIMITS, SECOND
from distributary.errors import DecoderUnavailable

# The function's front is part of Spark 4; what does the work comes with spark-protobuf.
_EXPRESSION = "org.apache.spark.sql.protobuf.ProtobufDataToCatalyst"

# Unsigned numbers do not turn negative, empty messages stay.
_OPTIONS = {"upcast.unsigned.ints": "true", "retain.empty.message.types": "true"}

ZEROS = "emit.default.values"


def spark_column(
    payload: SparkColumn, name: str, columns: tuple[Column, ...], mode: Mode, *, zeros: bool
) -> SparkColumn:
    """The payload as one struct of these columns. Raises DecoderUnavailable.

    `zeros` says whether what cannot be told from zero is zero, or null, where a column has no word of its own about it;
    `mode` says what a broken payload does: FAILFAST fails the query, PERMISSIVE makes the struct null.
    """
    _check_class_path(name)
    _check_columns(name, columns)
    wire = wire_message(columns, exact=True)
    files = FileDescriptorSet()
    wire.file.CopyToProto(files.file.add())
    raw = from_protobuf(
        payload,
        wire.full_name,
        options={**_OPTIONS, ZEROS: str(zeros).lower(), "mode": mode},
        binaryDescriptorSet=files.SerializeToString(),
    )
    return struct_of(columns, raw)


def struct_of(columns: tuple[Column, ...], raw: SparkColumn) -> SparkColumn:
    """The columns, made of a struct whose fields are those of the plainer type; null where that is null."""
    fields = [_column(column, raw[column.wire.name]).alias(column.name) for column in columns]
    return F.when(raw.isNotNull(), F.struct(*fields))


def _column(column: Column, raw: SparkColumn) -> SparkColumn:
    one = _reader(column)
    if column.many is Many.LIST:
        value = F.transform(F.coalesce(raw, F.array()), one)
    elif column.many is Many.MAP:
        value = F.transform_values(F.coalesce(raw, F.create_map()), lambda _, item: one(item))
    else:
        value = F.coalesce(one(raw), _default(column)) if column.absent.default is not None else one(raw)
    return value.cast(from_arrow_type(column.type))


def _reader(column: Column) -> Callable[[SparkColumn], SparkColumn]:
    return {
        Shape.SCALAR: lambda raw: raw,
        Shape.ENUM: lambda raw: _enum_text(column, raw),
        Shape.TIMESTAMP: lambda raw: F.timestamp_micros(_micros(column, raw)),
        Shape.DURATION: lambda raw: _duration(column, _micros(column, raw)),
        Shape.WRAPPER: lambda raw: _column(column.children[0], raw["f1"]),
        Shape.EMPTY: lambda raw: F.when(raw.isNotNull(), F.lit(True)),
        Shape.DUMMY: lambda raw: F.when(raw.isNotNull(), F.struct(F.lit(None).alias(_dummy(column)))),
        Shape.STRUCT: lambda raw: struct_of(column.children, raw),
    }[column.shape]


def _enum_text(column: Column, raw: SparkColumn) -> SparkColumn:
    first, *others = column.wire.names
    known = F.when(raw == first[0], first[1])
    known = reduce(lambda so_far, name: so_far.when(raw == name[0], name[1]), others, known)
    return known.otherwise(raw.cast("string"))


def _micros(column: Column, raw: SparkColumn) -> SparkColumn:
    """Microseconds of (seconds, nanoseconds), the latter cut off towards zero; an error out of Protobuf's range."""
    low, high = LIMITS[column.shape]
    zero = F.lit(0).cast("bigint")
    seconds, nanos = (F.coalesce(raw[part].cast("bigint"), zero) for part in ("f1", "f2"))
    # Seconds are bounded before they are multiplied: the product of others may not fit.
    fits = seconds.between(low // SECOND - 3, high // SECOND + 3)
    micros = F.when(fits, seconds).otherwise(0) * SECOND + F.signum(nanos).cast("bigint") * F.floor(
        F.abs(nanos) / 1_000
    )
    allowed = fits & micros.between(low, high)
    refused = F.raise_error(F.lit(reasons.SENTENCES[reasons.OUT_OF_RANGE])).cast("bigint")
    return F.when(raw.isNull(), F.lit(None).cast("bigint")).when(allowed, micros).otherwise(refused)


def _duration(column: Column, micros: SparkColumn) -> SparkColumn:
    if not pa.types.is_duration(column.value_type):
        return micros
    # Not as the difference of two times: those are local ones to Spark.
    return F.expr("interval '0.000001' second") * micros


def _dummy(column: Column) -> str:
    return str(column.value_type.field(0).name)


def _default(column: Column) -> SparkColumn:
    if column.shape is Shape.ENUM:
        return F.lit(dict(column.wire.names)[column.absent.default])
    value = column.absent.default
    return F.lit(bytearray(value) if isinstance(value, bytes) else value).cast(from_arrow_type(column.type))


def _check_class_path(name: str) -> None:
    session = SparkSession.getActiveSession()
    if session is None:
        raise DecoderUnavailable(
            f"{name}: from_protobuf needs an active Spark session; start one, or use decode"
        )
    jvm: Any = session.sparkContext._jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    if loader.getResource(_EXPRESSION.replace(".", "/") + ".class") is None:
        scala = ".".join(jvm.scala.util.Properties.versionNumberString().split(".")[:2])
        raise DecoderUnavailable(
            f"{name}: Spark has no from_protobuf: add org.apache.spark:spark-protobuf_{scala} of Spark's own version "
            f"({session.version}) to spark.jars, or decode with the Arrow engine (engine: arrow)"
        )


def _check_columns(name: str, columns: tuple[Column, ...]) -> None:
    for column in columns:
        if column.shape is Shape.JSON:
            raise DecoderUnavailable(
                f"{name}: field {column.name!r} is JSON text ({column.wire.message}), which from_protobuf cannot give; "
                "decode with the Arrow engine (engine: arrow)"
            )
        _check_columns(name, column.children)
