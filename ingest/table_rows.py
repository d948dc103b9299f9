"""The rows of files not yet committed, as Spark sees them when they are about to enter a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as sql

from distributary.ingest.data_file import DataFile
from distributary.ingest.native_conditions import quoted
from distributary.ingest.spark_tables import spark_schema
from distributary.ingest.table_schema import retyped
from distributary.ingest.tables import TableState

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType


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
