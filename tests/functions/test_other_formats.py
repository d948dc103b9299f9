"""`from_avro` and `from_json`: by Spark's own function and by ours, the same rows."""

from __future__ import annotations

import json
import uuid
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from distributary import functions
from distributary.ingest.schema_location import SchemaLocation
from distributary.producer_sim.stack import Stack
from distributary.registry.confluent import ConfluentRegistry
from distributary.registry.options import RegistryOptions

pytestmark = [pytest.mark.spark, pytest.mark.stack]


def avro(*fields: dict[str, Any]) -> str:
    return json.dumps({"type": "record", "name": "Event", "fields": list(fields)})


OLD = avro({"name": "game", "type": "string"}, {"name": "score", "type": "int"})
NEW = avro(
    {"name": "game", "type": "string"},
    {"name": "score", "type": "long"},
    {"name": "tags", "type": {"type": "array", "items": "string"}, "default": []},
)


def record(schema_id: int, schema: str, **fields: Any) -> bytearray:
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(schema)), fields)
    return bytearray(b"\0" + schema_id.to_bytes(4, "big") + out.getvalue())


@pytest.mark.parametrize("engine", ["python", "spark"])
def test_avro_is_read_with_the_schema_of_each_record(spark: SparkSession, stack: Stack, engine: str) -> None:
    subject = f"games-{uuid.uuid4().hex[:8]}-value"
    with ConfluentRegistry(RegistryOptions(url=stack.registry_url)) as registry:
        old, new = (registry.register(subject, text, "AVRO") for text in (OLD, NEW))
    values = [record(old, OLD, game="a", score=1), None, record(new, NEW, game="b", score=2**40, tags=["x"])]
    frame = spark.createDataFrame(list(enumerate(values)), "number int, value binary")
    event = functions.from_avro(
        F.col("value"),
        subject=subject,
        schemaRegistryAddress=stack.registry_url,
        options={"distributary.engine": engine},
    )
    found = frame.select("number", event.alias("event")).orderBy("number").toArrow()["event"].to_pylist()
    assert found == [
        {"game": "a", "score": 1, "tags": []},
        None,
        {"game": "b", "score": 2**40, "tags": ["x"]},
    ]


@pytest.mark.parametrize("engine", ["python", "spark"])
def test_json_is_read_with_the_newest_schema_of_a_location(
    spark: SparkSession, tmp_path: Path, engine: str
) -> None:
    text = spark.createDataFrame([], "game string, score bigint").schema.json()
    SchemaLocation(tmp_path, tmp_path.name).register(tmp_path.name, text)
    frame = spark.createDataFrame([(bytearray(b'{"game":"a","score":3}'),), (None,)], "value binary")
    options = {"schemaLocation": str(tmp_path), "distributary.engine": engine}
    found = frame.select(functions.from_json("value", options=options).alias("event")).collect()
    assert [row.event and row.event.asDict() for row in found] == [{"game": "a", "score": 3}, None]
