"""The rows of files not yet committed as their table would have them, and which of them its own conditions refuse.

The conditions are CHECK, NOT NULL, those of generated columns, and lengths of text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions as sql

from distributary.ingest.columns.differences import retyped
from distributary.ingest.parquet.data_file import DataFile
from distributary.ingest.tables.conditions import quoted
from distributary.ingest.tables.state import TableState
from distributary.ingest.tables.state_by_spark import spark_schema

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType

KAFKA_PLACE = ("kafka_topic", "kafka_partition", "kafka_offset")

"""The columns that say where a row came from, unless the settings name them otherwise."""


@dataclass(frozen=True, slots=True)
class Offender:
    """A record that its table refuses; `detail` names the conditions it does not meet and no values."""

    topic: str
    partition: int
    offset: int
    detail: str


def offenders(
    spark: SparkSession,
    path: str,
    files: Sequence[DataFile],
    state: TableState,
    place: tuple[str, str, str] = KAFKA_PLACE,
) -> list[Offender]:
    """The rows of these files that the table's `checks` refuse. A condition that gives NULL refuses, as in Delta."""
    if not files or not state.checks:
        return []
    failed = sql.array_compact(sql.array([_if_failed(check) for check in state.checks]))
    where = [sql.col(quoted(name)) for name in place]
    rows = _whole_rows(spark, state, files, path).select(*where, failed.alias("failed"))
    found = rows.where(sql.size("failed") > 0).collect()
    return [Offender(row[0], row[1], row[2], f"the table refuses it: {'; '.join(row[3])}") for row in found]


def _if_failed(check: str) -> Column:
    return sql.when(sql.coalesce(sql.expr(check), sql.lit(False)), None).otherwise(sql.lit(check))


def _whole_rows(spark: SparkSession, state: TableState, files: Sequence[DataFile], path: str) -> DataFrame:
    """The files' rows with every column of the table, NULL where the files have none."""
    schema = pa.unify_schemas(
        [pq.read_schema(f"{path}/{file.name}") for file in files], promote_options="permissive"
    )
    frame = rows_for_table(spark, state, files, schema)
    return frame.select(
        "*", *(_absent(state, field) for field in state.layout if field.name not in frame.columns)
    )


def _absent(state: TableState, field: pa.Field) -> Column:
    dtype = spark_schema(pa.schema([field]))[0].dataType
    value = sql.expr(state.generated[field.name]) if field.name in state.generated else sql.lit(None)
    return value.cast(dtype).alias(field.name)


def rows_for_table(
    spark: SparkSession, state: TableState, files: Sequence[DataFile], schema: pa.Schema
) -> DataFrame:
    """The files' rows with the table's types by name: widened where the table is wider, generated columns filled in.

    `schema` is the files'; a column that a file lacks is NULL. Columns that the writer numbers itself are left out.
    """
    frame = files_frame(spark, state.path, files, schema)
    return frame.select([_column(state, field) for field in schema if field.name not in state.identity])


def files_frame(spark: SparkSession, folder: str, files: Sequence[DataFile], schema: pa.Schema) -> DataFrame:
    """The files' rows as they are."""
    paths = [f"{folder}/{file.name}" for file in files]
    return spark.read.schema(spark_schema(schema)).parquet(*paths)


def _column(state: TableState, field: pa.Field) -> Column:
    column = sql.col(quoted(field.name))
    # A column that the table is still to get has no type there.
    known = field.name in state.layout.names
    wanted = retyped(field.type, state.layout.field(field.name).type) if known else field.type
    if not wanted.equals(field.type):
        column = column.cast(_spark_type(wanted))
    if field.name in state.generated:
        # A payload that has no value for it gets the one that Delta would have given.
        column = sql.coalesce(column, sql.expr(state.generated[field.name]).cast(_spark_type(wanted)))
    return column.alias(field.name)


def _spark_type(dtype: pa.DataType) -> DataType:
    return spark_schema(pa.schema([("value", dtype)]))["value"].dataType
