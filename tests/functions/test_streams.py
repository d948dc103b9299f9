"""The functions in Structured Streaming: a newer version ends the query, and after a restart its fields are there."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from tests.codecs.avro_samples import by_fastavro
from tests.codecs.protobuf_samples import message_class
from tests.functions.test_avro_evolution import event, field

from distributary import functions
from distributary.producer_sim.stack.local import LocalStack
from distributary.registry.base import SchemaType
from distributary.registry.confluent.options import RegistryOptions
from distributary.registry.confluent.registry import ConfluentRegistry

pytestmark = [pytest.mark.spark, pytest.mark.stack]

AVRO = [event(field("game", "string")), event(field("game", "string"), field("level", "int", default=3))]
PROTO = [
    f'syntax = "proto3"; message Event {{ string game = 1; {more} }}' for more in ("", "int32 level = 2;")
]


def avro_record(version: int, value: dict[str, Any]) -> bytes:
    return by_fastavro(AVRO[version], value)


def protobuf_record(version: int, value: dict[str, Any]) -> bytes:
    return b"\0" + bytes(message_class(PROTO[version], "Event")(**value).SerializeToString())


def from_avro(frame: DataFrame, url: str, subject: str) -> DataFrame:
    options = {"avroSchemaEvolutionMode": "restart"}
    decoded = functions.from_avro("value", options=options, subject=subject, schemaRegistryAddress=url)
    return frame.select(decoded.alias("event")).select("event.*")


def from_protobuf(frame: DataFrame, url: str, subject: str) -> DataFrame:
    options = {"schema.registry.subject": subject, "schema.registry.address": url}
    return frame.select(functions.from_protobuf("value", options=options).alias("event")).select("event.*")


def decode(frame: DataFrame, url: str, subject: str) -> DataFrame:
    return functions.decode(frame, registry=url, subject=subject)


class Case(NamedTuple):
    """A function, and two versions of what it decodes."""

    kind: SchemaType
    texts: list[str]
    record: Callable[[int, dict[str, Any]], bytes]
    function: Callable[[DataFrame, str, str], DataFrame]
    level_of_old: int | None


CASES = {
    "from_avro": Case("AVRO", [json.dumps(spec) for spec in AVRO], avro_record, from_avro, 3),
    "from_protobuf": Case("PROTOBUF", PROTO, protobuf_record, from_protobuf, None),
    "decode": Case("PROTOBUF", PROTO, protobuf_record, decode, None),
}


# What each function makes of a newer version outside of a stream: test_functions.py, test_avro_evolution.py.
@pytest.mark.parametrize(
    "name", [name if name == "decode" else pytest.param(name, marks=pytest.mark.heavy) for name in CASES]
)
def test_a_newer_version_ends_the_query_and_is_there_after_a_restart(
    spark: SparkSession, stack: LocalStack, tmp_path: Path, name: str
) -> None:
    case, subject = CASES[name], f"games-{uuid.uuid4().hex[:8]}-value"
    folder = tmp_path / "in"
    folder.mkdir()

    def arrives(number: int, version: int, value: dict[str, Any]) -> None:
        with ConfluentRegistry(RegistryOptions(url=stack.registry_url)) as registry:
            schema_id = registry.register(subject, case.texts[version], case.kind)
        payload = b"\0" + schema_id.to_bytes(4, "big") + case.record(version, value)
        pq.write_table(pa.table({"value": pa.array([payload], pa.binary())}), folder / f"{number}.parquet")

    def started() -> StreamingQuery:
        records = spark.readStream.schema("value binary").parquet(str(folder))
        writer = case.function(records, stack.registry_url, subject).writeStream
        return writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start(
            str(tmp_path / "out"), "parquet"
        )

    arrives(1, 0, {"game": "a"})
    query = started()
    query.processAllAvailable()
    arrives(2, 1, {"game": "b", "level": 5})
    with pytest.raises(StreamingQueryException, match=r"UnknownFieldException.*start the query again"):
        query.processAllAvailable()
    assert not query.isActive
    arrives(3, 0, {"game": "c"})
    query = started()
    query.processAllAvailable()
    query.stop()
    found = spark.read.option("mergeSchema", "true").parquet(str(tmp_path / "out")).orderBy("game").collect()
    assert [(row.game, row.level) for row in found] == [("a", None), ("b", 5), ("c", case.level_of_old)]
