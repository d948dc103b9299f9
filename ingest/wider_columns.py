"""Making a table's columns wider through Spark's Delta library, the only one that can."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.types as kinds
from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import functions as sql

from distributary.errors import CommitImpossible
from distributary.ingest.layout import spark_type
from distributary.ingest.native_conditions import quoted
from distributary.ingest.spark_tables import definition, spark_schema
from distributary.ingest.table_schema import retyped
from distributary.ingest.widening import Widening, widenings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def widen_columns(spark: SparkSession, path: str, layout: pa.Schema, wanted: pa.Schema) -> bool:
    """Makes columns of a table, whose columns are `layout`, as wide as in `wanted`, in one commit; whether any was narrower.

    The table gets Delta's feature for it first, if it has it not yet. Raises CommitImpossible where Delta refuses, and
    where the table would not be readable any more.
    """
    wider = widenings(layout, wanted)
    if not wider:
        return False
    _require_readable(spark, path, layout, wanted, wider)
    table = f"delta.{quoted(path)}"
    columns = ", ".join(f"{_named(one)} TYPE {spark_type(one.after)}" for one in wider)
    try:
        if lacking := _lacking_features(spark, path, wider):
            spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ({', '.join(lacking)})")
        spark.sql(f"ALTER TABLE {table} ALTER COLUMN {columns}")
    except AnalysisException as error:
        raise _impossible(path, wider, str(error).partition("\n")[0]) from None
    return True


def _require_readable(
    spark: SparkSession, path: str, layout: pa.Schema, wanted: pa.Schema, wider: Sequence[Widening]
) -> None:
    """Delta changes no file and looks into none, and one with a date after the year 294246 cannot be read as timestamps."""
    dates = [one for one in wider if kinds.is_date(one.before)]
    if not dates:
        return
    tops = dict.fromkeys(one.path[0] for one in dates)
    as_wide = pa.schema([(name, retyped(layout.field(name).type, wanted.field(name).type)) for name in tops])
    casts = [sql.col(quoted(field.name)).cast(field.dataType) for field in spark_schema(as_wide)]
    try:
        spark.read.format("delta").load(path).select(casts).write.format("noop").mode("overwrite").save()
    except (PySparkException, Py4JError) as error:
        if "overflow" not in str(error):
            raise
        raise _impossible(path, dates, "it holds a date after the year 294246") from None


def _lacking_features(spark: SparkSession, path: str, wider: Sequence[Widening]) -> list[str]:
    _, now = definition(spark, path)
    wanted = []
    if now.configuration.get("delta.enableTypeWidening") != "true":
        wanted.append("'delta.enableTypeWidening' = 'true'")
    if any(kinds.is_timestamp(one.after) for one in wider) and "timestampNtz" not in now.features:
        wanted.append("'delta.feature.timestampNtz' = 'supported'")
    return wanted


def _impossible(path: str, wider: Sequence[Widening], why: str) -> CommitImpossible:
    names = ", ".join(".".join(one.path) for one in wider)
    return CommitImpossible(
        f"table {path}: Delta does not let {names} become wider ({why}). Put that right in the table, or set "
        "policies.wider_type to `rescue`"
    )


def _named(one: Widening) -> str:
    return ".".join(map(quoted, one.path))
