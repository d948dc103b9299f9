"""Our Protobuf columns by the genuine `from_protobuf` of Spark 3.4.1, held to what our Arrow decoder gives.

That version knows two options, `mode` and `recursive.fields.max.depth`. Records that need another one are skipped, each with
its reason; `make test-compat` prints them.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from tests.codecs.protobuf_golden import EMPTY, FILE, GOLDEN, JSON, UNSIGNED, ZEROS, Golden, reader_of
from tests.codecs.protobuf_samples import descriptor, message_class, messages, schema
from tests.compat import spark_fronts

from distributary.codecs.protobuf.codec import ProtobufCodec, ProtobufReader

# Random records that need no newer option: what has no presence is in lists and maps. Times are not among them: their
# two parts have no presence, and so are NULL where they are zero; the golden records have times.
OPTIONAL = """syntax = "proto3"; package random;
enum Colour { RED = 0; BLUE = 1; NEGATIVE = -5; }
message Inner { optional int32 a = 1; optional string s = 2; repeated Colour colours = 3; map<string, int64> counts = 4; }
message Random {
  optional double d = 1; optional float f = 2; optional int32 i32 = 3; optional int64 i64 = 4; optional sint32 s32 = 5;
  optional sint64 s64 = 6; optional sfixed32 sf32 = 7; optional sfixed64 sf64 = 8; optional bool b = 9; optional string s = 10;
  optional bytes by = 11; optional Colour c = 12; Inner inner = 13; repeated Inner inners = 14; map<string, Inner> named = 15;
  map<sfixed32, bytes> xb = 16; map<bool, Colour> bc = 17;
  repeated sint64 many = 19; repeated double doubles = 20;
  oneof one { int32 pick_i = 22; string pick_s = 23; Inner pick_m = 24; Colour pick_c = 25; }
}"""
RANDOM_TYPE = descriptor(OPTIONAL, "random.Random")


def rows_by_spark(spark: SparkSession, reader: ProtobufReader, payloads: list[bytes]) -> list[dict[str, Any]]:
    frame = spark.createDataFrame([(bytearray(payload),) for payload in payloads], "payload binary")
    rows = spark_fronts.arrow_of(frame.select(reader.column(F.col("payload")).alias("r")).select("r.*"))
    return list(rows.cast(reader.schema).to_pylist())


@pytest.fixture(scope="module")
def golden_rows(spark: SparkSession) -> dict[str, dict[str, Any]]:
    """What Spark makes of every golden record that it can express, by the record's name: one query a type."""
    rows: dict[str, dict[str, Any]] = {}
    possible = [golden for golden in GOLDEN if not golden.needs]
    for kind in dict.fromkeys(golden.kind for golden in possible):
        same = [golden for golden in possible if golden.kind == kind]
        decoded = rows_by_spark(spark, same[0].reader, [golden.payload for golden in same])
        rows |= {golden.name: row for golden, row in zip(same, decoded, strict=True)}
    return rows


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda golden: golden.name)
def test_a_golden_record_is_the_same_by_both_decoders(
    golden_rows: dict[str, dict[str, Any]], golden: Golden
) -> None:
    if golden.needs:
        pytest.skip(f"{golden.name}: {golden.needs}")
    assert [golden_rows[golden.name]] == golden.decoded()


@settings(max_examples=6, phases=[Phase.generate])
@given(st.lists(messages(RANDOM_TYPE), min_size=20, max_size=40))
def test_random_records_are_the_same_by_both_decoders(spark: SparkSession, sent: list[Any]) -> None:
    reader = ProtobufCodec().reader(schema(OPTIONAL), (1,))
    payloads = [message.SerializeToString() for message in sent]
    decoded = reader.decode(pa.array(payloads, pa.binary()))
    assert decoded.rows.num_rows == len(payloads)
    assert rows_by_spark(spark, reader, payloads) == decoded.rows.to_pylist()


def test_a_broken_record_fails_the_query(spark: SparkSession) -> None:
    reader = reader_of(FILE, "Signed")
    with pytest.raises(Exception, match=r"Malformed records|MALFORMED_PROTOBUF_MESSAGE|FAILFAST"):
        rows_by_spark(spark, reader, [b"\x0f"])


def test_a_time_out_of_range_fails_the_query_instead_of_being_clamped(spark: SparkSession) -> None:
    kind = message_class(FILE, "golden.Times")
    message = kind(at={"seconds": 253_402_300_800})
    with pytest.raises(Exception, match="outside of the range"):
        rows_by_spark(spark, reader_of(FILE, "Times"), [message.SerializeToString()])


@pytest.mark.parametrize("name", ["Nested", "Lists", "Maps"])
def test_columns_have_the_types_that_our_schema_says(spark: SparkSession, name: str) -> None:
    reader = reader_of(FILE, name)
    frame = spark.createDataFrame([], "payload binary").select(reader.column(F.col("payload")).alias("r"))
    assert frame.select("r.*").schema.names == reader.schema.names


def test_the_golden_records_left_out_are_few_and_each_has_its_reason() -> None:
    left_out = [golden for golden in GOLDEN if golden.needs]
    assert {golden.needs for golden in left_out} == {ZEROS, UNSIGNED, EMPTY, JSON}
    assert len(left_out) < len(GOLDEN) / 3
