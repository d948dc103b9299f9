"""One case and more for every class of change in every format: two schemas as they are registered, and what is told.

Those of Avro and of Protobuf, which tell most of a change, are in files of their own.
"""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.codecs.avro_changes import AVRO, enum
from tests.codecs.described import Told, avro_record, inferred, json_schema, protobuf
from tests.codecs.protobuf_changes import PROTOBUF

from distributary.codecs.changes.description import RecordDescription
from distributary.codecs.types.spark_struct import list_of

INT, STRING = pa.int32(), pa.string()
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
