"""What is told of the changes between two Avro schemas: one case and more for every class of change."""

from __future__ import annotations

from typing import Any

from tests.codecs.described import Told, avro, avro_record, record

from distributary.codecs.changes.description import RecordDescription

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
