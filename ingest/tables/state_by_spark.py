"""Delta tables as Spark's own Delta library sees them, for those that delta-rs does not master."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from deltalake import Schema as DeltaSchema
from pyspark.sql.types import StructType

from distributary.errors import CommitImpossible
from distributary.ingest.spark.delta import why_no_delta
from distributary.ingest.storage.opening import At
from distributary.ingest.storage.place import Place
from distributary.ingest.tables.conditions import Definition, identity_columns

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


# What Spark takes the times of Parquet files for; Spark 3.5 ends over those before 1900 where nobody says it.
CALENDARS = ("spark.sql.parquet.datetimeRebaseModeInRead", "spark.sql.parquet.datetimeRebaseModeInWrite")
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
