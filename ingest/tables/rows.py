"""The rows of files not yet committed as their table would have them, and which of them its own conditions refuse.

The conditions are CHECK, NOT NULL, those of generated columns, and lengths of text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions as sql

from distributary.ingest.columns.differences import retyped
from distributary.ingest.parquet.data_file import DataFile, partitions_of
from distributary.ingest.spark.error_classes import named, refused_row
from distributary.ingest.spark.java_objects import frame_of, tried
from distributary.ingest.storage.contract import Files
from distributary.ingest.tables.conditions import quoted
from distributary.ingest.tables.state import TableState
from distributary.ingest.tables.state_by_spark import path_for_spark, pattern_of, reader, spark_schema

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
    files: Sequence[DataFile],
    state: TableState,
    place: tuple[str, str, str] = KAFKA_PLACE,
) -> list[Offender]:
    """The rows of these files that the table's `checks` refuse.

    A condition that gives NULL refuses, as in Delta, and so does one that fails for the row: a division by zero, say.
    """
    if not files or not state.conditions.checks:
        return []
    rows = _whole_rows(_one_by_one(spark), state, files)
    where = [sql.col(quoted(name)) for name in place]
    numbers = sql.array_compact(
        sql.array([_if_failed(*check) for check in enumerate(state.conditions.checks, 1)])
    )
    found = rows.select(*where, numbers.alias("failed")).where(sql.size("failed") > 0).collect()
    words: dict[int, str] = {}
    for row in found:
        for number in row[3]:
            if number not in words:
                here = [column == value for column, value in zip(where, row, strict=False)]
                words[number] = _words(
                    rows.where(reduce(and_, here)), state.conditions.checks[abs(number) - 1], number
                )
    why = ["; ".join(words[number] for number in row[3]) for row in found]
    return [
        Offender(row[0], row[1], row[2], f"the table refuses it: {said}")
        for row, said in zip(found, why, strict=True)
    ]


def _words(row: DataFrame, check: str, number: int) -> str:
    """The check that is not met, and of one that fails by which error class: a value is in neither."""
    if number > 0:
        return check
    try:
        _local(row).select(sql.expr(check)).collect()
    except Exception as error:  # noqa: BLE001 whatever it is, it is told
        return f"{check} fails ({refused_row(error) or named(error)})"
    return f"{check} fails"


def _local(row: DataFrame) -> DataFrame:
    """One row, held by the driver, which works out itself what is asked of it: a task that fails logs the row's values."""
    session = row.sparkSession
    held = session._jsparkSession.createDataFrame(row._jdf.takeAsList(1), row._jdf.schema())
    return frame_of(held, session)


def _one_by_one(spark: SparkSession) -> SparkSession:
    """A session that works each expression out where it stands.

    What several share would be worked out before all of them, and fail where nothing catches it.
    """
    own = spark.newSession()
    own.conf.set("spark.sql.subexpressionElimination.enabled", "false")
    return own


def _if_failed(number: int, check: str) -> Column:
    """The check's number where it is not true, negative where it fails; else NULL."""
    found = tried(sql.struct(sql.expr(check).alias("met")))
    not_true = ~sql.coalesce(found["met"], sql.lit(False))
    return sql.when(found.isNull(), sql.lit(-number)).when(not_true, sql.lit(number))


def _whole_rows(spark: SparkSession, state: TableState, files: Sequence[DataFile]) -> DataFrame:
    """The files' rows with every column of the table, NULL where the files have none or its expression fails."""
    schemas = [_schema_of(state.place, file) for file in files]
    schemas.append(pa.schema([state.layout.field(name) for name in partitions_of(files)]))
    schema = pa.unify_schemas(schemas, promote_options="permissive")
    frame = rows_for_table(spark, state, files, schema, tried)
    return frame.select(
        "*", *(_absent(state, field) for field in state.layout if field.name not in frame.columns)
    )


def _schema_of(table: Files, file: DataFile) -> pa.Schema:
    if table.remote:
        return pq.read_schema(pa.BufferReader(table.read(file.name)))
    # Only its end is read, which the seam has no word for.
    return pq.read_schema(f"{table.url}/{file.name}")


def _absent(state: TableState, field: pa.Field) -> Column:
    dtype = _spark_type(field.type)
    if field.name not in state.conditions.generated:
        return sql.lit(None).cast(dtype).alias(field.name)
    return tried(sql.expr(state.conditions.generated[field.name]).cast(dtype)).alias(field.name)


def _itself(value: Column) -> Column:
    return value


def rows_for_table(
    spark: SparkSession,
    state: TableState,
    files: Sequence[DataFile],
    schema: pa.Schema,
    generated: Callable[[Column], Column] = _itself,
) -> DataFrame:
    """The files' rows with the table's types by name: widened where the table is wider, generated columns filled in.

    `schema` is the files'; a column that a file lacks is NULL. Columns that the writer numbers itself are left out.
    `generated` is given each generated column, and makes of it what becomes of a failure.
    """
    frame = files_frame(spark, state.place, files, schema)
    made = {*state.conditions.identity, *state.conditions.generated}
    # Of all that rows may lack the writer asks for these alone.
    lacking = [name for name in state.partitions if name not in made.union(schema.names)]
    return frame.select(
        *(
            _column(state, field, generated)
            for field in schema
            if field.name not in state.conditions.identity
        ),
        *(_absent(state, state.layout.field(name)) for name in lacking),
    )


def files_frame(spark: SparkSession, table: Files, files: Sequence[DataFile], schema: pa.Schema) -> DataFrame:
    """The files' rows, with the columns that files are told apart by. Raises CommitImpossible as `path_for_spark` does."""
    folder, by = pattern_of(path_for_spark(table)), partitions_of(files)
    paths = [f"{folder}/{file.name}" for file in files]
    own = pa.schema([field for field in schema if field.name not in by])
    frame = reader(spark).schema(spark_schema(own)).parquet(*paths)
    if not by:
        return frame
    told = [_told(files, place, schema.field(name)) for place, name in enumerate(by)]
    return frame.select("*", *told).select([quoted(field.name) for field in schema])


def _told(files: Sequence[DataFile], place: int, field: pa.Field) -> Column:
    """A column that each file has one value in, which the batch says."""
    each = (sql.lit(text).cast("string") for file in files for text in (file.name, file.partition[place][1]))
    return (
        sql.create_map(*each)[sql.col("_metadata.file_name")].cast(_spark_type(field.type)).alias(field.name)
    )


def _column(state: TableState, field: pa.Field, generated: Callable[[Column], Column]) -> Column:
    column = sql.col(quoted(field.name))
    # A column that the table is still to get has no type there.
    known = field.name in state.layout.names
    wanted = retyped(field.type, state.layout.field(field.name).type) if known else field.type
    if not wanted.equals(field.type):
        column = column.cast(_spark_type(wanted))
    if field.name in state.conditions.generated:
        # A payload that has no value for it gets the one that Delta would have given.
        filled = sql.expr(state.conditions.generated[field.name]).cast(_spark_type(wanted))
        column = generated(sql.coalesce(column, filled))
    return column.alias(field.name)


def _spark_type(dtype: pa.DataType) -> DataType:
    return spark_schema(pa.schema([("value", dtype)]))["value"].dataType
