"""Spark's own `from_json` is the reference for what fits a column."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from distributary.codecs.json.codec import JsonCodec
from distributary.codecs.types.spark_struct import arrow_schema, list_of, struct_json
from distributary.registry.base import Schema

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("compiled")]

SCHEMA = pa.schema(
    [
        ("byte", pa.int8()),
        ("int", pa.int32()),
        ("long", pa.int64()),
        ("double", pa.float64()),
        ("float", pa.float32()),
        ("string", pa.string()),
        ("boolean", pa.bool_()),
        ("time", pa.timestamp("us", "UTC")),
        ("local", pa.timestamp("us")),
        ("date", pa.date32()),
        ("decimal", pa.decimal128(10, 2)),
        ("binary", pa.binary()),
        ("list", list_of(pa.int64())),
        ("struct", pa.struct([("p", pa.int64())])),
        ("map", pa.map_(pa.string(), pa.int64())),
    ]
)
READER = JsonCodec().reader(Schema(1, "STRUCT", struct_json(SCHEMA)), ())
VALUES = """12|12.0|"12"|-1|127|128|true|false|null|1e2|-0|1e400|123456789012|9223372036854775807|9223372036854775808|"NaN"|"Infinity"
"-INF"|"+INF"|12.345|12.340|1.5|123456789|"1.5"|".5"|"01"|""|"a"|{"p":1}|{"p" : "1"}|{}|[]|[1, 2]|[1,"2"]|["a"]|[null]|"2026-01-02"
"2026-01-02T03:04:05Z"|"2026-01-02 03:04:05"|"2026-01-02T03:04:05.123456+02:00"|"2026-01-02T03:04:05.1Z"|"2026-02-30"|"2026-01-02T24:00:00Z"
"0001-01-01"|"9999-12-31T23:59:59.999999Z"|"1582-10-10"|"1582-10-10T00:00:00Z"|"2026-01-02T03:04:05+18:00"|"YWI="|"YWJ="|"YW"|"\\u00e4\\u0000"
1.0E10|0.1|16777216|16777217|1e39|9007199254740993|{"a":1,"b":null}|{"a":1.5}|"{\\"a\\":1}"|{"p":1,"q":2}"""
# Text of other values is theirs to the letter here, and as Spark would write it there.
PAIRS = [
    (name, value)
    for name in SCHEMA.names
    for value in VALUES.replace("\n", "|").split("|")
    if name != "string" or value[0] in '"tfn'
]


def comparable(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: comparable(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [comparable(one) for one in value]
    # Spark has no negative zero where the text is a whole number.
    return str(value + 0.0) if isinstance(value, float) else value


@pytest.fixture(params=["UTC", "Asia/Tokyo"])
def zoned(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[SparkSession]:
    """A session in this time zone, which must not matter."""
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", request.param)
    yield spark
    spark.conf.set("spark.sql.session.timeZone", str(before))


def test_what_decode_takes_from_json_takes_as_the_same_value(zoned: SparkSession) -> None:
    texts = [f'{{"{name}":{value}}}' for name, value in PAIRS]
    frame = zoned.createDataFrame(
        [(place, text) for place, text in enumerate(texts)], "place int, text string"
    )
    column = READER.column(F.col("text").cast("binary"), "PERMISSIVE").alias("r")
    table = frame.select("place", column).orderBy("place").toArrow()
    decoded = READER.decode(pa.array([text.encode() for text in texts], pa.binary()))
    assert decoded.rescued is not None and decoded.rows.num_rows == len(texts)
    took = pa.array([place for place, left in enumerate(decoded.rescued.to_pylist()) if left is None])
    # In our own types: theirs have the session's zone, in which the first and the last day may be out of range.
    theirs = table.column("r").take(took).combine_chunks().cast(pa.struct(list(SCHEMA))).to_pylist()
    ours = decoded.rows.take(took).to_pylist()
    for place, our, their in zip(took.to_pylist(), ours, theirs, strict=True):
        assert comparable(our) == comparable(their), texts[place]
    # So many of these pairs fit: none may be lost to a reader that takes less.
    assert len(took) == 149


def test_a_record_that_does_not_fit_is_null_or_fails_the_query(spark: SparkSession) -> None:
    texts = ['{"int":1}', '{"int":"1"}', "broken", "", '{"int":1,"long":"x"}']
    frame = spark.createDataFrame([(text,) for text in texts], "text string")
    found = frame.select(READER.column(F.col("text"), "PERMISSIVE")["int"].alias("i")).collect()
    assert [row["i"] for row in found] == [1, None, None, None, None]
    with pytest.raises(Exception, match="MALFORMED_RECORD_IN_PARSING"):
        frame.where("text = 'broken'").select(READER.column(F.col("text"))["int"]).collect()
    with pytest.raises(Exception, match="MALFORMED_RECORD_IN_PARSING"):
        frame.where("text like '%\"1\"%'").select(READER.column(F.col("text"))).collect()


def test_the_schema_is_written_and_read_as_spark_does(spark: SparkSession) -> None:
    ddl = (
        "a tinyint, b smallint, c int, d bigint, e float, f double, g string, h binary, i date, j timestamp, "
        "k timestamp_ntz, l decimal(10,2), m boolean, n array<struct<x: int, `y.z`: map<string, bigint>>>"
    )
    theirs = (
        StructType.fromDDL(ddl) if hasattr(StructType, "fromDDL") else spark.createDataFrame([], ddl).schema
    )
    assert struct_json(arrow_schema(theirs.json())) == theirs.json()


def test_types_are_inferred_as_by_sparks_reader(spark: SparkSession) -> None:
    values: list[dict[str, Any]] = [
        {
            "a": 1,
            "b": 1,
            "c": True,
            "d": [1, 2.5],
            "e": {"x": 1},
            "f": 2**70,
            "g": 1,
            "h": [{"p": 1}, {"q": "x"}],
            "i": "t",
        },
        {
            "a": 2**63,
            "b": 1.5,
            "c": "x",
            "d": [1],
            "e": {"y": [True]},
            "f": 1.5,
            "g": "s",
            "h": [],
            "i": None,
        },
    ]
    texts = [json.dumps(value) for value in values]
    theirs = spark.read.json(spark.sparkContext.parallelize(texts)).schema
    empty = JsonCodec().reader(Schema(0, "STRUCT", struct_json(pa.schema([]))), ())
    ours = empty.grown(pa.array([text.encode() for text in texts], pa.binary()))
    assert arrow_schema(ours.text) == arrow_schema(theirs.json())
