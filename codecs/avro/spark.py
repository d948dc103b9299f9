"""The other decoder: Spark's own `from_avro`, giving the same columns, types and values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import Column as SparkColumn
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import DataType

from distributary.codecs import reasons
from distributary.codecs.avro.types.columns import Column, Shape, has_json
from distributary.codecs.avro.types.plain_schema import is_in_a_record, spark_schema
from distributary.codecs.base import Mode
from distributary.errors import DecoderUnavailable

# The function's front is part of Spark; what does the work comes with spark-avro.
_EXPRESSION = "org.apache.spark.sql.avro.AvroDataToCatalyst"


def spark_column(payload: SparkColumn, name: str, columns: Column, mode: Mode) -> SparkColumn:
    """The payload as one struct of these columns. Raises DecoderUnavailable.

    `mode` says what a broken payload does: FAILFAST fails the query, PERMISSIVE makes the struct null.
    """
    _check_class_path(name)
    if has_json(columns):
        raise DecoderUnavailable(
            f"{name}: it can contain itself, which from_avro does not take; decode with the Arrow engine (engine: arrow)"
        )
    # The times in a payload are those of the calendar in use today, for all years.
    options = {"mode": mode, "datetimeRebaseMode": "CORRECTED"}
    return _typed(columns, from_avro(payload, spark_schema(columns), options)["f0"])


def _spark_type(kind: pa.DataType) -> DataType:
    """The type of a column as Spark has it: a time without a zone stays one."""
    return from_arrow_type(kind, prefer_timestamp_ntz=True)


def _typed(column: Column, raw: SparkColumn) -> SparkColumn:
    """The column as it should be, of what `from_avro` has read for it."""
    return _BY_SHAPE[column.shape](column, raw).cast(_spark_type(column.type))


def _struct(column: Column, raw: SparkColumn) -> SparkColumn:
    fields = [
        _typed(child, raw[f"f{number}"]).alias(name)
        for number, (name, child) in enumerate(zip(column.names, column.children, strict=True))
    ]
    return F.when(raw.isNotNull(), F.struct(*fields))


def _list(column: Column, raw: SparkColumn) -> SparkColumn:
    (child,) = column.children
    in_a_record = is_in_a_record(child)
    return F.transform(raw, lambda one: _typed(child, one["f0"] if in_a_record else one))


def _optional(column: Column, raw: SparkColumn) -> SparkColumn:
    for branch in column.children:
        if not branch.is_null:
            return _typed(branch, raw)
    return F.lit(None)


def _members(column: Column, raw: SparkColumn) -> SparkColumn:
    branches = [(name, child) for name, child in zip(column.names, column.children, strict=True) if name]
    fields = [
        _typed(child, raw[f"member{number}"]).alias(name) for number, (name, child) in enumerate(branches)
    ]
    return F.when(raw.isNotNull(), F.struct(*fields))


def _time(column: Column, raw: SparkColumn) -> SparkColumn:
    low, high = {
        "date": ("DATE'0001-01-01'", "DATE'9999-12-31'"),
        "timestamp": ("TIMESTAMP'0001-01-01T00:00:00Z'", "TIMESTAMP'9999-12-31T23:59:59.999999Z'"),
        "timestamp_ntz": (
            "TIMESTAMP_NTZ'0001-01-01T00:00:00'",
            "TIMESTAMP_NTZ'9999-12-31T23:59:59.999999'",
        ),
    }[_spark_type(column.type).typeName()]
    refused = F.raise_error(F.lit(reasons.SENTENCES[reasons.OUT_OF_RANGE]))
    kind = _spark_type(column.type)
    return F.when(raw.isNull() | raw.between(F.expr(low), F.expr(high)), raw).otherwise(refused.cast(kind))


def _same(_column: Column, raw: SparkColumn) -> SparkColumn:
    return raw


_BY_SHAPE: Mapping[Shape, Callable[[Column, SparkColumn], SparkColumn]] = {
    Shape.NULL: lambda _, __: F.lit(None),
    Shape.EMPTY: lambda _, raw: F.when(raw.isNotNull(), F.lit(True)),
    **dict.fromkeys((Shape.SCALAR, Shape.BOOLEAN, Shape.INT, Shape.ENUM, Shape.DECIMAL, Shape.WIDER), _same),
    Shape.DATE: _time,
    Shape.TIMESTAMP: _time,
    Shape.STRUCT: _struct,
    Shape.LIST: _list,
    Shape.MAP: lambda column, raw: F.transform_values(raw, lambda _, one: _typed(column.children[0], one)),
    Shape.OPTIONAL: _optional,
    Shape.MEMBERS: _members,
}


def _check_class_path(name: str) -> None:
    session = SparkSession.getActiveSession()
    if session is None:
        raise DecoderUnavailable(f"{name}: from_avro needs an active Spark session; start one, or use decode")
    jvm: Any = session.sparkContext._jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    if loader.getResource(_EXPRESSION.replace(".", "/") + ".class") is None:
        scala = ".".join(jvm.scala.util.Properties.versionNumberString().split(".")[:2])
        raise DecoderUnavailable(
            f"{name}: Spark has no from_avro: add org.apache.spark:spark-avro_{scala} of Spark's own version "
            f"({session.version}) to spark.jars, or decode with the Arrow engine (engine: arrow)"
        )
