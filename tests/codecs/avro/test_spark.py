"""Spark's own `from_avro` gives what `decode` gives, type by type; random records are in test_codec_contract.py."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tests.codecs.avro.test_codec import CHAIN, TYPES, comparable
from tests.codecs.avro_samples import by_fastavro, long, record, schema

from distributary.codecs.avro.codec import AvroCodec, AvroReader
from distributary.errors import DecoderUnavailable

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("compiled")]


def reader_of(spec: Any) -> AvroReader:
    return AvroCodec().reader(schema(spec), ())


def decoded(spark: SparkSession, reader: AvroReader, payloads: list[bytes]) -> DataFrame:
    frame = spark.createDataFrame([(bytearray(payload),) for payload in payloads], "payload binary").coalesce(
        1
    )
    return frame.select(reader.column(F.col("payload")).alias("r")).select("r.*")


def rows_of(spark: SparkSession, reader: AvroReader, payloads: list[bytes]) -> list[dict[str, Any]]:
    table = decoded(spark, reader, payloads).toArrow()
    assert table.schema.names == reader.schema.names
    return comparable(table.cast(reader.schema).combine_chunks().to_batches()[0])


def test_every_type_has_the_column_that_decode_gives(spark: SparkSession) -> None:
    # One record of all types, so that Spark compiles one query; each type has names of its own.
    specs = [_renamed(spec, number) for number, (spec, *_) in enumerate(TYPES)]
    whole = record(*specs)
    reader = reader_of(whole)
    payload = by_fastavro(whole, {f"c{number}": value for number, (_, value, *_) in enumerate(TYPES)})
    wanted = {f"c{number}": wanted for number, (*_, wanted) in enumerate(TYPES)}
    assert rows_of(spark, reader, [payload, payload]) == [wanted] * 2
    assert comparable(reader.decode(pa.array([payload], pa.binary())).rows) == [wanted]


def _renamed(spec: Any, number: int) -> Any:
    if isinstance(spec, list):
        return [_renamed(part, number) for part in spec]
    if not isinstance(spec, dict):
        return spec
    named = {"name": f"{spec['name']}{number}"} if "name" in spec else {}
    items = {key: _renamed(spec[key], number) for key in ("items", "values") if key in spec}
    return {**spec, **named, **items}


def test_a_schema_that_is_no_record_is_one_column(spark: SparkSession) -> None:
    assert rows_of(spark, reader_of(["null", "long"]), [long(1) + long(7), long(0)]) == [
        {"value": 7},
        {"value": None},
    ]


def test_a_null_payload_is_a_null_struct(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(None,)], "payload binary")
    reader = reader_of(record("long"))
    assert frame.select(reader.column(F.col("payload")).isNull()).first()[0]  # type: ignore[index]


@pytest.mark.parametrize(
    ("spec", "payload", "said"),
    [
        ("string", long(2**20), "Malformed"),
        ({"type": "int", "logicalType": "date"}, long(2_932_897), "outside of the range"),
        ({"type": "long", "logicalType": "timestamp-micros"}, long(2**62), "outside of the range"),
        ({"type": "long", "logicalType": "local-timestamp-micros"}, long(-(2**62)), "outside of the range"),
    ],
)
def test_a_broken_payload_fails_the_query(spark: SparkSession, spec: Any, payload: bytes, said: str) -> None:
    frame = decoded(spark, reader_of(record(spec)), [payload])
    # What a task throws is not always given a Python type.
    with pytest.raises((PySparkException, Py4JJavaError), match=said):
        frame.collect()


def test_permissive_makes_a_broken_payload_null(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(bytearray(b"\xff"),), (bytearray(b"\x02"),)], "payload binary")
    column = reader_of(record("long")).column(F.col("payload"), "PERMISSIVE")
    assert [row[0] for row in frame.select(column).collect()] == [None, (1,)]


def test_what_contains_itself_is_refused_by_name(spark: SparkSession) -> None:
    with pytest.raises(DecoderUnavailable, match=r"n\.Chain: it can contain itself"):
        reader_of(CHAIN).column(F.lit(b""))
