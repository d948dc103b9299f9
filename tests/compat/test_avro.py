"""Our Avro columns by the genuine `from_avro` of Spark 3.4.1, held to what our Arrow decoder gives of the same bytes."""

from __future__ import annotations

import json
from datetime import date, datetime, timezone
from decimal import Decimal
from io import BytesIO
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro
from tests.compat import spark_fronts

from distributary.errors import DecoderUnavailable
from distributary.registry.base import Schema

avro = pytest.importorskip("distributary.codecs.avro.codec")

NOW = datetime(2026, 1, 2, 3, 4, 5, 678_901, tzinfo=timezone.utc)


def field(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


def logical(kind: str, logical_type: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": logical_type, **more}


COLOUR = {"type": "enum", "name": "Colour", "symbols": ["RED", "BLUE"]}
POINT = {"type": "record", "name": "Point", "fields": [field("x", "int"), field("y", ["null", "double"])]}

# What a record holds, by the name of the case: its fields' types and the values of two records.
GOLDEN: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]]]] = {
    "numbers": (
        [
            field("i", "int"),
            field("l", "long"),
            field("f", "float"),
            field("d", "double"),
            field("b", "boolean"),
        ],
        [
            {"i": -(2**31), "l": -(2**63), "f": 1.5, "d": 5e-324, "b": True},
            {"i": 2**31 - 1, "l": 2**63 - 1, "f": float("inf"), "d": -0.0, "b": False},
        ],
    ),
    "text and bytes": (
        [
            field("s", "string"),
            field("by", "bytes"),
            field("fx", {"type": "fixed", "name": "Two", "size": 2}),
        ],
        [{"s": "ä\U0001f600", "by": b"\0\xff", "fx": b"ab"}, {"s": "", "by": b"", "fx": b"\0\0"}],
    ),
    "null unions": (
        [field("s", ["null", "string"]), field("l", ["long", "null"]), field("p", ["null", POINT])],
        [{"s": None, "l": None, "p": None}, {"s": "x", "l": 0, "p": {"x": 1, "y": None}}],
    ),
    "enums": (
        [field("c", COLOUR), field("m", ["null", "Colour"])],
        [{"c": "RED", "m": None}, {"c": "BLUE", "m": "RED"}],
    ),
    "lists and maps": (
        [
            field("l", {"type": "array", "items": ["null", "int"]}),
            field("p", {"type": "array", "items": POINT}),
            field("m", {"type": "map", "values": "long"}),
        ],
        [{"l": [], "p": [], "m": {}}, {"l": [1, None], "p": [{"x": 1, "y": 2.5}], "m": {"k": 7}}],
    ),
    "times": (
        [
            field("ms", logical("long", "timestamp-millis")),
            field("us", logical("long", "timestamp-micros")),
            field("d", logical("int", "date")),
        ],
        [
            {"ms": NOW.replace(microsecond=678_000), "us": NOW, "d": date(2026, 1, 2)},
            {"ms": NOW.replace(year=1, microsecond=0), "us": NOW.replace(year=9999), "d": date(1, 1, 1)},
        ],
    ),
    "decimals": (
        [
            field("b", logical("bytes", "decimal", precision=20, scale=2)),
            field("f", logical("fixed", "decimal", precision=9, scale=3, name="Nine", size=4)),
        ],
        [
            {"b": Decimal("-1.25"), "f": Decimal("0.001")},
            {"b": Decimal("123456789012345678.90"), "f": Decimal("-999999.999")},
        ],
    ),
}


def text_of(fields: list[dict[str, Any]]) -> str:
    return json.dumps({"type": "record", "name": "Event", "namespace": "golden", "fields": fields})


def written(text: str, records: list[dict[str, Any]]) -> list[bytes]:
    schema, payloads = fastavro.parse_schema(json.loads(text)), []
    for record in records:
        out = BytesIO()
        fastavro.schemaless_writer(out, schema, record)
        payloads.append(out.getvalue())
    return payloads


def rows_by_spark(spark: SparkSession, reader: Any, payloads: list[bytes]) -> list[dict[str, Any]]:
    frame = spark.createDataFrame([(bytearray(payload),) for payload in payloads], "payload binary")
    rows = spark_fronts.arrow_of(frame.select(reader.column(F.col("payload")).alias("r")).select("r.*"))
    return list(rows.cast(reader.schema).to_pylist())


@pytest.mark.parametrize("name", GOLDEN)
def test_a_golden_record_is_the_same_by_both_decoders(spark: SparkSession, name: str) -> None:
    fields, records = GOLDEN[name]
    reader = avro.AvroCodec().reader(Schema(1, "AVRO", text_of(fields)), ())
    payloads = written(text_of(fields), records)
    decoded = reader.decode(pa.array(payloads, pa.binary()))
    assert not decoded.failures
    assert rows_by_spark(spark, reader, payloads) == decoded.rows.to_pylist()


def test_a_record_is_read_as_another_schema_has_it_as_from_avro_reads_it(spark: SparkSession) -> None:
    before = [field("i", "int"), field("c", COLOUR), field("p", ["null", POINT]), field("gone", "string")]
    after = [
        field("new", "long", default=7),
        field("was", "double", aliases=["i"]),
        field("c", {**COLOUR, "symbols": ["RED"], "default": "RED"}),
        field("p", ["null", {**POINT, "fields": [field("x", "long"), field("z", "string", default="z")]}]),
    ]
    records = [
        {"i": 1, "c": "RED", "p": None, "gone": "x"},
        {"i": 2, "c": "BLUE", "p": {"x": 1, "y": None}, "gone": ""},
    ]
    writer, wanted = (Schema(1, "AVRO", text_of(fields)) for fields in (before, after))
    reader = avro.AvroCodec().resolving(writer, wanted)
    payloads = written(text_of(before), records)
    rows = reader.decode(pa.array(payloads, pa.binary())).rows.to_pylist()
    assert rows[1] == {"new": 7, "was": 2.0, "c": "RED", "p": {"x": 1, "z": "z"}}
    frame = spark.createDataFrame([(bytearray(payload),) for payload in payloads], "payload binary")
    genuine = from_avro(F.col("payload"), writer.text, {"avroSchema": wanted.text})
    assert [row.r.asDict(recursive=True) for row in frame.select(genuine.alias("r")).collect()] == rows
    with pytest.raises(DecoderUnavailable, match="use the native decoder"):
        reader.column(F.col("payload"))


def test_a_broken_record_fails_the_query(spark: SparkSession) -> None:
    reader = avro.AvroCodec().reader(Schema(1, "AVRO", text_of(GOLDEN["numbers"][0])), ())
    with pytest.raises(Exception, match=r"Malformed records|MALFORMED_AVRO|FAILFAST"):
        rows_by_spark(spark, reader, [b"\x01"])
