"""Delta tables as Spark's own Delta library sees them, for those that delta-rs does not master."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from deltalake import Schema as DeltaSchema
from pyspark.sql.types import StructType

from distributary.ingest.tables.conditions import Definition, identity_columns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def snapshot(spark: SparkSession, path: str) -> Any:
    """Delta's `Snapshot` (a Java object) of the table's newest version."""
    log = spark._jvm.org.apache.spark.sql.delta.DeltaLog  # type: ignore[union-attr]
    return log.forTableWithSnapshot(spark._jsparkSession, path)._2()


def definition(spark: SparkSession, path: str) -> tuple[int, Definition]:
    """The table's version and what its log says about it."""
    current = snapshot(spark, path)
    protocol = json.loads(current.protocol().json())["protocol"]
    features = protocol.get("writerFeatures", []) + protocol.get("readerFeatures", [])
    metadata = json.loads(current.metadata().json())["metaData"]
    return int(current.version()), Definition(
        fields=json.loads(metadata["schemaString"])["fields"],
        configuration=metadata["configuration"],
        partition_columns=tuple(metadata["partitionColumns"]),
        writer_version=int(protocol["minWriterVersion"]),
        features=frozenset(features),
    )


def transaction_version(current: Any, app_id: str) -> int | None:
    """The last version that `app_id` committed to the table, by this `snapshot`."""
    found = current.transactions().get(app_id)
    return int(found.get()) if found.isDefined() else None


def spark_schema(schema: pa.Schema) -> StructType:
    """The Spark type of rows with this Arrow schema, field metadata included."""
    return StructType.fromJson(json.loads(DeltaSchema.from_arrow(schema).to_json()))


def add_columns(spark: SparkSession, path: str, merged: pa.Schema, identity: Collection[str]) -> None:
    """Makes `merged`, which holds all the table has, the table's schema.

    An empty append that merges schemas: ALTER TABLE would lose the field metadata. Identity columns, which no writer
    may give values for, are left out of it.
    """
    _, now = definition(spark, path)
    identity = identity_columns(now)
    frame = spark.createDataFrame([], spark_schema(pa.schema([f for f in merged if f.name not in identity])))
    frame.write.format("delta").mode("append").option("mergeSchema", "true").save(path)
