"""Spark's `from_avro` and our casts resolve records as our own decoder does: the same columns, types and values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from tests.codecs.avro.resolution.test_reader import E1, LOCAL, READ, fields, reader_of
from tests.codecs.avro.test_codec import CHAIN, comparable
from tests.codecs.avro.test_spark import _renamed
from tests.codecs.avro_pairs import pairs_with_values
from tests.codecs.avro_samples import Branch, kind_of, record, write

from distributary.codecs.avro.resolution.reader import ResolvingReader
from distributary.codecs.avro.spark import spark_type
from distributary.errors import BadSchema, DecoderUnavailable

pytestmark = pytest.mark.spark


def structs(spark: SparkSession, column: Column, payloads: Sequence[bytes]) -> list[Any]:
    rows = [(number, bytearray(payload)) for number, payload in enumerate(payloads)]
    frame = spark.createDataFrame(rows, "number int, payload binary").coalesce(1)
    table = frame.select("number", column.alias("r")).orderBy("number").toArrow()
    return _comparable_structs(table["r"])


def _comparable_structs(column: pa.ChunkedArray) -> list[Any]:
    whole = column.combine_chunks()
    rows = comparable(pa.RecordBatch.from_struct_array(whole.filter(whole.is_valid())))
    found = iter(rows)
    return [next(found) if there else None for there in whole.is_valid().to_pylist()]


def by_decode(reader: ResolvingReader, payloads: Sequence[bytes]) -> list[Any]:
    decoded = reader.decode(pa.array(payloads, pa.binary()))
    rows = dict(zip(decoded.source.tolist(), comparable(decoded.rows), strict=True))
    return [rows.get(place) for place in range(len(payloads))]


def test_every_pair_of_types_has_the_value_that_decode_gives(spark: SparkSession) -> None:
    # Of int and long in one union from_avro tells no branch: see below.
    pairs = [case for case in READ if case[0] not in (["int", "long"], ["float", "double"])]
    before = record(*(_renamed(written, number) for number, (written, *_) in enumerate(pairs)))
    after = record(*(_renamed(read, number) for number, (_, _, read, _) in enumerate(pairs)))
    reader = reader_of(before, after)
    plain = [
        (kind_of(written) if kind_of(written) in ("int", "long", "bytes") else written, value)
        for written, value, *_ in pairs
    ]
    payload = b"".join(write(kind, value) for kind, value in plain)
    assert by_decode(reader, [payload]) == [{f"c{n}": wanted for n, (*_, wanted) in enumerate(pairs)}]
    column = reader.column(F.col("payload"))
    assert structs(spark, column, [payload]) == by_decode(reader, [payload])


@settings(max_examples=8, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(sample=pairs_with_values())
def test_at_random_too(spark: SparkSession, sample: tuple[Any, Any, list[Any]]) -> None:
    writer, reader, values = sample
    payloads = [write(writer, value) for value in values]
    try:
        found = reader_of(writer, reader)
        column = found.column(F.col("payload"), "PERMISSIVE")
    except (BadSchema, DecoderUnavailable):
        return
    wanted = by_decode(found, payloads)
    assert [row for row, right in zip(structs(spark, column, payloads), wanted, strict=True) if right] == [
        right for right in wanted if right
    ]


def test_a_value_that_cannot_be_the_readers_fails_the_query_or_is_null(spark: SparkSession) -> None:
    before = fields(
        {"name": "e", "type": {"type": "array", "items": E1}},
        {"name": "u", "type": ["null", "long", "string"]},
        {"name": "n", "type": ["null", record("int", name="I")]},
    )
    after = fields(
        {"name": "e", "type": {"type": "array", "items": {**E1, "symbols": ["A"]}}},
        {"name": "u", "type": ["null", "long"]},
        {"name": "n", "type": ["null", record("long", name="I")]},
    )
    values = [
        {"e": e, "u": Branch(n, v), "n": Branch(0, None)}
        for e in ([], ["A"], ["A", "B"])
        for n, v in ((0, None), (1, 7), (2, "x"))
    ]
    payloads = [write(before, value) for value in values]
    reader = reader_of(before, after)
    wanted = by_decode(reader, payloads)
    assert [row is None for row in wanted] == [False, False, True, False, False, True, True, True, True]
    assert structs(spark, reader.column(F.col("payload"), "PERMISSIVE"), payloads) == wanted
    assert structs(spark, reader.column(F.col("payload")), payloads[:2]) == wanted[:2]
    with pytest.raises((PySparkException, Py4JJavaError), match="not one that the reader's schema has"):
        structs(spark, reader.column(F.col("payload")), payloads)


def test_the_types_are_those_of_decode(spark: SparkSession) -> None:
    after = fields({"name": "t", "type": LOCAL}, {"name": "n", "type": "double"})
    reader = reader_of(fields({"name": "n", "type": "int"}, {"name": "t", "type": LOCAL}), after)
    frame = spark.createDataFrame([], "payload binary").select(reader.column(F.col("payload")).alias("r"))
    kinds = [field.dataType for field in frame.select("r.*").schema]
    assert kinds == [spark_type(field.type) for field in reader.schema]
    assert kinds[0].typeName() == "timestamp_ntz"


@pytest.mark.parametrize(
    ("written", "read", "said"),
    [
        (["int", "long"], ["long", "string"], "does not tell the branches"),
        (record(CHAIN, name="O"), record(CHAIN, "int", name="O"), "can contain itself"),
    ],
)
def test_what_spark_cannot_is_said(spark: SparkSession, written: Any, read: Any, said: str) -> None:
    if kind_of(read) == "record":
        read["fields"][1]["default"] = 1
    pair = (fields({"name": "v", "type": kind}) for kind in (written, read))
    with pytest.raises(DecoderUnavailable, match=said):
        reader_of(*pair).column(F.col("payload"))
