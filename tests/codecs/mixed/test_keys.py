"""Keys of every type of schema as text."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.codecs.avro_samples import by_fastavro, long

from distributary.codecs.mixed.keys import KeyCodec
from distributary.errors import BadSchema, DecoderUnavailable
from distributary.registry.base import Schema

PLAYER = {"type": "record", "name": "Player", "fields": [{"name": "id", "type": "long"}, {"name": "raw", "type": "bytes"}]}  # fmt: skip
DAY = {"type": "int", "logicalType": "date"}


def texts(schema: Schema, *bodies: bytes) -> list[tuple[str | None, bool] | str]:
    """What becomes of each body: its text and whether it is one value, or why it cannot be decoded."""
    decoded = (
        KeyCodec()
        .reader(schema, (0,) if schema.type == "PROTOBUF" else ())
        .decode(pa.array(bodies, pa.binary()))
    )
    found: dict[int, Any] = {failure.row: failure.reason for failure in decoded.failures}
    rows = decoded.rows.to_pylist()
    found |= {
        int(place): (row["text"], row["scalar"]) for place, row in zip(decoded.source, rows, strict=True)
    }
    return [found[row] for row in range(len(bodies))]


@pytest.mark.parametrize(
    ("spec", "value", "expected"),
    [
        ("string", "ann", ("ann", True)),
        ("string", "", ("", True)),
        ("long", -7, ("-7", True)),
        ("boolean", True, ("true", True)),
        ("double", 1.5, ("1.5", True)),
        ("double", float("nan"), ("NaN", True)),
        ({"type": "array", "items": "double"}, [1.5, float("-inf")], ('[1.5,"-Infinity"]', False)),
        ("bytes", b"ann", ("ann", True)),
        ("bytes", b"\xff", ("/w==", True)),
        (DAY, 19_000, ("2022-01-08", True)),
        (["null", "string"], None, (None, True)),
        (["null", "string"], "ann", ("ann", True)),
        ({"type": "array", "items": "long"}, [1, 2], ("[1,2]", False)),
        (PLAYER, {"id": 7, "raw": b"\xff"}, ('{"id":7,"raw":"/w=="}', False)),
    ],
)
def test_avro(spec: Any, value: Any, expected: tuple[str | None, bool]) -> None:
    assert texts(Schema(1, "AVRO", json.dumps(spec)), by_fastavro(spec, value)) == [expected]


def test_a_broken_key_harms_no_other() -> None:
    assert texts(Schema(1, "AVRO", '"long"'), long(1), b"\xff", long(2) + b"x", long(3)) == [
        ("1", True),
        "malformed",
        "malformed",
        ("3", True),
    ]


def test_json_is_as_it_is_written() -> None:
    schema = Schema(1, "JSON", '{"type": ["string", "object"]}')
    assert texts(schema, b'"ann"', b" 1e2 ", b"null", b'{"a": 1}', b"{", b"\xff", b"[" * 100_000) == [
        ("ann", True),
        ("1e2", True),
        (None, True),
        ('{"a": 1}', False),
        "malformed",
        "malformed",
        "malformed",
    ]


def test_protobuf_is_a_record() -> None:
    schema = Schema(
        1, "PROTOBUF", 'syntax = "proto3"; message Key { string name = 1; map<string, int32> n = 2; }'
    )
    assert texts(schema, b"\x0a\x03ann") == [('{"name":"ann","n":{}}', False)]


def test_a_maps_entries_make_one_text_in_whatever_order_they_come() -> None:
    counts = {"type": "map", "values": "long"}
    record = {"type": "record", "name": "Key", "fields": [{"name": "n", "type": {"type": "array", "items": ["null", counts]}}]}  # fmt: skip
    there, back = {"b": 1, "a": 2, "ab": 3}, {"ab": 3, "a": 2, "b": 1}
    for spec, values, expected in (
        (counts, (there, back), '{"a":2,"ab":3,"b":1}'),
        (record, ({"n": [there, None]}, {"n": [back, None]}), '{"n":[{"a":2,"ab":3,"b":1},null]}'),
    ):
        bodies = [by_fastavro(spec, value) for value in values]
        assert texts(Schema(1, "AVRO", json.dumps(spec)), *bodies) == [(expected, False)] * 2
    again = {"type": "record", "name": "Key", "fields": [{"name": "n", "type": counts}, {"name": "k", "type": ["null", "Key"]}]}  # fmt: skip
    bodies = [by_fastavro(again, {"n": {}, "k": {"n": n, "k": None}}) for n in (there, back)]
    first, second = texts(Schema(1, "AVRO", json.dumps(again)), *bodies)
    assert first == second
    proto = Schema(1, "PROTOBUF", 'syntax = "proto3"; message Key { map<int32, In> n = 1; } message In { map<string, int32> i = 1; }')  # fmt: skip
    one, two = b"\x0a\x05\x0a\x01a\x10\x01", b"\x0a\x05\x0a\x01b\x10\x02"
    ten, minus = b"\x0a\x04\x08\x0a\x12\x00", b"\x0a\x1b\x08" + b"\xff" * 9 + b"\x01\x12\x0e"
    bodies = [ten + minus + one + two, minus + two + one + ten]
    assert texts(proto, *bodies) == [('{"n":{"-1":{"i":{"a":1,"b":2}},"10":{"i":{}}}}', False)] * 2


def test_half_a_surrogate_pair_is_no_text() -> None:
    bodies = [b'"\\ud800"', b'"a\\udfffb"', b'"\\ud83d\\ude00"', b'{"a":"\\ud800"}']
    assert texts(Schema(1, "JSON", '{"type": "string"}'), *bodies) == [
        "malformed",
        "malformed",
        ("\U0001f600", True),
        ('{"a":"\\ud800"}', False),
    ]


def test_keys_of_maps_are_written_as_json_writes_names() -> None:
    text = 'syntax = "proto3"; message Key { map<uint64, bytes> n = 1; map<bool, In> b = 2; } message In { map<fixed64, int32> i = 1; }'  # fmt: skip
    largest = b"\x0a\x0e\x08" + b"\xff" * 9 + b"\x01\x12\x01\xff"
    nested = b"\x12\x0f\x08\x01\x12\x0b\x0a\x09\x09" + b"\xff" * 8
    assert texts(Schema(1, "PROTOBUF", text), largest, nested) == [
        ('{"n":{"18446744073709551615":"/w=="},"b":{}}', False),
        ('{"n":{},"b":{"true":{"i":{"18446744073709551615":0}}}}', False),
    ]


@given(st.lists(st.text("a\0\ud800\udfff\U0001f600") | st.floats() | st.none(), max_size=5))
def test_no_json_makes_a_key_that_cannot_be_read(values: list[Any]) -> None:
    found = texts(Schema(1, "JSON", "{}"), *(json.dumps(value).encode() for value in values))
    assert len(found) == len(values)


def test_what_is_no_schema_of_a_key_is_refused() -> None:
    with pytest.raises(BadSchema):
        KeyCodec().reader(Schema(1, "AVRO", '"unheard-of"'), ())
    with pytest.raises(DecoderUnavailable, match="kafka_key"):
        KeyCodec().reader(Schema(1, "AVRO", '"long"'), ()).column(None)  # type: ignore[arg-type]
