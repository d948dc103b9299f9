from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import Row
from tests.ingest.kafka_records import INSTANT, batch, numbered

from distributary.ingest.bronze.rows import HEADERS
from distributary.ingest.kafka.records import RAW_SCHEMA, raw_records, worker_columns
from distributary.ingest.reshaping.rule import Beside

WHOLE = batch(numbered([b"a", None]))


def test_a_single_topic_that_was_not_sent_is_put_back() -> None:
    lean = WHOLE.drop_columns(["topic", "header_id", "route"])
    assert raw_records(lean, ("game-events",)).equals(WHOLE)


def test_rows_that_were_set_aside_are_taken_as_they_are() -> None:
    assert raw_records(WHOLE, ("other",)) is WHOLE


def test_sparks_spelling_of_types_and_any_order_of_columns_will_do() -> None:
    seconds = WHOLE["ts"].cast(pa.timestamp("us", "Europe/Berlin"))
    arrays = [seconds, *(WHOLE[name] for name in ("value", "offset", "partition", "key", "topic"))]
    foreign = pa.RecordBatch.from_arrays(arrays, ["ts", "value", "offset", "partition", "key", "topic"])
    assert raw_records(foreign, ("other",)).equals(WHOLE)


def test_no_records_are_no_trouble() -> None:
    empty = raw_records(WHOLE.slice(0, 0).drop_columns(["topic"]), ("t",))
    assert (empty.num_rows, empty.schema) == (0, RAW_SCHEMA)


def test_a_record_without_headers_has_none_however_it_was_sent_on() -> None:
    some = [{"key": "a", "value": b"1"}]
    sent = WHOLE.set_column(
        WHOLE.schema.names.index("every_header"),
        RAW_SCHEMA.field("every_header"),
        pa.array([[], some], HEADERS),
    )
    assert raw_records(sent, ("other",))["every_header"].to_pylist() == [None, some]


@pytest.mark.spark
def test_no_list_on_its_way_to_workers_is_null_as_spark_adds_up_their_bytes_in_the_square_of_the_rows(
    spark: SparkSession,
) -> None:
    kafka = spark.createDataFrame(
        [(b"k", b"v", "t", 0, 5, INSTANT, 0, None)],
        "key binary, value binary, topic string, partition int, offset long, timestamp timestamp, "
        "timestampType int, headers array<struct<key: string, value: binary>>",
    )
    frame = worker_columns(kafka, 1, {}, Beside(("a",), every_header=True))
    [row] = frame.collect()
    assert (row["headers"], row["every_header"]) == ([None], [])


@pytest.mark.spark
def test_workers_get_only_the_columns_they_need(spark: SparkSession) -> None:
    header = Row(key="__value_schema_id", value=bytearray(b"\x01id"))
    others = [Row(key="tr'ace", value=bytearray(value)) for value in (b"first", b"last")]
    kafka = spark.createDataFrame(
        [
            (b"k", b"v", "t", 0, 5, INSTANT, 0, [*others, header]),
            (None, None, "t", 1, 6, INSTANT, 0, None),
        ],
        "key binary, value binary, topic string, partition int, offset long, timestamp timestamp, "
        "timestampType int, headers array<struct<key: string, value: binary>>",
    )
    lean = worker_columns(kafka, topics=1, headers={})
    assert lean.columns == ["partition", "offset", "ts", "key", "value"]
    whole = worker_columns(kafka, topics=2, headers={"header_id": "__value_schema_id", "route": "tr'ace"})
    rows = whole.collect()
    assert [row["header_id"] and bytes(row["header_id"]) for row in rows] == [b"\x01id", None]
    assert [row["route"] and bytes(row["route"]) for row in rows] == [b"last", None]
    assert "topic" in whole.columns
