"""What each format's schemas say of their records, read from schemas as they are registered."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from tests.codecs import avro_samples, protobuf_samples
from tests.codecs.avro_samples import schemas_with_values
from tests.codecs.described import avro, avro_record, inferred, json_schema, message, protobuf, record
from tests.examples import examples

from distributary.codecs.base import RecordPath, load_codec
from distributary.codecs.changes.description import RecordDescription, TypeDescription
from distributary.codecs.types.spark_struct import list_of
from distributary.errors import BadSchema
from distributary.registry.base import Schema, SchemaType

INT, LONG, STRING = pa.int32(), pa.int64(), pa.string()


def columns(record: RecordDescription) -> pa.Schema:
    return pa.schema([(field.name, field.type.column) for field in record.fields])


def agrees_with_reader(codec: str, schema: Schema, path: RecordPath) -> None:
    """The description speaks of the very columns that records get, and its parts of the parts of those."""
    reader = load_codec(codec).reader(schema, path)
    found = load_codec(codec).description(schema, path)
    assert (found.name, columns(found)) == (reader.name, reader.schema)
    for field in found.fields:
        agrees(field.type)


def agrees(type_: TypeDescription) -> None:
    if type_.fields:
        assert type_.column == pa.struct([(one.name, one.type.column) for one in type_.fields])
    for part, inside in ((type_.element, "value_type"), (type_.value, "item_type")):
        if part is not None:
            assert part.column == getattr(type_.column, inside)
            agrees(part)
    for one in type_.fields:
        agrees(one.type)


@settings(deadline=None, max_examples=examples(30), suppress_health_check=list(HealthCheck))
@given(schemas_with_values())
def test_any_avro_schema_is_described_as_it_is_read(sample: tuple[Any, list[Any]]) -> None:
    agrees_with_reader("avro", avro_samples.schema(sample[0]), ())


def test_a_message_with_one_of_everything_is_described_as_it_is_read() -> None:
    agrees_with_reader("protobuf", protobuf_samples.schema(protobuf_samples.RICH), protobuf_samples.RICH_PATH)


def test_avro_tells_names_of_before_symbols_and_what_every_record_has() -> None:
    colour = {"type": "enum", "name": "Colour", "symbols": ["RED", "BLUE"]}
    found = avro_record(
        ("a", "int", {"aliases": ["old"]}),
        ("b", ["null", colour], {"default": None}),
        ("c", "int", {"default": 1}),
        ("s", record(("x", ["null", "int"]), ("y", "string"), name="In")),
        ("l", {"type": "array", "items": "Colour"}),
        ("nothing", "null"),
        namespace="games",
        aliases=["Old", "other.Name"],
    )
    assert (found.format, found.name, found.aliases) == ("AVRO", "games.E", ("games.Old", "other.Name"))
    a, b, c, s, elements = found.fields
    assert (a.aliases, a.required, b.required, c.required, s.required) == (("old",), True, False, False, True)
    assert b.type == TypeDescription(STRING, symbols=("RED", "BLUE"))
    assert elements.type == TypeDescription(list_of(STRING), element=b.type)
    assert [(one.name, one.required) for one in s.type.fields] == [("x", False), ("y", True)]


def test_avros_wide_unions_are_structs_and_what_is_no_record_has_one_field() -> None:
    found = avro_record(("u", ["int", "null", "string"])).fields[0].type
    assert [(one.name, one.type.column, one.required) for one in found.fields] == [
        ("member0", INT, False),
        ("member1", STRING, False),
    ]
    enum = avro({"type": "enum", "name": "Colour", "symbols": ["RED"]})
    assert (enum.name, enum.fields[0].name, enum.fields[0].type.symbols) == ("Colour", "value", ("RED",))


def test_protobuf_tells_numbers_arms_symbols_and_what_is_reserved() -> None:
    found = message(
        """reserved 4, 6 to 8; reserved "old";
        int32 a = 1; optional int32 b = 2; oneof o { Colour c = 3; } repeated In l = 5; map<int32, Colour> m = 9;
        message In { reserved 2; int32 x = 1; }
        enum Colour { option allow_alias = true; RED = 0; CRIMSON = 0; BLUE = -1; }"""
    )
    assert (found.format, found.name) == ("PROTOBUF", "p.E")
    assert (found.reserved_numbers, found.reserved_names) == (((4, 4), (6, 8)), ("old",))
    assert [(one.name, one.number, one.oneof) for one in found.fields] == [
        ("a", 1, None),
        ("b", 2, None),
        ("c", 3, "o"),
        ("l", 5, None),
        ("m", 9, None),
    ]
    _, _, c, elements, values = (one.type for one in found.fields)
    assert c.symbols == ("RED", "BLUE")
    assert elements.element is not None and elements.element.reserved_numbers == ((2, 2),)
    assert [(one.name, one.number) for one in elements.element.fields] == [("x", 1)]
    assert values.value == TypeDescription(STRING, symbols=("RED", "BLUE"))


def test_protobuf_tells_what_proto2_requires_and_the_message_at_a_path() -> None:
    text = "message A {} message B { message C { required int32 a = 1; optional int32 b = 2; } }"
    found = protobuf(text, (1, 0), "proto2")
    assert found.name == "p.B.C"
    assert [one.required for one in found.fields] == [True, False]


def test_protobuf_tells_of_extensions_by_their_full_names() -> None:
    text = (
        "message E { extensions 100 to 199; optional int32 a = 1; } extend E { optional int64 more = 100; }"
    )
    found = protobuf(text, syntax="proto2")
    assert [(one.name, one.number, one.oneof) for one in found.fields] == [
        ("a", 1, None),
        ("p.more", 100, None),
    ]


def test_json_schema_tells_values_of_enums_and_what_every_record_has() -> None:
    found = json_schema(
        {
            "a": {"enum": ["X", None, "Y"]},
            "b": {"type": ["integer", "null"]},
            "mixed": {"enum": ["X", 1]},
            "s": {"type": "object", "properties": {"x": {"const": "X"}, "y": {}}, "required": ["x"]},
        },
        title="Event",
        required=["a", "b"],
    )
    assert (found.format, found.name) == ("JSON", "Event")
    a, b, mixed, s = found.fields
    assert (a.required, b.required, mixed.required, s.required) == (True, True, False, False)
    assert (a.type.symbols, mixed.type.symbols) == (("X", "Y"), ())
    assert [(one.name, one.required, one.type.symbols) for one in s.type.fields] == [
        ("x", True, ("X",)),
        ("y", False, ()),
    ]


@pytest.mark.parametrize(
    ("words", "required"),
    [
        ({"allOf": [{"required": ["a"]}, {"$ref": "#/$defs/B"}]}, ["a", "b"]),
        ({"$ref": "#/$defs/B", "required": ["c"]}, ["b", "c"]),
        ({"oneOf": [{"required": ["a", "b"]}, {"required": ["b", "c"]}]}, ["b"]),
        ({"anyOf": [{"$ref": "#/$defs/B"}, {}]}, []),
        ({"allOf": [{"$ref": "#"}], "required": ["a", 7]}, ["a"]),
        ({"required": True}, []),
    ],
)
def test_json_schema_requires_what_all_parts_and_every_branch_do(
    words: dict[str, Any], required: list[str]
) -> None:
    integer = {"type": "integer"}
    definitions = {"B": {"type": "object", "required": ["b"]}}
    found = json_schema({"a": integer, "b": integer, "c": integer}, **{"$defs": definitions}, **words)
    assert [one.name for one in found.fields if one.required] == required


def test_json_schema_branches_of_one_column_that_say_different_things_are_their_column() -> None:
    found = json_schema(
        {"a": {"oneOf": [{"enum": ["X"]}, {"type": "string"}]}, "b": {"anyOf": [{"const": "X"}] * 2}}
    )
    assert [one.type.symbols for one in found.fields] == [(), ("X",)]


def test_an_inferred_schema_is_its_columns() -> None:
    point = pa.struct([("x", INT)])
    found = inferred(a=LONG, l=list_of(point), m=pa.map_(STRING, point))
    assert (found.format, found.name) == ("STRUCT", "json")
    for field in found.fields:
        agrees(field.type)
        assert (field.number, field.required) == (None, False)
    element, value = found.fields[1].type.element, found.fields[2].type.value
    assert element == value and element is not None
    assert [(one.name, one.type.column) for one in element.fields] == [("x", INT)]


NODE = {"type": "object", "properties": {"v": {"type": "integer"}, "next": {"$ref": "#/$defs/N"}}}


@pytest.mark.parametrize(
    ("found", "column"),
    [
        (avro_record(("v", "int"), ("next", ["null", "E"])), "next"),
        (message("int32 v = 1; E next = 2;"), "next"),
        (json_schema({"next": {"$ref": "#/$defs/N"}}, **{"$defs": {"N": NODE}}), "next"),
    ],
    ids=["avro", "protobuf", "json schema"],
)
def test_what_contains_itself_ends_where_its_column_is_a_leaf(found: RecordDescription, column: str) -> None:
    types = {one.name: one.type for one in found.fields}
    # A JSON Schema may be expanded once before it is met again.
    inside = {one.name: one.type for one in types[column].fields} or types
    assert inside[column] == TypeDescription(STRING)


AVRO = json.dumps(record(("a", "int")))
JSON = json.dumps({"type": "object", "properties": {"a": {"enum": ["X"]}}})
PROTO = 'syntax = "proto3"; message E { oneof o { int32 a = 1; } }'


@pytest.mark.parametrize(
    ("codec", "type_", "text"),
    [("avro", "AVRO", AVRO), ("jsonschema", "JSON", JSON), ("protobuf", "PROTOBUF", PROTO)],
)
def test_the_codec_for_mixed_topics_describes_as_the_codec_of_the_format(
    codec: str, type_: SchemaType, text: str
) -> None:
    schema = Schema(1, type_, text)
    auto, own = load_codec("auto"), load_codec(codec)
    assert auto.description(schema, auto.default_path) == own.description(schema, own.default_path)


@pytest.mark.parametrize(
    ("codec", "type_", "text", "path"),
    [
        ("avro", "AVRO", "{", ()),
        ("avro", "AVRO", AVRO, (1,)),
        ("protobuf", "PROTOBUF", "message {", (0,)),
        ("protobuf", "PROTOBUF", PROTO, (1,)),
        ("jsonschema", "JSON", '{"type": "string"}', ()),
        ("json", "STRUCT", "{}", ()),
        ("auto", "AVRO", "{", ()),
    ],
)
def test_what_is_no_schema_is_refused(codec: str, type_: SchemaType, text: str, path: RecordPath) -> None:
    with pytest.raises(BadSchema):
        load_codec(codec).description(Schema(1, type_, text), path)
