from __future__ import annotations

from datetime import date

import pyarrow as pa

from distributary.ingest.columns.growth import GrowthRules, changes, grown
from distributary.ingest.columns.layout import Layout
from distributary.ingest.conform.conversion import conversion_for
from distributary.ingest.kafka.columns import (
    kafka_arrays,
    kafka_fields,
    of_records,
    payload_layout,
    table_schema,
    with_rescued,
)
from distributary.ingest.settings.groups import Columns, Policies

LAYOUT = Layout(
    pa.schema([("a", pa.int64()), pa.field("b_", pa.string(), metadata={"distributary.source": "b "})])
)
OTHER_NAMES = Columns(kafka_topic="t", kafka_offset="o", rescued="r")


def test_a_tables_columns_are_kafkas_and_then_the_payloads() -> None:
    whole = table_schema(OTHER_NAMES, LAYOUT)
    assert whole.names == ["t", "kafka_partition", "o", "kafka_ts", "kafka_key", "schema_id", "a", "b_"]
    assert payload_layout(OTHER_NAMES, whole) == LAYOUT


def test_a_table_whose_columns_were_moved_has_the_same_payload() -> None:
    moved = pa.schema([*LAYOUT.columns, *reversed(kafka_fields(OTHER_NAMES))])
    assert payload_layout(OTHER_NAMES, moved).names == LAYOUT.names


def test_the_column_of_rescued_values_is_added_once_and_can_be_left_out() -> None:
    once = with_rescued(OTHER_NAMES, LAYOUT)
    assert once.names == ["a", "b_", "r"]
    assert with_rescued(OTHER_NAMES, once) is once
    assert of_records(OTHER_NAMES, once) == LAYOUT
    assert of_records(OTHER_NAMES, LAYOUT) is LAYOUT


def test_the_column_of_rescued_values_is_no_field_s_and_tables_are_not_told_so() -> None:
    field = Layout(pa.schema([pa.field("r_1", pa.int64(), metadata={"distributary.source": "r"})]))
    both = with_rescued(OTHER_NAMES, field)
    again = Layout.read(both.serialized)
    assert not changes(again.columns, both.columns)
    assert grown(field, both.columns, GrowthRules()).names == ["r_1", "r"]
    whole = table_schema(OTHER_NAMES, both)
    assert whole.field("r").metadata is None
    assert payload_layout(OTHER_NAMES, whole) == both


def test_the_day_in_kafka_is_that_of_utc_and_there_only_where_it_has_a_name() -> None:
    day = 86_400_000_000
    columns = Columns(kafka_date="day")
    times = pa.array([-1, 0, day - 1, day], pa.timestamp("us", "UTC"))
    ids = pa.nulls(4, pa.int64())
    others: dict[str, list[object]] = {
        "topic": ["t"] * 4,
        "partition": [0] * 4,
        "offset": [0, 1, 2, 3],
        "key": [None] * 4,
    }
    raw = pa.RecordBatch.from_pydict({**others, "ts": times})
    found = dict(
        zip([one.name for one in kafka_fields(columns)], kafka_arrays(columns, raw, ids), strict=True)
    )
    first, second = date(1970, 1, 1), date(1970, 1, 2)
    assert found["day"].to_pylist() == [date(1969, 12, 31), first, first, second]
    assert "day" not in [one.name for one in kafka_fields(Columns())]
    assert len(kafka_arrays(Columns(), raw, ids)) == len(kafka_fields(Columns()))
    assert payload_layout(columns, table_schema(columns, LAYOUT)) == LAYOUT


def test_a_column_of_ours_that_the_settings_call_otherwise_by_now_gets_no_values_of_a_field() -> None:
    """A field of its name has had another column since before: with two for one field each batch ended with an error."""
    before, now = Columns(), Columns(schema_id="by_schema")
    record = pa.schema([("schema_id", pa.int64()), ("level", pa.int64())])
    table = table_schema(
        before, grown(Layout(pa.schema([])), record, GrowthRules(reserved=before.reserved()))
    )
    *_, elsewhere, _ = table.names
    layout = payload_layout(now, table)
    held = of_records(now, layout).columns
    rows = pa.RecordBatch.from_pylist([{"schema_id": 7, "level": 1}], record)
    assert conversion_for(record, held, Policies()).apply(rows).rows.to_pylist() == [
        {elsewhere: 7, "level": 1}
    ]
    assert grown(layout, record, GrowthRules(reserved=now.reserved())) is layout
    assert not changes(layout.columns, Layout.read(layout.serialized).columns)
    whole = table_schema(now, with_rescued(now, layout))
    assert whole.field("schema_id").metadata is None
    assert payload_layout(now, whole) == with_rescued(now, layout)
