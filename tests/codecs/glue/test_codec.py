"""Records of the three registered formats as Glue's serializers write them."""

from __future__ import annotations

import io
import json
import zlib

import fastavro
import pyarrow as pa
import pytest
from tests.codecs.wire.test_glue import VERSION, framed

from distributary.codecs.base import load_codec
from distributary.codecs.wire.header import bodies
from distributary.errors import BadSchema, UnknownCodec
from distributary.registry.base import Guid, Schema, SchemaType
from distributary.registry.protobuf.text import compile_text

AVRO = '{"type":"record","name":"R","fields":[{"name":"game","type":"string"}]}'
JSON = '{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"game":{"type":"string"}}}'

# The example of MessageIndexFinder, with a map and a second message that comes before it by name.
PROTO = """syntax = "proto3"; package p;
message B { message C { string game = 1; } message A { message D { string game = 1; } string game = 1; }
  map<string, int32> tags = 1; string game = 2; }
message A2 { string game = 3; }
"""

# By name: A2, B, B.A, B.A.D, B.C, B.TagsEntry.
NAMES = ["p.A2", "p.B", "p.B.A", "p.B.A.D", "p.B.C"]


def schema(type_: SchemaType, text: str) -> Schema:
    return Schema(0, type_, text, guid=Guid(str(VERSION)))


def avro_body(game: str) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(AVRO)), {"game": game})
    return out.getvalue()


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "zlib"])
@pytest.mark.parametrize(
    ("name", "registered", "body", "path"),
    [
        ("avro", ("AVRO", AVRO), avro_body("chess"), ()),
        ("jsonschema", ("JSON", JSON), b'{"game":"chess"}', ()),
        ("protobuf", ("PROTOBUF", PROTO), b"\1" + b"\x12\5chess", (1,)),
    ],
)
def test_a_record_is_decoded_with_the_schema_that_it_names(
    name: str, registered: tuple[SchemaType, str], body: bytes, path: tuple[int, ...], packed: bool
) -> None:
    codec = load_codec(f"glue/{name}")
    values = pa.array([framed(body, packed), None, b""], pa.binary())
    frames = codec.split(values, None)
    assert frames.kinds == [(str(VERSION), path)]
    reader = codec.reader(schema(*registered), path)
    decoded = reader.decode(bodies(values, frames, pa.array([0]).to_numpy()))
    assert [row["game"] for row in decoded.rows.to_pylist()] == ["chess"]
    assert codec.description(schema(*registered), path).fields


@pytest.mark.parametrize(("number", "name"), list(enumerate(NAMES)))
def test_messages_are_numbered_in_the_order_of_their_names(number: int, name: str) -> None:
    codec = load_codec("glue/protobuf")
    assert codec.reader(schema("PROTOBUF", PROTO), (number,)).name == name


def test_a_schema_that_no_record_has_named_is_about_its_first_message() -> None:
    codec = load_codec("glue/protobuf")
    assert codec.reader(schema("PROTOBUF", PROTO), codec.default_path).name == "p.B"


@pytest.mark.parametrize("number", [5, 6, 2**31 - 1], ids=["a map's entry", "none", "the largest"])
def test_a_number_that_no_record_can_be_of_is_told(number: int) -> None:
    with pytest.raises(BadSchema, match=f"no message of number {number}"):
        load_codec("glue/protobuf").reader(schema("PROTOBUF", PROTO), (number,))


def test_messages_of_imports_are_not_numbered() -> None:
    whole = Schema(
        0,
        "PROTOBUF",
        'syntax = "proto3"; package p; import "a.proto"; message M { A a = 1; string game = 2; }',
        imports={"a.proto": 'syntax = "proto3"; package p; message A { int32 n = 1; }'},
    )
    assert compile_text(whole.text, whole.imports)
    assert load_codec("glue/protobuf").reader(whole, (0,)).name == "p.M"


def test_a_broken_body_behind_a_good_header_is_a_failure_of_the_format() -> None:
    codec = load_codec("glue/protobuf")
    values = pa.array([b"\3\5" + VERSION.bytes + zlib.compress(b"\1\x12\xff")], pa.binary())
    frames = codec.split(values, None)
    assert frames.errors == []
    decoded = codec.reader(schema("PROTOBUF", PROTO), (1,)).decode(bodies(values, frames))
    assert [failure.reason for failure in decoded.failures] == ["malformed"]


def test_spark_s_own_functions_are_not_offered() -> None:
    assert load_codec("glue/avro").capabilities.as_spark is None
    assert load_codec("glue/avro").capabilities.resolving is not None
    assert load_codec("glue/jsonschema").capabilities.validating is not None


def test_other_formats_have_no_wire_format_of_glue_s() -> None:
    with pytest.raises(UnknownCodec):
        load_codec("glue/json")
