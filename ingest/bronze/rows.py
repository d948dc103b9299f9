"""A record as it came, as a row: its bytes, its headers, and where and when it stands in Kafka."""

from __future__ import annotations

from datetime import date

import pyarrow as pa
import pyarrow.compute as pc

from distributary.ingest.columns.layout import Layout

DAY = "kafka_date"
"""The column that these tables are in partitions by."""

HEADERS = pa.list_(
    pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
)
"""Of record headers, in their order; a name may be there several times."""

SCHEMA = pa.schema(
    [
        ("kafka_topic", pa.string()),
        ("kafka_partition", pa.int32()),
        ("kafka_offset", pa.int64()),
        ("kafka_ts", pa.timestamp("us", "UTC")),
        ("kafka_ts_type", pa.string()),
        ("kafka_key", pa.binary()),
        ("value", pa.binary()),
        ("headers", HEADERS),
        (DAY, pa.date32()),
    ]
)

RECORD = pa.schema([one for one in SCHEMA if one.name != DAY])
"""The same without the day, which files of partitions do not have."""

LAYOUT = Layout(SCHEMA)

# By Kafka's own numbers, from 0 on; of what has no time nothing is said.
_TIME_TYPES = pa.array(["create_time", "log_append_time"])

_EPOCH = date(1970, 1, 1)

_FIRST_DAY, _LAST_DAY = ((day - _EPOCH).days for day in (date.min, date.max))


def as_rows(raw: pa.RecordBatch) -> pa.RecordBatch:
    """Records as workers have them, as rows of SCHEMA."""
    columns = [
        *(raw[name] for name in ("topic", "partition", "offset", "ts")),
        _time_types(raw["ts_type"]),
        *(raw[name] for name in ("key", "value", "every_header")),
        _days(raw["ts"]),
    ]
    return pa.RecordBatch.from_arrays(
        [column.cast(one.type) for column, one in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
    )


def time_type_numbers(types: pa.StringArray) -> pa.Int32Array:
    """What these are by Kafka's own numbers; -1 where nothing is said."""
    return pc.fill_null(pc.index_in(types, _TIME_TYPES), -1)


def _time_types(numbers: pa.Int32Array) -> pa.StringArray:
    known = pc.and_(pc.greater_equal(numbers, 0), pc.less(numbers, len(_TIME_TYPES)))
    return _TIME_TYPES.take(pc.if_else(known, numbers, pa.scalar(None, pa.int32())))


def _days(times: pa.TimestampArray) -> pa.Date32Array:
    """The days; none of a year that no calendar of a reader has, since no partition is called so."""
    days = times.cast(pa.date32())
    numbers = days.cast(pa.int32())
    known = pc.and_(pc.greater_equal(numbers, _FIRST_DAY), pc.less_equal(numbers, _LAST_DAY))
    return pc.if_else(known, days, pa.scalar(None, pa.date32()))
