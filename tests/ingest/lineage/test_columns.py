"""Where a table's columns came from: by its layout's metadata and its rule."""

from __future__ import annotations

import pyarrow as pa

from distributary.ingest.columns.layout import OWN, SOURCE
from distributary.ingest.lineage.columns import columns_of
from distributary.ingest.lineage.flow import FlowColumn
from distributary.ingest.reshaping.rule import Added, Op, Reshape
from distributary.ingest.settings.groups import Columns

LAYOUT = pa.schema(
    [
        pa.field("game", pa.string()),
        pa.field("a_b", pa.int64(), metadata={SOURCE: b"a b"}),
        pa.field("customer_id", pa.string()),
        pa.field("player", pa.struct([pa.field("email", pa.string()), pa.field("level", pa.int32())])),
        pa.field("region", pa.string()),
        pa.field("valid_from", pa.timestamp("us", "UTC"), metadata={OWN: b"from"}),
        pa.field("_rescued_data", pa.string()),
        pa.field("kafka_topic", pa.string()),
        pa.field("kafka_offset", pa.int64()),
    ]
)

RULE = Reshape(
    ops=(
        (("custId",), Op("rename", "customer_id")),
        (("custId",), Op("hash")),
        (("player", "email"), Op("mask", "hidden")),
        (("game",), Op("cast", "string")),
    ),
    added=(Added("region", "header", "region"),),
)


def test_a_column_holds_the_field_that_producers_know() -> None:
    assert columns_of(LAYOUT, Columns(), RULE) == (
        FlowColumn("game", "string", "game"),
        FlowColumn("a_b", "bigint", "a b"),
        FlowColumn("customer_id", "string", "custId", masked=True),
        FlowColumn("player", "struct<email:string,level:int>", "player", masked=True),
        FlowColumn("region", "string"),
        FlowColumn("valid_from", "timestamp"),
        FlowColumn("_rescued_data", "string"),
        FlowColumn("kafka_topic", "string"),
        FlowColumn("kafka_offset", "bigint"),
    )


def test_without_a_rule_fields_are_called_as_they_are() -> None:
    found = {one.name: (one.source, one.masked) for one in columns_of(LAYOUT, Columns(), None)}
    assert found["customer_id"] == ("customer_id", False)
    assert found["region"] == ("region", False)


def test_a_field_whose_name_has_a_dot_is_told_so() -> None:
    layout = pa.schema([pa.field("a_b", pa.string(), metadata={SOURCE: b"a.b"})])
    assert columns_of(layout, Columns(), None) == (FlowColumn("a_b", "string", "`a.b`"),)
