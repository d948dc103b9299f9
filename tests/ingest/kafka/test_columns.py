from __future__ import annotations

import pyarrow as pa

from distributary.ingest.columns.growth import GrowthRules, changes, grown
from distributary.ingest.columns.layout import Layout
from distributary.ingest.kafka.columns import (
    kafka_fields,
    payload_layout,
    table_schema,
    with_rescued,
    without_rescued,
)
from distributary.ingest.settings.groups import Columns

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
    assert without_rescued(OTHER_NAMES, once) == LAYOUT
    assert without_rescued(OTHER_NAMES, LAYOUT) is LAYOUT


def test_the_column_of_rescued_values_is_no_field_s_and_tables_are_not_told_so() -> None:
    field = Layout(pa.schema([pa.field("r_1", pa.int64(), metadata={"distributary.source": "r"})]))
    both = with_rescued(OTHER_NAMES, field)
    again = Layout.read(both.serialized)
    assert not changes(again.columns, both.columns)
    assert grown(field, both.columns, GrowthRules()).names == ["r_1", "r"]
    whole = table_schema(OTHER_NAMES, both)
    assert whole.field("r").metadata is None
    assert payload_layout(OTHER_NAMES, whole) == both
