"""What is told of the changes between two Protobuf schemas: one case and more for every class of change."""

from __future__ import annotations

from tests.codecs.described import Told, message, protobuf

from distributary.codecs.changes.description import RecordDescription

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
