"""Delta tables as Spark's own Delta library sees them, for those that delta-rs does not master."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from deltalake import Schema as DeltaSchema
from pyspark.errors import AnalysisException
from pyspark.sql.types import StructType

from distributary.errors import CommitImpossible
from distributary.ingest.layout import spark_type
from distributary.ingest.native_conditions import Definition, quoted
from distributary.ingest.widening import Widening

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
    identity = {
        f["name"] for f in now.fields if any(key.startswith("delta.identity.") for key in f["metadata"])
    }
    frame = spark.createDataFrame([], spark_schema(pa.schema([f for f in merged if f.name not in identity])))
    frame.write.format("delta").mode("append").option("mergeSchema", "true").save(path)


def widen_columns(spark: SparkSession, path: str, wider: Sequence[Widening]) -> None:
    """Makes columns wider, all in one commit; the table gets the feature for it first, if it has it not yet.

    Raises CommitImpossible where Delta refuses.
    """
    table = f"delta.{quoted(path)}"
    lacking = _lacking_features(spark, path, wider)
    columns = ", ".join(f"{'.'.join(map(quoted, one.path))} TYPE {spark_type(one.after)}" for one in wider)
    try:
        if lacking:
            spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ({', '.join(lacking)})")
        spark.sql(f"ALTER TABLE {table} ALTER COLUMN {columns}")
    except AnalysisException as error:
        why = str(error).partition("\n")[0]
        names = ", ".join(".".join(one.path) for one in wider)
        raise CommitImpossible(
            f"table {path}: Delta does not let {names} become wider ({why}). Put that right in the table, or set "
            "policies.wider_type to `rescue`"
        ) from None


def _lacking_features(spark: SparkSession, path: str, wider: Sequence[Widening]) -> list[str]:
    _, now = definition(spark, path)
    wanted = []
    if now.configuration.get("delta.enableTypeWidening") != "true":
        wanted.append("'delta.enableTypeWidening' = 'true'")
    if any(pa.types.is_timestamp(one.after) for one in wider) and "timestampNtz" not in now.features:
        wanted.append("'delta.feature.timestampNtz' = 'supported'")
    return wanted
