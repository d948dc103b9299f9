"""Keys of every type of schema as text."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from tests.codecs.avro_samples import by_fastavro, long

from distributary.codecs.keys import KeyCodec
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


def test_what_is_no_schema_of_a_key_is_refused() -> None:
    with pytest.raises(BadSchema):
        KeyCodec().reader(Schema(1, "AVRO", '"unheard-of"'), ())
    with pytest.raises(DecoderUnavailable, match="kafka_key"):
        KeyCodec().reader(Schema(1, "AVRO", '"long"'), ()).column(None)
