"""Our JSON columns by the genuine `from_json` of Spark 3.4.1, held to what our Arrow decoder gives of the same text."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from tests.compat import spark_fronts

from distributary.registry.base import Schema

inferred = pytest.importorskip("distributary.codecs.json.codec")

TYPE = (
    "b boolean, i bigint, d double, s string, l array<bigint>, p struct<x: bigint, y: double>, "
    "ps array<struct<x: bigint, y: double>>, m map<string, bigint>, day date, at timestamp"
)
GOLDEN = {
    "all there": '{"b":true,"i":-9223372036854775808,"d":1.5,"s":"ä\\n","l":[1,2],"p":{"x":1,"y":2.5},"ps":[{"x":1,"y":0.5}],'
    '"m":{"k":7},"day":"2026-01-02","at":"2026-01-02T03:04:05.678901Z"}',
    "nothing there": "{}",
    "all null": '{"b":null,"i":null,"d":null,"s":null,"l":null,"p":null,"ps":null,"m":null,"day":null,"at":null}',
    "empty ones": '{"s":"","l":[],"p":{},"ps":[{}],"m":{}}',
    "nulls inside": '{"l":[1,null],"p":{"x":null,"y":1.0},"ps":[null,{"x":2}],"m":{"k":null}}',
    "another order": '{"s":"x","b":false}',
    "a time with an offset": '{"at":"2026-01-02T03:04:05+02:00"}',
}


@pytest.fixture(scope="module")
def reader(spark: SparkSession) -> Any:
    text = spark.createDataFrame([], TYPE).schema.json()
    return inferred.JsonCodec().reader(Schema(1, "STRUCT", text), ())


def rows_by_spark(spark: SparkSession, reader: Any, payloads: list[bytes]) -> list[dict[str, Any]]:
    frame = spark.createDataFrame([(bytearray(payload),) for payload in payloads], "payload binary")
    rows = spark_fronts.arrow_of(frame.select(reader.column(F.col("payload")).alias("r")).select("r.*"))
    return list(rows.cast(reader.schema).to_pylist())


@pytest.mark.parametrize("name", GOLDEN)
def test_a_golden_record_is_the_same_by_both_decoders(spark: SparkSession, reader: Any, name: str) -> None:
    payload = GOLDEN[name].encode()
    decoded = reader.decode(pa.array([payload], pa.binary()))
    assert not decoded.failures
    assert rows_by_spark(spark, reader, [payload]) == decoded.rows.to_pylist()


def test_a_broken_record_fails_the_query(spark: SparkSession, reader: Any) -> None:
    with pytest.raises(Exception, match=r"Malformed records|MALFORMED_RECORD|FAILFAST"):
        rows_by_spark(spark, reader, [b'{"i": '])
