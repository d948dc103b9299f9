"""What is made of `from_protobuf`'s result. The function itself is not on the class path of these tests, so its result
is stood in for by the plainer type's fields, as spark-protobuf documents them."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from tests.codecs.protobuf_samples import message_class, schema

from distributary.codecs.protobuf.codec import ProtobufCodec
from distributary.codecs.protobuf.spark import _check_columns, struct_of
from distributary.errors import DecoderUnavailable

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("compiled")]

TEXT = """syntax = "proto2"; package s;
import "google/protobuf/timestamp.proto"; import "google/protobuf/duration.proto"; import "google/protobuf/wrappers.proto";
enum Colour { RED = 1; BLUE = 2; }
message Inner { optional int32 x = 1; repeated Colour colours = 2; optional google.protobuf.Timestamp at = 3; }
message Plain {
  optional uint64 big = 1; optional Colour colour = 2 [default = BLUE]; optional string s = 3 [default = "none"];
  optional google.protobuf.Timestamp ts = 4; optional google.protobuf.Duration du = 5;
  optional google.protobuf.Int64Value w = 6; optional Inner inner = 7; repeated Inner inners = 8;
  map<string, Inner> named = 9; repeated google.protobuf.Duration dus = 10; optional uint32 u = 11;
}"""
RAW = (
    "struct<f1: decimal(20,0), f2: int, f3: string, f4: struct<f1: bigint, f2: int>, f5: struct<f1: bigint, f2: int>, "
    "f6: struct<f1: bigint>, f7: {inner}, f8: array<{inner}>, f9: map<string, {inner}>, "
    "f10: array<struct<f1: bigint, f2: int>>, f11: bigint>"
).replace("{inner}", "struct<f1: int, f2: array<int>, f3: struct<f1: bigint, f2: int>>")
READER = ProtobufCodec().reader(schema(TEXT), (1,))
INNER = (7, [1, 9], (5, 1_999))


def test_the_result_equals_what_the_arrow_decoder_gives(spark: SparkSession) -> None:
    kind = message_class(TEXT, "s.Plain")
    message = kind(big=2**64 - 1, u=2**32 - 1, w={"value": 0}, dus=[{"seconds": -1, "nanos": -1_500}, {}])
    for inner in (message.inner, message.inners.add(), message.named["k"]):
        inner.MergeFromString(b"\x08\x07\x10\x01\x10\x09\x1a\x05\x08\x05\x10\xcf\x0f")
    message.ts.seconds, message.ts.nanos, message.colour = -1, 1_500, 1
    decoded = READER.decode(pa.array([message.SerializeToString(), b""], pa.binary()))
    raw = [
        (
            Decimal(2**64 - 1),
            1,
            None,
            (-1, 1_500),
            None,
            (0,),
            INNER,
            [INNER],
            {"k": INNER},
            [(-1, -1_500), (0, 0)],
            2**32 - 1,
        ),
        (None, None, None, None, None, None, None, [], {}, [], None),
    ]
    frame = spark.createDataFrame([(row,) for row in raw], f"raw {RAW}").select(
        struct_of(READER._columns, F.col("raw")).alias("r")
    )
    assert frame.select("r.*").toArrow().cast(READER.schema).to_pylist() == decoded.rows.to_pylist()


def test_a_time_out_of_range_fails_instead_of_being_clamped(spark: SparkSession) -> None:
    row: tuple[object, ...] = (None, None, None, (2**62, 0), None, None, None, [], {}, [], None)
    frame = spark.createDataFrame([(row,)], f"raw {RAW}").select(
        struct_of(READER._columns, F.col("raw")).alias("r")
    )
    with pytest.raises(PySparkException, match="outside of the range"):
        frame.collect()


def test_without_spark_protobuf_the_remedy_is_named(spark: SparkSession) -> None:
    with pytest.raises(DecoderUnavailable, match=r"add org\.apache\.spark:spark-protobuf_2\.13"):
        READER.column(F.lit(b""))


def test_json_text_is_refused_by_the_fields_name() -> None:
    text = 'syntax = "proto3"; message Chain { Chain next = 1; }'
    reader = ProtobufCodec().reader(schema(text), (0,))
    with pytest.raises(DecoderUnavailable, match="'next' is JSON text"):
        _check_columns("Chain", reader._columns)
