"""The contract of all codecs by the genuine functions of Spark 3.4.1: the same golden and random records as everywhere.

Protobuf's are in test_protobuf.py, since that version lacks options which other records need.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from tests.codecs.contract_records import EVENT, EVENTS, rows_by_spark
from tests.codecs.contract_shapes import BODY, plain, samples, schema_of

from distributary.codecs.base import load_codec

FORMATS = pytest.mark.parametrize("format_", ["avro", "json", "jsonschema"])


@FORMATS
def test_golden_records_are_the_same_by_both_decoders(spark: SparkSession, format_: str) -> None:
    schema, path = schema_of(format_, EVENT)
    reader = load_codec(format_).reader(schema, path)
    found = rows_by_spark(spark, reader, [BODY[format_](EVENT, row) for row in EVENTS])
    assert [plain(EVENT, row) for row in found] == EVENTS


@FORMATS
@settings(max_examples=6, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_random_records_are_the_same_by_both_decoders(
    spark: SparkSession, format_: str, data: st.DataObject
) -> None:
    record, rows = data.draw(samples(format_))
    schema, path = schema_of(format_, record)
    reader = load_codec(format_).reader(schema, path)
    found = rows_by_spark(spark, reader, [BODY[format_](record, row) for row in rows])
    assert [plain(record, row) for row in found] == rows
