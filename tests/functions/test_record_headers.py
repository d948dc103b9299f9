"""Schemas that records name beside their value, in Kafka's record headers, by id or by GUID."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from uuid import UUID, uuid4

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tests.codecs.avro_samples import by_fastavro
from tests.codecs.protobuf_samples import message_class
from tests.functions.test_avro_evolution import event, field
from tests.functions.test_functions import rows
from tests.registry.conftest import AnswerServer, serving

from distributary import functions
from distributary.errors import ConfigError

pytestmark = pytest.mark.spark

SUBJECT = "games-value"
V1 = event(field("game", "string"))
V2 = event(field("game", "string"), field("level", "int", default=3))
PROTO = 'syntax = "proto3"; message Other { } message Event { string game = 1; }'
GUIDS = [str(uuid4()), str(uuid4())]


@pytest.fixture
def server() -> Iterator[AnswerServer]:
    """A registry that knows schemas by GUID too, which the one that tests start does not."""
    yield from serving(None)


def registers(server: AnswerServer, *texts: str, kind: str = "AVRO") -> None:
    """Versions with the ids 1, 2 and so on, and the GUIDs of above."""
    for number, text in enumerate(texts, start=1):
        body = {"schema": text, "schemaType": kind}
        server.version(SUBJECT, number, number, **body)
        server.on(f"/schemas/ids/{number}", server.json(body))
        server.on(f"/schemas/guids/{GUIDS[number - 1]}", server.json({**body, "guid": GUIDS[number - 1]}))
    server.on(f"/subjects/{SUBJECT}/versions", server.json(list(range(1, len(texts) + 1))))


def by_id(number: int) -> bytes:
    return b"\0" + number.to_bytes(4, "big")


def by_guid(number: int) -> bytes:
    return b"\1" + UUID(GUIDS[number - 1]).bytes


def frame_of(
    spark: SparkSession, *records: tuple[bytes | None, bytes], header: str = "__value_schema_id"
) -> DataFrame:
    """Records as Kafka's source gives them: what names the schema in a header (or None), and the value."""
    data = []
    for number, (name, value) in enumerate(records):
        named = [] if name is None else [(header, bytearray(name))]
        data.append((number, bytearray(value), [("trace", bytearray(b"t")), *named]))
    return spark.createDataFrame(
        data, "number int, value binary, headers array<struct<key string, value binary>>"
    ).coalesce(1)


# Spark's own reads what this one hands it: test_other_formats.py.
@pytest.mark.parametrize("engine", ["python", pytest.param("spark", marks=pytest.mark.heavy)])
def test_avro_is_read_by_what_the_header_names(
    spark: SparkSession, server: AnswerServer, engine: str
) -> None:
    registers(server, json.dumps(V1), json.dumps(V2))
    old, new = by_fastavro(V1, {"game": "a"}), by_fastavro(V2, {"game": "b", "level": 5})
    frame = frame_of(
        spark, (by_id(1), old), (by_guid(1), old), (by_guid(2), new), (None, by_id(2) + new), (None, new)
    )
    options = {"distributary.headers": "headers", "distributary.engine": engine, "mode": "PERMISSIVE"}
    column = functions.from_avro("value", subject=SUBJECT, schemaRegistryAddress=server.url, options=options)
    wanted = [*[{"game": "a", "level": 3}] * 2, *[{"game": "b", "level": 5}] * 2, None]
    assert rows(frame, column) == wanted
    if engine == "spark":
        return
    decoded = functions.decode(
        frame, registry=server.url, subject=SUBJECT, headers="headers", into="event", mode="PERMISSIVE"
    )
    assert decoded.columns == ["number", "headers", "event", "_decode_error", "_corrupt_record"]
    assert decoded.orderBy("number").toArrow()["event"].to_pylist() == wanted


def test_a_guid_of_a_newer_version_ends_the_query(spark: SparkSession, server: AnswerServer) -> None:
    registers(server, json.dumps(V1))
    frame = frame_of(spark, (by_guid(2), by_fastavro(V2, {"game": "b", "level": 5})))
    decoded = functions.decode(frame, registry=server.url, subject=SUBJECT, headers="headers")
    registers(server, json.dumps(V1), json.dumps(V2))
    with pytest.raises(PySparkException, match=r"UnknownFieldException"):
        decoded.collect()


def test_a_protobuf_header_carries_the_message_index_too(spark: SparkSession, server: AnswerServer) -> None:
    registers(server, PROTO, kind="PROTOBUF")
    body = message_class(PROTO, "Event")(game="a").SerializeToString()
    frame = frame_of(spark, (by_id(1) + b"\2\2", body), (by_guid(1) + b"\2\2", body))
    options: dict[str, Any] = {
        "schema.registry.subject": SUBJECT,
        "schema.registry.address": server.url,
        "schema.registry.protobuf.name": "Event",
        "distributary.headers": "headers",
    }
    assert rows(frame, functions.from_protobuf("value", options=options)) == [{"game": "a"}] * 2


def test_keys_are_told_by_their_columns_name_or_by_an_option(
    spark: SparkSession, server: AnswerServer
) -> None:
    registers(server, json.dumps(V1))
    sent = (by_id(1), by_fastavro(V1, {"game": "a"}))
    frame = frame_of(spark, sent, header="__key_schema_id").withColumnRenamed("value", "key")
    renamed = frame.withColumnRenamed("key", "k")
    asked = {"subject": SUBJECT, "schemaRegistryAddress": server.url}
    headers = {"distributary.headers": "headers", "mode": "PERMISSIVE"}
    as_key = {**headers, "distributary.payload": "key"}
    assert rows(frame, functions.from_avro("key", options=headers, **asked)) == [{"game": "a"}]
    assert rows(renamed, functions.from_avro(F.col("k"), options=headers, **asked)) == [None]
    assert rows(renamed, functions.from_avro(F.col("k"), options=as_key, **asked)) == [{"game": "a"}]
    decoded = functions.decode(
        renamed, "k", registry=server.url, subject=SUBJECT, headers="headers", payload="key"
    )
    assert [row.game for row in decoded.collect()] == ["a"]


def test_a_frame_without_headers_is_told_so(spark: SparkSession, server: AnswerServer) -> None:
    registers(server, json.dumps(V1))
    frame = frame_of(spark).drop("headers").withColumn("other", F.lit(1))
    with pytest.raises(ConfigError, match=r"no column 'headers' of record headers.*includeHeaders"):
        functions.decode(frame, registry=server.url, subject=SUBJECT, headers="headers")
