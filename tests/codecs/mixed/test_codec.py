"""One topic, several formats: each record is split and decoded by the codec of its own schema's type."""

from __future__ import annotations

import io
import json
import struct
from typing import cast

import fastavro
import pyarrow as pa
import pytest

from distributary.codecs import reasons
from distributary.codecs.base import (
    BUILT_IN,
    INFERRED,
    growing_reader,
    load_codec,
    validating,
)
from distributary.codecs.changes.classify import SchemaChange, classify
from distributary.codecs.mixed.codec import AutoCodec
from distributary.codecs.wire.header import NO_USABLE_HEADER, TOMBSTONE, bodies
from distributary.errors import BadSchema, ConfigError
from distributary.registry.base import Schema, SchemaType

AVRO = Schema(
    1,
    "AVRO",
    json.dumps({"type": "record", "name": "Move", "fields": [{"name": "name", "type": "string"}]}),
)
PROTOBUF = Schema(
    2,
    "PROTOBUF",
    'syntax = "proto3"; package p; message First { int64 n = 1; } message Second { string name = 1; }',
)
JSON = Schema(
    3,
    "JSON",
    json.dumps({"title": "Chat", "type": "object", "properties": {"name": {"type": "string"}}}),
)


def avro(name: str) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(AVRO.text)), {"name": name})
    return out.getvalue()


def header(schema: Schema) -> bytes:
    return struct.pack(">bI", 0, schema.id)


VALUES = [
    header(AVRO) + avro("a"),
    header(PROTOBUF) + b"\x02\x02" + b"\x0a\x01b",
    header(JSON) + b'{"name":"c"}',
    None,
    header(PROTOBUF) + b"\x00" + b"\x08\x07",
    b"\x7f{}",
    header(PROTOBUF) + b"\x05",
]
KNOWN = AutoCodec({1: "AVRO", 2: "PROTOBUF", 3: "JSON"})


def test_each_record_is_decoded_by_its_own_schema_s_codec() -> None:
    values = pa.array(VALUES, pa.binary())
    frames = KNOWN.split(values, None)
    payloads = bodies(values, frames).to_pylist()
    found = []
    for row, kind in enumerate(frames.kind.tolist()):
        if kind >= 0:
            ref, path = frames.kinds[kind]
            schema = {1: AVRO, 2: PROTOBUF, 3: JSON}[int(ref)]
            decoded = KNOWN.reader(schema, path).decode(pa.array([payloads[row]], pa.binary()))
            found.append((row, decoded.rows.to_pylist()))
    assert found == [(0, [{"name": "a"}]), (1, [{"name": "b"}]), (2, [{"name": "c"}]), (4, [{"n": 7}])]
    assert [row for row, kind in enumerate(frames.kind.tolist()) if kind == TOMBSTONE] == [3]
    assert [(row, reason) for row, reason, _ in frames.errors] == [
        (5, reasons.BAD_MAGIC),
        (6, reasons.BAD_MESSAGE_INDEX),
    ]


def test_the_message_of_an_unknown_schema_is_asked_for_once_its_type_is_known() -> None:
    value = pa.array([VALUES[1]], pa.binary())
    assert list(AutoCodec().split(value, None).kinds) == [(2, ())]
    assert AutoCodec().reader(PROTOBUF, ()).name == "p.First"
    frames = load_codec("auto").knowing({2: "PROTOBUF"}).split(value, None)
    assert frames.kinds[frames.kind[0]] == (2, (1,))
    assert KNOWN.reader(PROTOBUF, (1,)).name == "p.Second"


def test_a_header_beside_the_value_is_split_alike() -> None:
    values = pa.array([b"\x0a\x01b", VALUES[1]], pa.binary())
    beside = pa.array([header(PROTOBUF) + b"\x02\x02", None], pa.binary())
    frames = KNOWN.split(values, beside)
    assert [frames.kinds[kind] for kind in frames.kind] == [(2, (1,)), (2, (1,))]
    assert bodies(values, frames).to_pylist() == [b"\x0a\x01b", b"\x0a\x01b"]


@pytest.mark.parametrize(
    ("value", "raw"),
    [
        (b"{}", True),
        (b"[1]", True),
        (b' {"a":1}', True),
        (b'\t{"a":1}', True),
        (b"\r\n{}", True),
        (b"{", True),
        (b"7", False),
        (b'"text"', False),
        (b"\xef\xbb\xbf{}", False),
        (b"\x03{", False),
        (header(AVRO) + b"{}", False),
        (b"\x01{", False),
        (b"", False),
    ],
)
def test_raw_json_is_told_by_its_first_byte(value: bytes, raw: bool) -> None:
    others = [b"{}x", header(AVRO) + avro("a"), None]
    for values in ([value], [*others, value], [value, *others]):
        at = values.index(value)
        frames = KNOWN.split(pa.array([b"......", *values, b"{"], pa.binary())[1:-1], None)
        assert (int(frames.kind[at]) >= 0 and frames.kinds[frames.kind[at]] == (INFERRED, ())) is raw
        assert any(row == at for row, _, _ in frames.errors) == (int(frames.kind[at]) == NO_USABLE_HEADER)
        assert not raw or frames.start[at] == 0


def test_json_with_a_schema_named_beside_it_is_of_that_schema() -> None:
    beside = pa.array([header(JSON), None], pa.binary())
    frames = KNOWN.split(pa.array([b'{"name":"c"}'] * 2, pa.binary()), beside)
    assert [frames.kinds[kind][0] for kind in frames.kind] == [3, INFERRED]


def test_raw_json_is_decoded_with_the_inferred_schema_and_lets_it_grow() -> None:
    before = Schema(-1, "STRUCT", '{"type":"struct","fields":[]}')
    reader = growing_reader(KNOWN, before)
    payloads = pa.array([b'{"name":"d"}'], pa.binary())
    assert reader.decode(payloads).beyond.tolist() == [0]
    growing = KNOWN.capabilities.growing
    assert growing is not None
    after = growing.merged([before, reader.grown(payloads)])
    assert KNOWN.reader(after, ()).decode(payloads).rows.to_pylist() == [{"name": "d"}]
    told = classify(KNOWN.description(before, ()), KNOWN.description(after, ()))
    assert told == [SchemaChange("added", "name", after="string")]


def test_only_codecs_of_inferred_schemas_grow() -> None:
    assert [name for name in BUILT_IN if load_codec(name).capabilities.growing is not None] == [
        "auto",
        "json",
    ]


def test_a_schema_that_no_codec_decodes_is_refused() -> None:
    with pytest.raises(BadSchema, match="THRIFT"):
        KNOWN.reader(Schema(1, cast("SchemaType", "THRIFT"), ""), ())


def test_codecs_of_one_format_need_no_types() -> None:
    assert [name for name in BUILT_IN if load_codec(name).takes_any_format] == ["auto"]
    assert type(load_codec("protobuf").knowing({1: "PROTOBUF"})) is type(load_codec("protobuf"))


def test_validation_reaches_the_schemas_that_can_be_held_to() -> None:
    strict = Schema(3, "JSON", '{"type":"object","properties":{"n":{"type":"integer","minimum":5}}}')
    codec = validating(load_codec("auto").knowing({2: "PROTOBUF"}))
    decoded = codec.reader(strict, ()).decode(pa.array([b'{"n":7}', b'{"n":4}'], pa.binary()))
    assert [(failure.row, failure.reason) for failure in decoded.failures] == [(1, reasons.INVALID)]
    assert codec.reader(AVRO, ()).schema == KNOWN.reader(AVRO, ()).schema
    assert codec.split(pa.array([VALUES[1]], pa.binary()), None).kinds == [(2, ()), (2, (1,))]


def test_formats_without_more_than_types_have_nothing_to_validate() -> None:
    with pytest.raises(ConfigError, match=r"decode\.check"):
        validating(load_codec("avro"))
