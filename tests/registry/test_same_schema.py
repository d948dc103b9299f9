from __future__ import annotations

import base64

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet

from distributary.registry.base import Schema, SchemaType
from distributary.registry.protobuf.text import compile_text
from distributary.registry.same_schema import same_schema

HEAD = 'syntax = "proto3"; package p; '
PROTO = (
    HEAD + "message A { int32 a = 1; oneof o { string b = 2; bool c = 3; } int64 d = 4; enum E { Z = 0; } }"
)


def same(kind: SchemaType, left: str, right: str, *imports: dict[str, str]) -> bool:
    """Whether the two are one, whichever is asked about first."""
    one, other = (
        Schema(1, kind, text, imports=imported)
        for text, imported in zip((left, right), imports or ({}, {}), strict=True)
    )
    assert same_schema(one, other) == same_schema(other, one)
    return same_schema(one, other)


def as_descriptor(text: str) -> str:
    file = FileDescriptorSet.FromString(compile_text(text)).file[-1]
    return base64.b64encode(file.SerializeToString()).decode()


@pytest.mark.parametrize(
    "other",
    [
        PROTO.replace("; ", ";\n\n    "),
        PROTO.replace("package p;", "package p; // a comment\n"),
        # As Karapace reprints it: plain fields first, then those of a oneof.
        HEAD
        + "message A { enum E { Z = 0; } int32 a = 1; int64 d = 4; oneof o { string b = 2; bool c = 3; } }",
        as_descriptor(PROTO),
    ],
)
def test_a_rewritten_protobuf_schema_is_the_same(other: str) -> None:
    assert same("PROTOBUF", PROTO, other)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("int32 a = 1", "int32 x = 1"),
        ("int32 a = 1", "int64 a = 1"),
        ("int32 a = 1", "int32 a = 5"),
        ("int32 a = 1", "optional int32 a = 1"),
        ("int64 d = 4", "repeated int64 d = 4"),
        ("int64 d = 4;", ""),
        ("bool c = 3; } int64 d = 4;", "} bool c = 3; int64 d = 4;"),
        ("message A", "message B"),
        ("package p", "package q"),
        ("Z = 0;", "Z = 0; Y = 1;"),
        ("message A {", "message First { } message A {"),
        ("int32 a", "int32a a"),
    ],
)
def test_another_protobuf_schema_is_another(old: str, new: str) -> None:
    assert not same("PROTOBUF", PROTO, PROTO.replace(old, new))


def test_a_line_s_end_counts_where_a_comment_ends_with_it() -> None:
    text = HEAD + "message A { int32 a = 1; // of old\n int32 b = 2;\n }"
    assert not same("PROTOBUF", text, text.replace("\n int32 b", " int32 b"))


def test_spaces_within_a_text_count() -> None:
    text = 'syntax = "proto2"; message A { optional string a = 1 [default = "x  y"]; }'
    assert not same("PROTOBUF", text, text.replace("x  y", "x y"))


def test_an_import_that_means_something_else_makes_another_schema() -> None:
    text = HEAD + 'import "b.proto"; message A { B b = 1; }'
    imported = HEAD + "message B { int32 a = 1; }"
    left = {"b.proto": imported}
    assert same("PROTOBUF", text, text, left, {"b.proto": imported.replace("{", "{\n")})
    assert not same("PROTOBUF", text, text, left, {"b.proto": imported.replace("a = 1", "a = 2")})


@pytest.mark.parametrize("kind", ["AVRO", "JSON"])
def test_the_order_of_keys_and_spaces_in_json_do_not_count(kind: SchemaType) -> None:
    assert same(
        kind, '{"type":"record","name":"R","fields":[]}', '{ "name": "R", "fields": [], "type": "record" }'
    )
    assert not same(kind, '{"fields":[1,2]}', '{"fields":[2,1]}')


def test_the_type_counts() -> None:
    assert not same_schema(Schema(1, "AVRO", "{}"), Schema(1, "JSON", "{}"))


def test_what_cannot_be_compiled_is_the_same_only_as_its_own_text() -> None:
    assert same("PROTOBUF", "nonsense", " nonsense ")
    assert not same("PROTOBUF", "nonsense", "other nonsense")
