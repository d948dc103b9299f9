"""Delta tables as Spark's own Delta library sees them, for those that delta-rs does not master."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.types as kinds
from deltalake import Schema as DeltaSchema
from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import functions as sql
from pyspark.sql.types import StructType

from distributary.codecs.types.spark_struct import type_name
from distributary.errors import CommitImpossible
from distributary.ingest.columns.differences import retyped
from distributary.ingest.columns.widening import Widening, widenings
from distributary.ingest.spark.delta import why_no_delta
from distributary.ingest.spark.error_classes import overflowed
from distributary.ingest.spark.supported import SPARKS, spark_line
from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.opening import At
from distributary.ingest.storage.place import Place
from distributary.ingest.tables.conditions import Definition, identity_columns, quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrameReader, SparkSession


_WHY = "it is more than delta-rs masters"

# https://hadoop.apache.org/docs/stable/api/org/apache/hadoop/fs/FileSystem.html#globStatus-org.apache.hadoop.fs.Path-
_SPECIAL = re.compile(r"[{}\[\]*?\\]")


def path_for_spark(table: At, why: str = _WHY) -> str:
    """A table's path as Spark and its Delta library take it; `why` says what they are needed for.

    Raises CommitImpossible where they are not let near a table: on S3, where their commits are no put-if-absent, and by
    a URL that does not name Azure's account. https://docs.delta.io/latest/delta-storage.html
    """
    place = Place.parse(str(table))
    if place.kind == "s3":
        raise CommitImpossible(
            f"table {place}: {why}. That takes Spark's own writer, which on S3 may replace an entry of the table's log that "
            "somebody else put there at the same time, and neither would be told. Take it from the table, or keep the tables "
            "in a folder, Azure, Google Cloud Storage or HDFS; and set policies.wider_type to `rescue`"
        )
    if place.scheme == "az":
        raise CommitImpossible(
            f"table {place}: {why}. That takes Spark, which needs the account in the URL; write "
            "abfss://container@account.dfs.core.windows.net/... for sink.root"
        )
    return str(place)


def pattern_of(path: str) -> str:
    """A path as Spark's readers of files take it, which would take brackets, braces and the like in it for a pattern."""
    return _SPECIAL.sub(r"\\\g<0>", path)


# What Spark takes the times of Parquet files for; Spark 3.5, which writes them as INT96, ends over those before 1900 where nobody says it.
CALENDARS = (
    "spark.sql.parquet.datetimeRebaseModeInRead",
    "spark.sql.parquet.datetimeRebaseModeInWrite",
    "spark.sql.parquet.int96RebaseModeInRead",
    "spark.sql.parquet.int96RebaseModeInWrite",
)
TODAYS = "CORRECTED"


def reader(spark: SparkSession) -> DataFrameReader:
    """What reads Parquet files of ours: their times are of today's calendar, whatever the session takes those of others for."""
    return spark.read.option("datetimeRebaseMode", TODAYS)


def require_delta(spark: SparkSession, table: At, why: str = _WHY) -> None:
    """Raises CommitImpossible where this session's Spark has no Delta; `why` says what a table needs it for."""
    if lacking := why_no_delta(spark):
        raise CommitImpossible(
            f"table {Place.parse(str(table))}: {why}. That takes Delta in Spark, and {lacking}"
        )


def snapshot(spark: SparkSession, table: At) -> Any:
    """Delta's `Snapshot` (a Java object) of the table's newest version.

    Raises CommitImpossible as `path_for_spark` and `require_delta` do.
    """
    path = path_for_spark(table)
    require_delta(spark, table)
    log = spark._jvm.org.apache.spark.sql.delta.DeltaLog  # type: ignore[union-attr]
    return log.forTableWithSnapshot(spark._jsparkSession, path)._2()


def definition(spark: SparkSession, table: At) -> tuple[int, Definition]:
    """The table's version and what its log says about it."""
    current = snapshot(spark, table)
    protocol = json.loads(current.protocol().json())["protocol"]
    features = protocol.get("writerFeatures", []) + protocol.get("readerFeatures", [])
    metadata = _metadata(current)
    return int(current.version()), Definition(
        fields=json.loads(metadata["schemaString"])["fields"],
        configuration=metadata["configuration"],
        partition_columns=tuple(metadata["partitionColumns"]),
        writer_version=int(protocol["minWriterVersion"]),
        features=frozenset(features),
        comment=metadata.get("description") or "",
    )


def properties(current: Any) -> Mapping[str, str]:
    """The table's configuration, by this `snapshot`."""
    found: Mapping[str, str] = _metadata(current)["configuration"]
    return found


def _metadata(current: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(current.metadata().json())["metaData"]
    return found


def transaction_version(current: Any, app_id: str) -> int | None:
    """The last version that `app_id` committed to the table, by this `snapshot`."""
    found = current.transactions().get(app_id)
    return int(found.get()) if found.isDefined() else None


def spark_schema(schema: pa.Schema) -> StructType:
    """The Spark type of rows with this Arrow schema, field metadata included."""
    return StructType.fromJson(json.loads(DeltaSchema.from_arrow(schema).to_json()))


def add_columns(spark: SparkSession, table: At, merged: pa.Schema, identity: Collection[str]) -> None:
    """Makes `merged`, which holds all the table has, the table's schema.

    An empty append that merges schemas: ALTER TABLE would lose the field metadata. Identity columns, which no writer
    may give values for, are left out of it.
    """
    _, now = definition(spark, table)
    identity = identity_columns(now)
    frame = spark.createDataFrame([], spark_schema(pa.schema([f for f in merged if f.name not in identity])))
    frame.write.format("delta").mode("append").option("mergeSchema", "true").save(path_for_spark(table))


def widen_columns(spark: SparkSession, place: Files, layout: pa.Schema, wanted: pa.Schema) -> bool:
    """Makes columns of a table, whose columns are `layout`, as wide as in `wanted`, in one commit; whether any was narrower.

    The table gets Delta's feature for it first, if it has it not yet. Raises CommitImpossible where Delta refuses, where
    the table would not be readable any more, and where Spark is not let near it.
    """
    wider = widenings(layout, wanted)
    if not wider:
        return False
    why = f"{', '.join('.'.join(one.path) for one in wider)} would become wider"
    path = path_for_spark(place, why)
    require_delta(spark, place, why)
    _require_widening(spark, place, wider)
    _require_readable(spark, place, layout, wanted, wider)
    table = f"delta.{quoted(path)}"
    columns = ", ".join(f"{_named(one)} TYPE {type_name(one.after)}" for one in wider)
    try:
        if lacking := _lacking_features(spark, place, wider):
            spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ({', '.join(lacking)})")
        spark.sql(f"ALTER TABLE {table} ALTER COLUMN {columns}")
    except AnalysisException as error:
        raise _impossible(place, wider, str(error).partition("\n")[0]) from None
    return True


def _require_widening(spark: SparkSession, place: Files, wider: Sequence[Widening]) -> None:
    line = spark_line(spark.version)
    if line is not None and not line.widens_columns:
        able = " or ".join(one.name for one in SPARKS if one.widens_columns)
        raise _impossible(
            place, wider, f"Spark {line.name} goes with Delta {line.delta_revision}; Spark {able} can"
        )


def _require_readable(
    spark: SparkSession, place: Files, layout: pa.Schema, wanted: pa.Schema, wider: Sequence[Widening]
) -> None:
    """Delta changes no file and looks into none, and one with a date after the year 294246 cannot be read as timestamps."""
    dates = [one for one in wider if kinds.is_date(one.before)]
    if not dates:
        return
    tops = dict.fromkeys(one.path[0] for one in dates)
    as_wide = pa.schema([(name, retyped(layout.field(name).type, wanted.field(name).type)) for name in tops])
    casts = [sql.col(quoted(field.name)).cast(field.dataType) for field in spark_schema(as_wide)]
    rows = spark.read.format("delta").load(path_for_spark(place)).select(casts)
    try:
        rows.write.format("noop").mode("overwrite").save()
    except (PySparkException, Py4JError) as error:
        if not overflowed(error):
            raise
        raise _impossible(place, dates, "it holds a date after the year 294246") from None


def _lacking_features(spark: SparkSession, place: Files, wider: Sequence[Widening]) -> list[str]:
    _, now = definition(spark, place)
    wanted = []
    if now.configuration.get("delta.enableTypeWidening") != "true":
        wanted.append("'delta.enableTypeWidening' = 'true'")
    if any(kinds.is_timestamp(one.after) for one in wider) and "timestampNtz" not in now.features:
        wanted.append("'delta.feature.timestampNtz' = 'supported'")
    return wanted


def _impossible(place: Files, wider: Sequence[Widening], why: str) -> CommitImpossible:
    names = ", ".join(".".join(one.path) for one in wider)
    return CommitImpossible(
        f"table {place}: Delta does not let {names} become wider ({why}). Put that right in the table, or set "
        "policies.wider_type to `rescue`"
    )


def _named(one: Widening) -> str:
    return ".".join(map(quoted, one.path))
