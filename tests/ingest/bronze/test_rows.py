"""Records as workers have them, as rows that keep them as they came."""

from __future__ import annotations

from datetime import date, datetime, timezone
from typing import Any

import pyarrow as pa

from distributary.ingest.bronze.rows import SCHEMA, as_rows
from distributary.ingest.kafka.records import RAW_SCHEMA

INSTANT = datetime(2025, 6, 1, 23, 59, 59, 1000, tzinfo=timezone.utc)
HEADERS = [{"key": "a", "value": b"1"}, {"key": "a", "value": None}, {"key": "", "value": b""}]


def row(**told: Any) -> dict[str, Any]:
    record = {
        "topic": "events",
        "partition": 1,
        "offset": 7,
        "ts": INSTANT,
        "ts_type": 0,
        "key": b"k",
        "value": b"v",
    }
    raw = pa.RecordBatch.from_pylist([{**record, **told}], RAW_SCHEMA)
    rows = as_rows(raw)
    assert rows.schema.equals(SCHEMA)
    (found,) = rows.to_pylist()
    return dict(found)


def test_a_record_is_there_whole() -> None:
    assert row(every_header=HEADERS) == {
        "kafka_topic": "events",
        "kafka_partition": 1,
        "kafka_offset": 7,
        "kafka_ts": INSTANT,
        "kafka_ts_type": "create_time",
        "kafka_key": b"k",
        "value": b"v",
        "headers": HEADERS,
        "kafka_date": date(2025, 6, 1),
    }


def test_what_is_null_in_kafka_is_null() -> None:
    found = row(key=None, value=None)
    assert (found["kafka_key"], found["value"], found["headers"]) == (None, None, None)


def test_a_time_that_nobody_knows_or_no_calendar_has_is_of_no_day() -> None:
    assert (row(ts=None)["kafka_ts"], row(ts=None)["kafka_date"]) == (None, None)
    beyond = pa.scalar(400_000 * 365 * 86_400 * 10**6 // 2, pa.timestamp("us", "UTC"))
    raw = pa.RecordBatch.from_pylist([{"topic": "events", "partition": 0, "offset": 0}], RAW_SCHEMA)
    raw = raw.set_column(RAW_SCHEMA.get_field_index("ts"), RAW_SCHEMA.field("ts"), pa.array([beyond]))
    found = as_rows(raw)
    assert found["kafka_ts"].null_count == 0
    assert found["kafka_date"].null_count == 1


def test_what_a_time_says_is_told_by_name() -> None:
    assert [row(ts_type=number)["kafka_ts_type"] for number in (0, 1, -1, None)] == [
        "create_time",
        "log_append_time",
        None,
        None,
    ]
