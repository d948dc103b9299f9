"""What is an Avro schema, what is none, and how names are found."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from tests.codecs.avro_samples import record, schema

from distributary.codecs.avro.codec import AvroCodec
from distributary.codecs.avro.types.schema import Extras, parse_schema
from distributary.errors import BadSchema
from distributary.registry.base import Schema


def columns(spec: Any, imports: dict[str, str] | None = None) -> pa.Schema:
    found = Schema(1, "AVRO", spec) if isinstance(spec, str) else schema(spec, imports)
    return AvroCodec().reader(found, ()).schema


NESTED: Any = "long"
for _ in range(70):
    NESTED = {"type": "array", "items": NESTED}
# Thirteen types of which each names the one before it twice: 2 ** 13 fields.
WIDE: Any = {"type": "record", "name": "W0", "fields": [{"name": "a", "type": "long"}]}
for level in range(1, 14):
    WIDE = {
        "type": "record",
        "name": f"W{level}",
        "fields": [{"name": "a", "type": WIDE}, {"name": "b", "type": f"W{level - 1}"}],
    }

BAD: list[tuple[Any, str]] = [
    ("no schema at all {", "Expecting value"),
    ("", "Expecting value"),
    ("null1", "is no Avro schema"),
    ('"Unknown"', "names the type 'Unknown'"),
    ("7", "a type is a name, a list or an object"),
    ("[]", "a union is empty"),
    ('["string", ["null"]]', "holds a union directly"),
    ('["string", "string"]', "one type twice"),
    ({}, "no 'type'"),
    ({"type": 7}, "no 'type'"),
    ({"type": "array"}, "has no 'items'"),
    ({"type": "map"}, "has no 'values'"),
    ({"type": "record", "name": "R"}, "has no 'fields'"),
    ({"type": "record", "fields": []}, "a record has no name"),
    ({"type": "record", "name": "R", "fields": ["a"]}, "no list of objects"),
    ({"type": "record", "name": "R", "fields": [{"type": "long"}]}, "a field of R has no name"),
    ({"type": "record", "name": "R", "fields": [{"name": "a"}]}, "has no 'type'"),
    (
        {"type": "record", "name": "R", "fields": [{"name": "a", "type": "long"}] * 2},
        "two fields of one name",
    ),
    ({"type": "record", "name": "long", "fields": []}, "primitive type"),
    (record(record(name="R")), "twice"),
    ({"type": "enum", "name": "E", "symbols": []}, "no list of different texts"),
    ({"type": "enum", "name": "E", "symbols": ["A", "A"]}, "no list of different texts"),
    ({"type": "enum", "name": "E", "symbols": "AB"}, "no list of different texts"),
    ({"type": "fixed", "name": "F", "size": -1}, "no whole number of bytes"),
    ({"type": "fixed", "name": "F", "size": "3"}, "no whole number of bytes"),
    ({"type": "fixed", "name": "F"}, "has no 'size'"),
    # Half of a surrogate pair, which no column can be called, and none can hold.
    (record({"type": "enum", "name": "E", "symbols": ["\ud800"]}), "surrogates not allowed"),
    ({"type": "record", "name": "R\ud800", "fields": []}, "surrogates not allowed"),
    ({"type": "record", "name": "R", "namespace": "\udfff", "fields": []}, "surrogates not allowed"),
    (
        {"type": "record", "name": "R", "fields": [{"name": "\ud800", "type": "long"}]},
        "surrogates not allowed",
    ),
    (NESTED, "more than 64 levels"),
    (WIDE, "more than 5000 fields"),
    ("[" * 100_000, "nests too deeply"),
]


@pytest.mark.parametrize(("spec", "said"), BAD, ids=lambda part: str(part)[:40])
def test_what_is_no_schema_is_refused(spec: Any, said: str) -> None:
    with pytest.raises(BadSchema, match=said):
        columns(spec)


def test_names_are_found_by_namespace() -> None:
    spec = {
        "type": "record",
        "name": "a.b.Outer",
        "fields": [
            {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["X"]}},
            {"name": "same", "type": "E"},
            {"name": "full", "type": "a.b.E"},
            {
                "name": "other",
                "type": {
                    "type": "record",
                    "name": "Inner",
                    "namespace": "c",
                    "fields": [
                        {"name": "f", "type": {"type": "fixed", "name": "E", "size": 2}},
                        {"name": "own", "type": "E"},
                        {"name": "outer", "type": "a.b.E"},
                    ],
                },
            },
        ],
    }
    inner = pa.struct([("f", pa.binary()), ("own", pa.binary()), ("outer", pa.string())])
    assert columns(spec) == pa.schema(
        [("e", pa.string()), ("same", pa.string()), ("full", pa.string()), ("other", inner)]
    )
    assert AvroCodec().reader(schema(spec), ()).name == "a.b.Outer"


IMPORTS = {
    "middle": json.dumps(
        {"type": "record", "name": "m.Middle", "fields": [{"name": "low", "type": "l.Low"}]}
    ),
    "low": json.dumps({"type": "record", "name": "l.Low", "fields": [{"name": "n", "type": "long"}]}),
}


@pytest.mark.parametrize("names", [("middle", "low"), ("low", "middle")])
def test_types_defined_elsewhere_are_found_whatever_the_order(names: tuple[str, ...]) -> None:
    found = columns(record("m.Middle", "l.Low"), {name: IMPORTS[name] for name in names})
    low = pa.struct([("n", pa.int64())])
    assert found == pa.schema([("c0", pa.struct([("low", low)])), ("c1", low)])


def test_a_reference_that_names_what_nobody_defines_is_said() -> None:
    with pytest.raises(BadSchema, match=r"referenced schema 'middle'.*'l\.Low'"):
        columns(record("m.Middle"), {"middle": IMPORTS["middle"]})


@pytest.mark.parametrize(
    "logical",
    [
        {"logicalType": "decimal", "precision": 0},
        {"logicalType": "decimal", "precision": 4, "scale": 5},
        {"logicalType": "decimal", "precision": 4, "scale": -1},
        {"logicalType": "decimal", "precision": "4"},
        {"logicalType": "decimal", "precision": True},
        {"logicalType": "date"},
        {"logicalType": 7},
    ],
    ids=str,
)
def test_a_logical_type_that_cannot_be_is_ignored(logical: dict[str, Any]) -> None:
    assert columns({"type": "bytes", **logical}) == pa.schema([("value", pa.binary())])


def test_a_type_may_be_wrapped_in_an_object() -> None:
    assert columns({"type": {"type": ["null", {"type": "long"}]}}) == pa.schema([("value", pa.int64())])


def test_a_decimal_of_more_digits_than_its_bytes_hold_is_ignored() -> None:
    spec = {"type": "fixed", "name": "F", "size": 2, "logicalType": "decimal", "precision": 5}
    assert columns(spec) == pa.schema([("value", pa.binary())])
    assert columns({**spec, "precision": 4}) == pa.schema([("value", pa.decimal128(4, 0))])


def test_aliases_and_defaults_are_kept() -> None:
    enum = {"type": "enum", "name": "E", "symbols": ["A", "B"], "default": "B", "aliases": ["old.E", 7]}
    fields = [
        {"name": "e", "type": enum, "aliases": ["was", "before"], "default": "A"},
        {"name": "n", "type": ["null", "long"], "default": None, "aliases": "no list"},
        {"name": "plain", "type": "E"},
    ]
    spec = {"type": "record", "name": "R", "namespace": "a", "aliases": ["Old", "b.R"], "fields": fields}
    found = parse_schema(json.dumps(spec), {})
    assert found.aliases == ("a.Old", "b.R")
    assert found.extras == (Extras(("was", "before"), True, "A"), Extras((), True, None), Extras())
    assert (found.parts[0].aliases, found.parts[0].default) == (("old.E",), "B")
