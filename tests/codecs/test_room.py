"""Payloads whose lists would fill memory: as many empty items as their bytes allow, each of them as wide as its type."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from distributary.codecs import reasons
from distributary.codecs.base import RecordReader, load_codec
from distributary.codecs.types import room
from distributary.codecs.types.spark_struct import struct_json
from distributary.registry.base import Schema

FIELDS = 100
ITEM = pa.struct([(f"f{n}", pa.int64()) for n in range(1, FIELDS + 1)])
INNER = " ".join(f"int64 f{n} = {n};" for n in range(1, FIELDS + 1))
PROTOBUF = f"""syntax = "proto3"; message M {{ string game = 1; repeated I items = 2; O one = 3; map<string, I> by = 4; }}
message O {{ repeated I items = 1; }} message I {{ {INNER} }}"""
JSON = pa.schema([("game", pa.string()), ("items", pa.list_(ITEM))])


def protobuf() -> RecordReader:
    return load_codec("protobuf").reader(Schema(1, "PROTOBUF", PROTOBUF), (0,))


def varint(number: int) -> bytes:
    return (bytes([number & 127 | 128]) + varint(number >> 7)) if number > 127 else bytes([number])


def test_the_room_of_an_item_is_that_of_all_its_columns() -> None:
    assert room.item_bytes(JSON) == 8 * FIELDS
    assert room.item_bytes(pa.schema([("a", ITEM), ("b", pa.list_(pa.int32()))])) == 4
    nested = pa.schema([("a", pa.map_(pa.string(), pa.struct([("x", pa.list_(ITEM)), ("y", pa.bool_())])))])
    assert room.item_bytes(nested) == 8 * FIELDS


MANY = room.MOST_BYTES // (8 * FIELDS) + 1
GO = b"\x0a\x02go"
WITHIN = b"\x0a\x00" * MANY
PROTOBUF_LARGE = [GO + b"\x12\x00" * MANY, GO + b"\x1a" + varint(len(WITHIN)) + WITHIN]


@pytest.mark.parametrize("large", PROTOBUF_LARGE, ids=["a list", "a list in a message"])
def test_a_message_of_more_empty_messages_than_columns_have_room_for_is_refused_alone(large: bytes) -> None:
    few = GO + b"\x12\x00" * 3
    # As long, and of one list that has no columns of its own to fill.
    text = b"\x0a" + varint(len(large)) + b"x" * len(large)
    decoded = protobuf().decode(pa.array([few, large, text, b"\xff"], pa.binary()))
    assert [(failure.row, failure.reason) for failure in decoded.failures] == [
        (1, reasons.TOO_LARGE),
        (3, reasons.MALFORMED),
    ]
    assert decoded.source.tolist() == [0, 2]
    assert decoded.rows["items"].to_pylist()[0] == [dict.fromkeys(ITEM.names, 0)] * 3


@pytest.mark.parametrize("name", ["json", "jsonschema"])
def test_an_object_of_more_empty_objects_than_columns_have_room_for_is_refused_alone(name: str) -> None:
    inner = {"type": "object", "properties": {field: {"type": "integer"} for field in ITEM.names}}
    whole = {"game": {"type": "string"}, "items": {"type": "array", "items": inner}}
    schema = Schema(1, "STRUCT", struct_json(JSON))
    if name == "jsonschema":
        schema = Schema(1, "JSON", json.dumps({"type": "object", "properties": whole}))
    reader = load_codec(name).reader(schema, ())
    braces = json.dumps({"game": "{" * 3 * MANY}).encode()
    large = b'{"game":"go","items":[' + b",".join([b"{}"] * MANY) + b"]}"
    # Of more digits than Python makes a number of.
    beside = large[:-1] + b',"more":' + b"9" * 5_000 + b"}"
    decoded = reader.decode(pa.array([b'{"game":"a","items":[{}]}', large, braces, beside], pa.binary()))
    assert [(failure.row, failure.reason) for failure in decoded.failures] == [
        (1, reasons.TOO_LARGE),
        (3, reasons.TOO_LARGE),
    ]
    assert decoded.source.tolist() == [0, 2]


def test_a_map_of_more_empty_objects_than_columns_have_room_for_is_refused_alone() -> None:
    schema = pa.schema([("items", pa.struct([("by", pa.map_(pa.string(), ITEM))]))])
    reader = load_codec("json").reader(Schema(1, "STRUCT", struct_json(schema)), ())
    few, large = (
        json.dumps({"items": {"by": {str(number): {} for number in range(count)}}}).encode()
        for count in (3, MANY)
    )
    decoded = reader.decode(pa.array([few, large], pa.binary()))
    assert [(failure.row, failure.reason) for failure in decoded.failures] == [(1, reasons.TOO_LARGE)]
    assert decoded.rows["items"].to_pylist() == [
        {"by": [(str(number), dict.fromkeys(ITEM.names)) for number in range(3)]}
    ]
