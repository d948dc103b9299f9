"""One case and more for every class of change in every format: two schemas as they are registered, and what is told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from tests.codecs.described import avro, avro_record, inferred, json_schema, message, protobuf, record

from distributary.codecs.changes.description import RecordDescription
from distributary.codecs.types.struct_type import list_of

Told = Sequence[tuple[str, str, str, str]]

INT, STRING = pa.int32(), pa.string()
OPTIONAL_INT = ["null", "int"]
NULL = {"default": None}


def enum(*symbols: str) -> dict[str, Any]:
    return {"type": "enum", "name": "Colour", "symbols": symbols}


def inner(*fields: Any) -> dict[str, Any]:
    return record(*fields, name="In")


def decimal(precision: int, scale: int) -> dict[str, Any]:
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}


DATE = {"type": "int", "logicalType": "date"}
LOCAL = {"type": "long", "logicalType": "local-timestamp-micros"}
INSTANT = {"type": "long", "logicalType": "timestamp-micros"}
WITH_Y = [("x", "int"), ("y", ["null", "string"], NULL)]

AVRO: list[tuple[str, RecordDescription, RecordDescription, Told]] = [
    (
        "a field is added, and another is gone",
        avro_record(("a", "int"), ("b", "string")),
        avro_record(("c", "double"), ("a", "int")),
        [("added", "c", "", "double"), ("dropped", "b", "string", "")],
    ),
    (
        "fields are added in a struct, in a list's elements, in a map's values",
        avro_record(
            ("s", inner(("x", "int"))),
            ("l", {"type": "array", "items": "In"}),
            ("m", {"type": "map", "values": ["null", "In"]}),
        ),
        avro_record(
            ("s", inner(*WITH_Y)),
            ("l", {"type": "array", "items": "In"}),
            ("m", {"type": "map", "values": ["null", "In"]}),
        ),
        [
            ("added", "s.y", "", "string"),
            ("added", "l.element.y", "", "string"),
            ("added", "m.value.y", "", "string"),
        ],
    ),
    (
        "types are widened",
        avro_record(("a", "int"), ("b", "float"), ("c", "int"), ("d", DATE), ("e", decimal(9, 2))),
        avro_record(("a", "long"), ("b", "double"), ("c", "double"), ("d", LOCAL), ("e", decimal(12, 4))),
        [
            ("widened", "a", "int", "bigint"),
            ("widened", "b", "float", "double"),
            ("widened", "c", "int", "double"),
            ("widened", "d", "date", "timestamp_ntz"),
            ("widened", "e", "decimal(9,2)", "decimal(12,4)"),
        ],
    ),
    (
        "types are changed to what has not all of the old values",
        avro_record(
            ("a", "int"), ("b", "long"), ("c", "string"), ("d", DATE), ("e", decimal(9, 2)), ("f", "int")
        ),
        avro_record(
            ("a", "string"),
            ("b", "double"),
            ("c", "bytes"),
            ("d", INSTANT),
            ("e", decimal(9, 3)),
            ("f", "float"),
        ),
        [
            ("changed", "a", "int", "string"),
            ("changed", "b", "bigint", "double"),
            ("changed", "c", "string", "binary"),
            ("changed", "d", "date", "timestamp"),
            ("changed", "e", "decimal(9,2)", "decimal(9,3)"),
            ("changed", "f", "int", "float"),
        ],
    ),
    (
        "one value becomes several, a struct a value, a map a list",
        avro_record(("a", "int"), ("s", inner(("x", "int"))), ("m", {"type": "map", "values": "int"})),
        avro_record(
            ("a", {"type": "array", "items": "int"}), ("s", "int"), ("m", {"type": "array", "items": "int"})
        ),
        [
            ("changed", "a", "int", "array<int>"),
            ("changed", "s", "struct<x:int>", "int"),
            ("changed", "m", "map<string,int>", "array<int>"),
        ],
    ),
    (
        "an alias tells the new name from a new field, in a struct too",
        avro_record(("a", "int"), ("s", inner(("x", "int"), ("z", "int")))),
        avro_record(("b", "long", {"aliases": ["old", "a"]}), ("s", inner(("y", "int", {"aliases": ["x"]})))),
        [
            ("renamed", "b", "a", "b"),
            ("widened", "b", "int", "bigint"),
            ("renamed", "s.y", "x", "y"),
            ("dropped", "s.z", "int", ""),
        ],
    ),
    (
        "a struct is renamed: what it lost is told by its old name, what it got by its new one",
        avro_record(("s", inner(("x", "int")))),
        avro_record(("t", inner(("y", "int")), {"aliases": ["s"]})),
        [("renamed", "t", "s", "t"), ("added", "t.y", "", "int"), ("dropped", "s.x", "int", "")],
    ),
    (
        "an alias for a field that is still there renames nothing",
        avro_record(("a", "int")),
        avro_record(("a", "int"), ("b", "int", {"aliases": ["a"], "default": 0})),
        [("added", "b", "", "int")],
    ),
    (
        "null or a default makes a field optional",
        avro_record(("a", "int"), ("b", "int"), ("c", OPTIONAL_INT), ("d", "int", {"default": 1})),
        avro_record(("a", OPTIONAL_INT), ("b", "int", {"default": 1}), ("c", "int"), ("d", "int")),
        [
            ("made_optional", "a", "required", "optional"),
            ("made_optional", "b", "required", "optional"),
            ("made_required", "c", "optional", "required"),
            ("made_required", "d", "optional", "required"),
        ],
    ),
    (
        "symbols come and go, in a list's elements too",
        avro_record(("a", ["null", enum("X", "Y")]), ("l", {"type": "array", "items": "Colour"})),
        avro_record(("a", ["null", enum("Z", "X")]), ("l", {"type": "array", "items": "Colour"})),
        [
            ("enum_value_removed", "a", "Y", ""),
            ("enum_value_added", "a", "", "Z"),
            ("enum_value_removed", "l.element", "Y", ""),
            ("enum_value_added", "l.element", "", "Z"),
        ],
    ),
    (
        "an enum becomes a text: the column is one already",
        avro_record(("a", enum("X"))),
        avro_record(("a", "string")),
        [],
    ),
    (
        "a union gets another branch",
        avro_record(("u", ["int", "string"]), ("o", ["null", "int"])),
        avro_record(("u", ["int", "string", "boolean"]), ("o", ["null", "int", "string"])),
        [
            ("added", "u.member2", "", "boolean"),
            ("changed", "o", "int", "struct<member0:int,member1:string>"),
        ],
    ),
    (
        "the record has another name, with and without an alias",
        avro_record(("a", "int"), name="games.Old"),
        avro_record(("a", "int"), name="games.New", aliases=["Old"]),
        [("record_renamed", "", "games.Old", "games.New")],
    ),
    (
        "what is no record changes its one column",
        avro("int"),
        avro("long"),
        [("record_renamed", "", "int", "long"), ("widened", "value", "int", "bigint")],
    ),
    (
        "a record begins to contain itself, and becomes JSON text",
        avro_record(("s", inner(("x", "int")))),
        avro_record(("s", inner(("x", "int"), ("next", ["null", "In"])))),
        [("changed", "s", "struct<x:int>", "string")],
    ),
    (
        "a name that holds a dot is one step of a path",
        avro_record(("a", "int")),
        avro_record(("a", "int"), ("s.t", "int", {"default": 0})),
        [("added", "`s.t`", "", "int")],
    ),
]

PROTOBUF: list[tuple[str, RecordDescription, RecordDescription, Told]] = [
    (
        "fields are added at every depth, and gone",
        message(
            "In s = 1; repeated In l = 2; map<string, In> m = 3; int32 gone = 4; message In { int32 x = 1; }"
        ),
        message(
            "In s = 1; repeated In l = 2; map<string, In> m = 3; bool new = 5; message In { int32 x = 1; bytes y = 2; }"
        ),
        [
            ("added", "s.y", "", "binary"),
            ("added", "l.element.y", "", "binary"),
            ("added", "m.value.y", "", "binary"),
            ("added", "new", "", "boolean"),
            ("dropped", "gone", "int", ""),
        ],
    ),
    (
        "types are widened, unsigned ones too",
        message("int32 a = 1; float b = 2; uint32 c = 3; int64 d = 4; map<int32, int32> m = 5;"),
        message("int64 a = 1; double b = 2; uint64 c = 3; uint64 d = 4; map<int64, int64> m = 5;"),
        [
            ("widened", "a", "int", "bigint"),
            ("widened", "b", "float", "double"),
            ("widened", "c", "bigint", "decimal(20,0)"),
            ("widened", "d", "bigint", "decimal(20,0)"),
            ("widened", "m.key", "int", "bigint"),
            ("widened", "m.value", "int", "bigint"),
        ],
    ),
    (
        "types are changed; what is the same column is no change",
        message(
            "int32 a = 1; string b = 2; int32 c = 3; In s = 4; map<string, int32> m = 5; message In { int32 x = 1; }"
        ),
        message("repeated int32 a = 1; bytes b = 2; sint32 c = 3; string s = 4; repeated int32 m = 5;"),
        [
            ("changed", "a", "int", "array<int>"),
            ("changed", "b", "string", "binary"),
            ("changed", "s", "struct<x:int>", "string"),
            ("changed", "m", "map<string,int>", "array<int>"),
        ],
    ),
    (
        "the number tells the new name, whatever the type",
        message("int32 a = 1; In s = 2; message In { int32 x = 1; }"),
        message("int64 b = 1; In s = 2; message In { int32 y = 1; }"),
        [("renamed", "b", "a", "b"), ("widened", "b", "int", "bigint"), ("renamed", "s.y", "x", "y")],
    ),
    (
        "a reserved name says that the field is gone, and its number another's, in a struct too",
        message("int32 a = 1; In s = 2; message In { int32 x = 1; }"),
        message('reserved "a"; int32 b = 1; In s = 2; message In { reserved "x"; int32 y = 1; }'),
        [
            ("added", "b", "", "int"),
            ("added", "s.y", "", "int"),
            ("dropped", "s.x", "int", ""),
            ("dropped", "a", "int", ""),
        ],
    ),
    (
        "a reserved number is gone with its field",
        message("int32 a = 1; int32 b = 2;"),
        message("reserved 1; int32 b = 2; int32 c = 3;"),
        [("added", "c", "", "int"), ("dropped", "a", "int", "")],
    ),
    (
        "a field that has got another number goes on under its name",
        message("int32 a = 1; int32 b = 2;"),
        message("int32 b = 1; int32 a = 2;"),
        [],
    ),
    (
        "required is proto2's word alone; proto3's presence is none",
        protobuf("message E { required int32 a = 1; optional int32 b = 2; }", syntax="proto2"),
        protobuf("message E { optional int32 a = 1; required int32 b = 2; }", syntax="proto2"),
        [("made_optional", "a", "required", "optional"), ("made_required", "b", "optional", "required")],
    ),
    ("presence is no change", message("int32 a = 1;"), message("optional int32 a = 1;"), []),
    (
        "symbols come and go",
        message("Colour a = 1; map<string, Colour> m = 2; enum Colour { X = 0; Y = 1; }"),
        message("Colour a = 1; map<string, Colour> m = 2; enum Colour { X = 0; Z = 2; }"),
        [
            ("enum_value_removed", "a", "Y", ""),
            ("enum_value_added", "a", "", "Z"),
            ("enum_value_removed", "m.value", "Y", ""),
            ("enum_value_added", "m.value", "", "Z"),
        ],
    ),
    (
        "a oneof that was there gets an arm; one that is new brings fields",
        message("oneof o { int32 a = 1; } In s = 2; message In { oneof p { int32 x = 1; } }"),
        message(
            "oneof o { int32 a = 1; string b = 3; } In s = 2; oneof n { int32 c = 4; }"
            "message In { oneof p { int32 x = 1; int32 y = 2; } }"
        ),
        [
            ("oneof_arm_added", "b", "", "string"),
            ("oneof_arm_added", "s.y", "", "int"),
            ("added", "c", "", "int"),
        ],
    ),
    (
        "the message at the same index has another name",
        message("int32 a = 1;", "Old"),
        message("int32 a = 1;", "New"),
        [("record_renamed", "", "p.Old", "p.New")],
    ),
]

LONG, OBJECT = {"type": "integer"}, {"type": "object"}
JSON_SCHEMA: list[tuple[str, RecordDescription, RecordDescription, Told]] = [
    (
        "properties are added at every depth, and gone",
        json_schema(
            {
                "s": {**OBJECT, "properties": {"x": LONG}},
                "l": {"type": "array", "items": {**OBJECT, "properties": {"x": LONG}}},
                "m": {**OBJECT, "additionalProperties": {**OBJECT, "properties": {"x": LONG}}},
                "gone": LONG,
            }
        ),
        json_schema(
            {
                "s": {**OBJECT, "properties": {"x": LONG, "y": LONG}},
                "l": {"type": "array", "items": {**OBJECT, "properties": {"x": LONG, "y": LONG}}},
                "m": {**OBJECT, "additionalProperties": {**OBJECT, "properties": {"x": LONG, "y": LONG}}},
                "new": {"type": "boolean"},
            }
        ),
        [
            ("added", "s.y", "", "bigint"),
            ("added", "l.element.y", "", "bigint"),
            ("added", "m.value.y", "", "bigint"),
            ("added", "new", "", "boolean"),
            ("dropped", "gone", "bigint", ""),
        ],
    ),
    (
        "types are changed: none of JSON Schema's has every value of another as its column has it",
        json_schema({"a": LONG, "b": LONG, "c": {"type": "string", "format": "date"}, "d": LONG}),
        json_schema(
            {
                "a": {"type": "number"},
                "b": {"type": ["integer", "string"]},
                "c": {"type": "string", "format": "date-time"},
                "d": {"type": "array", "items": LONG},
            }
        ),
        [
            ("changed", "a", "bigint", "double"),
            ("changed", "b", "bigint", "string"),
            ("changed", "c", "date", "timestamp"),
            ("changed", "d", "bigint", "array<bigint>"),
        ],
    ),
    (
        "properties are made required and optional, in an object too",
        json_schema({"a": LONG, "s": {**OBJECT, "properties": {"x": LONG}, "required": ["x"]}}),
        json_schema({"a": LONG, "s": {**OBJECT, "properties": {"x": LONG}}}, required=["a"]),
        [("made_required", "a", "optional", "required"), ("made_optional", "s.x", "required", "optional")],
    ),
    (
        "values of an enum come and go",
        json_schema({"a": {"enum": ["X", "Y", None]}, "b": {"const": "X"}}),
        json_schema({"a": {"enum": ["X", "Z"]}, "b": {"enum": ["X", "Y"]}}),
        [
            ("enum_value_removed", "a", "Y", ""),
            ("enum_value_added", "a", "", "Z"),
            ("enum_value_added", "b", "", "Y"),
        ],
    ),
    (
        "the title is the record's name",
        json_schema({"a": LONG}, title="Old"),
        json_schema({"a": LONG}, title="New"),
        [("record_renamed", "", "Old", "New")],
    ),
    (
        "without numbers or aliases a new name is a new property",
        json_schema({"a": LONG}),
        json_schema({"b": LONG}),
        [("added", "b", "", "bigint"), ("dropped", "a", "bigint", "")],
    ),
]

POINT, WIDER_POINT = pa.struct([("x", INT)]), pa.struct([("x", pa.float64()), ("y", STRING)])
INFERRED: list[tuple[str, RecordDescription, RecordDescription, Told]] = [
    (
        "columns are added, widened, narrowed, changed and gone at every depth",
        inferred(
            s=POINT,
            l=list_of(POINT),
            m=pa.map_(STRING, POINT),
            n=pa.int64(),
            c=pa.bool_(),
            d=pa.date32(),
            gone=INT,
        ),
        inferred(
            s=WIDER_POINT,
            l=list_of(WIDER_POINT),
            m=pa.map_(STRING, WIDER_POINT),
            n=pa.int16(),
            c=STRING,
            d=pa.timestamp("us"),
            new=pa.decimal128(5, 2),
        ),
        [
            ("widened", "s.x", "int", "double"),
            ("added", "s.y", "", "string"),
            ("widened", "l.element.x", "int", "double"),
            ("added", "l.element.y", "", "string"),
            ("widened", "m.value.x", "int", "double"),
            ("added", "m.value.y", "", "string"),
            ("narrowed", "n", "bigint", "smallint"),
            ("changed", "c", "boolean", "string"),
            ("widened", "d", "date", "timestamp_ntz"),
            ("added", "new", "", "decimal(5,2)"),
            ("dropped", "gone", "int", ""),
        ],
    ),
]

SWITCHED: list[tuple[str, RecordDescription, RecordDescription, Told]] = [
    (
        "a field of the same name goes on in another format",
        avro_record(("a", "int"), ("b", ["null", enum("X")])),
        protobuf("message E { int64 a = 1; Colour b = 2; int32 c = 3; enum Colour { X = 0; Y = 1; } }"),
        [
            ("format_switched", "", "AVRO", "PROTOBUF"),
            ("made_optional", "a", "required", "optional"),
            ("widened", "a", "int", "bigint"),
            ("enum_value_added", "b", "", "Y"),
            ("added", "c", "", "int"),
        ],
    ),
    (
        "what was inferred is registered",
        inferred(a=pa.int64()),
        json_schema({"a": LONG}, title="Event"),
        [("format_switched", "", "STRUCT", "JSON")],
    ),
]

CASES = [
    pytest.param(before, after, told, id=f"{name}: {case}")
    for name, cases in (
        ("avro", AVRO),
        ("protobuf", PROTOBUF),
        ("json schema", JSON_SCHEMA),
        ("inferred", INFERRED),
        ("switched", SWITCHED),
    )
    for case, before, after, told in cases
]
