from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Mapping
from time import process_time
from typing import Any

import pyarrow as pa
import pytest

from distributary.codecs import reasons
from distributary.codecs.jsonschema import validation
from distributary.codecs.jsonschema.codec import JsonSchemaCodec, JsonSchemaReader
from distributary.codecs.types.spark_struct import list_of
from distributary.errors import BadSchema
from distributary.registry.base import Schema

STRING, LONG = pa.string(), pa.int64()


def reader(schema: Any, imports: Mapping[str, Any] | None = None, validate: bool = False) -> JsonSchemaReader:
    texts = {name: json.dumps(one) for name, one in (imports or {}).items()}
    text = schema if isinstance(schema, str) else json.dumps(schema)
    return JsonSchemaCodec(validate).reader(Schema(1, "JSON", text, imports=texts), ())


def record(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def type_of(schema: Any, **rest: Any) -> pa.DataType:
    """The type of the column that a property of this schema becomes."""
    return reader({**record(x=schema), **rest}).schema.field("x").type


TYPES = [
    ({"type": "string"}, STRING),
    ({"type": "string", "format": "date"}, pa.date32()),
    ({"type": "string", "format": "date-time"}, pa.timestamp("us", "UTC")),
    ({"type": "string", "format": "uuid"}, STRING),
    ({"type": "integer"}, LONG),
    ({"type": "number"}, pa.float64()),
    ({"type": "boolean"}, pa.bool_()),
    ({"type": ["null", "integer"]}, LONG),
    ({"type": ["integer", "number"]}, pa.float64()),
    ({"type": ["integer", "string"]}, STRING),
    ({"oneOf": [{"type": "null"}, {"type": "integer"}]}, LONG),
    ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, LONG),
    ({"oneOf": [{"type": "integer"}, {"type": "boolean"}]}, STRING),
    ({"oneOf": [{"type": "integer", "minimum": 5}, {"type": "integer", "maximum": 1}]}, LONG),
    ({"enum": ["a", "b", None]}, STRING),
    ({"enum": [1, 2]}, LONG),
    ({"const": True}, pa.bool_()),
    ({}, STRING),
    (True, STRING),
    ({"type": "array", "items": {"type": "integer"}}, list_of(LONG)),
    ({"type": "array"}, list_of(STRING)),
    ({"type": "array", "items": [{"type": "integer"}, {"type": "string"}]}, STRING),
    ({"type": "array", "prefixItems": [{"type": "integer"}]}, STRING),
    (record(a={"type": "integer"}), pa.struct([("a", LONG)])),
    ({"properties": {"a": {"type": "integer"}}}, pa.struct([("a", LONG)])),
    ({"type": "object", "additionalProperties": {"type": "integer"}}, pa.map_(STRING, LONG)),
    ({"type": "object", "patternProperties": {"^a": {"type": "integer"}}, "additionalProperties": False}, pa.map_(STRING, LONG)),
    ({"type": "object"}, STRING),
    ({"type": "object", "additionalProperties": False}, STRING),
    (record(**{"\ud800": {"type": "integer"}}), STRING),
    (record(a={"type": "integer"}, **{"\ud800": {"type": "integer"}}), pa.struct([("a", LONG)])),
    ({"allOf": [record(a={"type": "integer"}), record(b={"type": "string"})]}, pa.struct([("a", LONG), ("b", STRING)])),
    ({"allOf": [record(a={"type": "integer"}), record(a={"type": "string"})]}, pa.struct([("a", STRING)])),
    ({"type": "integer", "allOf": [{"minimum": 3}]}, LONG),
    ({"allOf": [{"type": "integer"}, {"type": "string"}]}, STRING),
    ({**record(a={"type": "integer"}), "oneOf": [{"required": ["a"]}, {"required": ["b"]}]}, pa.struct([("a", LONG)])),
    ({"type": "integer", "anyOf": [{"minimum": 3}, {"maximum": 1}, {"type": "null"}]}, LONG),
    ({"type": "integer", "oneOf": [{"minimum": 3}], "anyOf": [{"type": "string"}]}, STRING),
    ({"anyOf": [{"minimum": 3}]}, STRING),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "wanted"), TYPES)
def test_each_type_has_its_column(schema: Any, wanted: pa.DataType) -> None:
    assert type_of(schema) == wanted


def test_half_a_character_names_no_column_and_what_records_have_there_is_rescued() -> None:
    schema = {"title": "x\udfff", **record(a={"enum": ["x", "\ud800"]}, **{"\ud800": {"type": "integer"}})}
    assert (
        JsonSchemaCodec().description(Schema(1, "JSON", json.dumps(schema)), ()).fields[0].type.symbols == ()
    )
    made = reader(schema)
    decoded = made.decode(pa.array([b'{"a":"x","\\ud800":1}', b'{"a":"x"}'], pa.binary()))
    assert (made.name, made.schema.names, decoded.failures) == ("json", ["a"], [])
    assert decoded.rescued is not None
    assert decoded.rescued.to_pylist() == ['{"\\ud800":1}', None]


REFERENCES = [
    ({"$ref": "#/definitions/n"}, {"definitions": {"n": {"type": "integer"}}}),
    ({"$ref": "#/$defs/n~1m~0"}, {"$defs": {"n/m~": {"type": "integer"}}}),
    ({"$ref": "#/$defs/a%20b"}, {"$defs": {"a b": {"type": "integer"}}}),
    ({"$ref": "#/$defs/l/0"}, {"$defs": {"l": [{"type": "integer"}]}}),
    ({"$ref": "#here"}, {"$defs": {"n": {"$anchor": "here", "type": "integer"}}}),
    ({"$ref": "#here"}, {"definitions": {"n": {"$id": "#here", "type": "integer"}}}),
    ({"$ref": "#/$defs/a"}, {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"type": "integer"}}}),
    ({"$ref": "#/$defs/n", "description": "x"}, {"$defs": {"n": {"type": "integer"}}}),
    ({"oneOf": [{"type": "null"}, {"$ref": "#/$defs/n"}]}, {"$defs": {"n": {"type": "integer"}}}),
]


@pytest.mark.parametrize(("schema", "rest"), REFERENCES)
def test_a_reference_within_the_schema_is_followed(schema: Any, rest: dict[str, Any]) -> None:
    assert type_of(schema, **rest) == LONG


@pytest.mark.parametrize(
    "reference", ["other.json", "other.json#", "http://x/other.json", "other.json#/$defs/o", "//x/other.json"]
)
def test_a_registry_reference_is_followed(reference: str) -> None:
    other = {
        "$id": "http://x/other.json",
        **record(a={"$ref": "#/$defs/n"}),
        "$defs": {"n": {"type": "integer"}, "o": record(a={"type": "integer"})},
    }
    root = {"$id": "http://x/root.json", **record(x={"$ref": reference})}
    assert reader(root, {"other.json": other}).schema.field("x").type == pa.struct([("a", LONG)])


@pytest.mark.parametrize(
    "reference", ["http://example.com/a.json", "file:///etc/passwd", "#/nowhere", "#nothing", "b.json", 7]
)
def test_any_other_reference_is_refused_and_nothing_is_fetched(
    reference: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "socket", lambda *_: pytest.fail("asked the network"))
    with pytest.raises(BadSchema):
        reader(record(x={"$ref": reference}))


def test_what_contains_itself_is_json_text() -> None:
    tree = {**record(v={"type": "integer"}, kids={"type": "array", "items": {"$ref": "#"}})}
    assert reader(tree).schema == pa.schema(
        [("v", LONG), ("kids", list_of(pa.struct([("v", LONG), ("kids", STRING)])))]
    )
    loop = {
        "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}},
        **record(x={"$ref": "#/$defs/a"}),
    }
    assert reader(loop).schema.field("x").type == STRING


def test_a_record_of_several_kinds_has_the_columns_of_all() -> None:
    kinds = {
        "a": record(n={"type": "integer"}, both={"type": "integer"}),
        "b": record(s={"type": "string"}, both={"type": "boolean"}),
    }
    root = {
        "title": "Event",
        "definitions": kinds,
        "oneOf": [{"$ref": "#/definitions/a"}, {"$ref": "#/definitions/b"}],
    }
    found = reader(root)
    assert found.name == "Event"
    assert found.schema == pa.schema([("n", LONG), ("both", STRING), ("s", STRING)])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "true",
        '{"type":"string"}',
        '{"type":"array"}',
        '{"$ref":"#"}',
        "[" * 100_000,
        '{"oneOf":[{"type":"integer"}]}',
    ],
)
def test_what_describes_no_object_is_refused(text: str) -> None:
    with pytest.raises(BadSchema):
        reader(text)


def test_a_few_definitions_that_name_each_other_often_are_refused() -> None:
    layers = {
        f"d{n}": record(**{f"p{k}": {"$ref": f"#/$defs/d{n + 1}"} for k in range(20)}) for n in range(20)
    }
    with pytest.raises(BadSchema, match="more than"):
        reader({"$defs": {**layers, "d20": {"type": "integer"}}, **record(x={"$ref": "#/$defs/d0"})})


LEVELS = 40

TWICE: dict[str, Callable[[Callable[[str], dict[str, Any]]], dict[str, Any]]] = {
    "a part twice": lambda ref: {"allOf": [ref("a"), ref("a")]},
    "one of two, each of which has both": lambda ref: {"allOf": [ref("a"), ref("b")]},
    "a part, and a branch of it": lambda ref: {"allOf": [ref("a")], "oneOf": [ref("b"), ref("a")]},
    "a reference beside a part": lambda ref: {"$ref": ref("a")["$ref"], "allOf": [ref("b")]},
    "branches": lambda ref: {"oneOf": [ref("a"), ref("b")]},
}

LEAVES = {
    "an object": record(n={"type": "integer"}),
    "a text": {"type": "string"},
    "an object that contains itself": record(n={"$ref": "#/$defs/a40"}),
    "the record": {"$ref": "#"},
}


@pytest.mark.parametrize("leaf", LEAVES)
@pytest.mark.parametrize("twice", TWICE)
def test_definitions_that_lead_to_each_other_on_ever_more_ways_are_read_or_refused_at_once(
    twice: str, leaf: str
) -> None:
    def layer(n: int) -> dict[str, Any]:
        return TWICE[twice](lambda name: {"$ref": f"#/$defs/{name}{n + 1}"})

    layers = {f"{name}{n}": layer(n) for n in range(LEVELS) for name in "ab"}
    last = {f"{name}{LEVELS}": LEAVES[leaf] for name in "ab"}
    schema = {"$defs": {**layers, **last}, **record(x={"$ref": "#/$defs/a0"})}
    began = time.process_time()
    try:
        found = reader(schema).schema.field("x").type
    except BadSchema as error:
        assert "more than" in str(error)
    else:
        wanted = {"an object": "n", "an object that contains itself": "n", "the record": "x"}
        assert [one.name for one in found] == [wanted[leaf]] if leaf in wanted else found == STRING
    assert time.process_time() - began < 3


@pytest.mark.parametrize("word", ["allOf", "anyOf", "oneOf"])
def test_a_record_is_not_held_to_the_same_parts_for_ever(word: str) -> None:
    layers = {f"d{n}": {word: [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(LEVELS)}
    held_to = {"type": "integer", "not": {"$ref": "#/$defs/d0"}}
    schema = {"$defs": {**layers, f"d{LEVELS}": record(n={})}, **record(x=held_to)}
    assert reader(schema).schema.field("x").type == LONG
    with pytest.raises(BadSchema, match="on more than 10000 ways"):
        reader(schema, validate=True)


def test_a_type_that_is_met_again_counts_as_often_as_it_is_met() -> None:
    wide = record(**{f"p{n}": {"type": "integer"} for n in range(1_000)})
    properties = {f"x{n}": {"$ref": "#/$defs/wide"} for n in range(9)}
    assert len(reader({"$defs": {"wide": wide}, **record(**properties)}).schema) == 9
    properties["x9"] = {"$ref": "#/$defs/wide"}
    with pytest.raises(BadSchema, match="more than 5000 columns"):
        reader({"$defs": {"wide": wide}, **record(**properties)})
    tower = {f"d{n}": record(a={"$ref": f"#/$defs/d{n + 1}"}) for n in range(80)}
    # Met first where it fits, and then where it is too deep.
    properties = {"low": {"$ref": "#/$defs/d60"}, "high": {"$ref": "#/$defs/d0"}}
    with pytest.raises(BadSchema, match="64 levels"):
        reader({"$defs": {**tower, "d80": {"type": "integer"}}, **record(**properties)})


def test_open_content_is_rescued() -> None:
    found = reader(record(n={"type": "integer"}, at={"type": "string", "format": "date-time"}))
    payload = b'{"n":1,"at":"2026-01-02T03:04:05Z","more":{"a":1}}'
    decoded = found.decode(pa.array([payload] * 9, pa.binary()))
    assert decoded.rescued is not None
    assert decoded.rescued[0].as_py() == '{"more":{"a":1}}'
    assert decoded.beyond.tolist() == list(range(9))


def test_validation_is_a_choice_and_quotes_no_payload() -> None:
    schema = {**record(n={"type": "integer", "minimum": 5}, o={"$ref": "o.json"}), "required": ["n"]}
    imports = {"o.json": record(s={"type": "string", "pattern": "^a"})}
    texts = pa.array(
        [b'{"n":5,"o":{"s":"ab"}}', b'{"n":4}', b"{}", b'{"n":6,"o":{"s":"secret"}}', b"broken"], pa.binary()
    )
    assert reader(schema, imports).decode(texts).source.tolist() == [0, 1, 2, 3]
    decoded = reader(schema, imports, validate=True).decode(texts)
    assert decoded.source.tolist() == [0] and decoded.rows.num_rows == 1
    found = [(failure.row, failure.reason) for failure in decoded.failures]
    assert found == [(1, reasons.INVALID), (2, reasons.INVALID), (3, reasons.INVALID), (4, reasons.MALFORMED)]
    assert "`minimum`" in decoded.failures[0].detail
    assert not any("secret" in failure.detail for failure in decoded.failures)


def test_validation_refuses_what_is_no_json_schema() -> None:
    with pytest.raises(BadSchema, match=r"'minimum'|'type'"):
        reader(record(n={"type": "integer", "minimum": "five"}), validate=True)


def test_a_record_that_its_pattern_reads_without_end_keeps_no_other_from_its_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(validation, "LONGEST_SECONDS", 0.05)
    schema = record(name={"type": "string", "pattern": r"^([a-z]+\s?)+$"})
    payloads = [json.dumps({"name": name}).encode() for name in ("one", "a" * 60 + "!", "two")]
    decoded = reader(schema, validate=True).decode(pa.array(payloads, pa.binary()))
    assert decoded.rows.to_pylist() == [{"name": "one"}, {"name": "two"}]
    assert [(failure.row, failure.reason) for failure in decoded.failures] == [(1, reasons.INVALID)]


def test_hundreds_of_such_records_are_given_ever_less_time_and_the_others_their_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(validation, "LONGEST_SECONDS", 0.2)
    monkeypatch.setattr(validation, "_FEWEST_SECONDS", 0.001)
    monkeypatch.setattr(validation, "_SECONDS_A_BYTE", 1e-5)
    schema = record(name={"type": "string", "pattern": r"^([a-z]+\s?)+$"}, n={"type": "integer"})
    odd, fine = [json.dumps({"name": name}).encode() for name in ("b" * 60 + "!", "one")]
    began = process_time()
    decoded = reader(schema, validate=True).decode(pa.array([odd, fine] * 150, pa.binary()))
    assert process_time() - began < 5
    assert decoded.source.tolist() == list(range(1, 300, 2))
    assert {failure.reason for failure in decoded.failures} == {reasons.INVALID}


def test_a_multiple_is_one_by_the_digits_that_are_written() -> None:
    schema = record(x={"type": "number", "multipleOf": 0.01}, n={"type": "integer", "multipleOf": 3})
    right = ["0.07", "0.29", "19.99", "-1.1", "7", "1e20", "0"]
    decoded = reader(schema, validate=True).decode(
        pa.array([f'{{"x":{x}}}'.encode() for x in (*right, "0.075", "1e-3")] + [b'{"n":6}', b'{"n":7}'])
    )
    assert [failure.row for failure in decoded.failures] == [7, 8, 10]


HUGE = [b'{"x":1e400}', b'{"x":-1e400}', b'{"x":' + b"7" * 390 + b"}", b'{"x":' + b"7" * 4000 + b"}"]


@pytest.mark.parametrize(
    ("schema", "payloads"),
    [
        (record(x={"type": "number", "multipleOf": 0.01}), HUGE),
        (record(x={"type": "number"}) | {"not": {"$ref": "#"}}, [b'{"x":1}']),
        (record(x={"type": "number"}) | {"allOf": [{"if": {"$ref": "#"}}]}, [b'{"x":1}']),
    ],
)
def test_what_validation_cannot_tell_costs_that_record_alone(schema: Any, payloads: list[bytes]) -> None:
    decoded = reader(schema, validate=True).decode(pa.array(payloads, pa.binary()))
    details = {(failure.reason, failure.detail) for failure in decoded.failures}
    assert len(decoded.source) == 0 and len(decoded.failures) == len(payloads)
    assert details == {(reasons.INVALID, "the record cannot be checked against its JSON Schema")}


@pytest.mark.parametrize(
    "words",
    [
        {"if": {"$ref": "#/$defs/none"}},
        {"not": {"$ref": "none.json"}},
        {"not": {"$ref": "#none"}},
        {"if": {"$ref": "https://example.invalid/none.json"}},
        {"not": {"$dynamicRef": "#none"}},
        {"not": {"$ref": "o.json#/$defs/far"}},
        {"not": {"$ref": "odd.json"}},
        {"not": {"$ref": "#/properties/x/type"}},
        {"$id": "http://[bad"},
        {"$schema": "http://[bad"},
        {"$schema": []},
        {"patternProperties": {"a{99999999999}": True}},
        {"not": json.loads('{"not":' * 300 + "{}" + "}" * 300)},
    ],
)
def test_validation_refuses_schemas_that_no_record_can_be_checked_against(words: dict[str, Any]) -> None:
    schema = record(x={"type": "integer"}) | words
    imports = {
        "o.json": {"$defs": {"far": {"not": {"$ref": "none.json"}}}},
        "odd.json": {"$id": 5, "properties": 5},
    }
    assert reader(schema, imports).schema.names == ["x"]
    with pytest.raises(BadSchema):
        reader(schema, imports, validate=True)


def test_validation_finds_references_as_the_columns_do() -> None:
    root = "https://example.invalid/schemas/root.json"
    schema = {"$id": root, **record(o={"$ref": "o.json"}, p={"$ref": "https://example.invalid/p"})}
    schema["not"] = {"$ref": "https://json-schema.org/draft/2020-12/schema", "required": ["$defs"]}
    imports = {
        "o.json": record(s={"$ref": "q.json#/$defs/text"}),
        "p.json": {"$id": "https://example.invalid/p", **record(s={"$ref": "q.json#/$defs/text"})},
        "q.json": {"$defs": {"text": {"type": "string", "pattern": "^a"}}},
    }
    texts = [b'{"o":{"s":"ab"},"p":{"s":"ab"}}', b'{"o":{"s":"b"}}', b'{"p":{"s":"b"}}']
    decoded = reader(schema, imports, validate=True).decode(pa.array(texts, pa.binary()))
    assert decoded.source.tolist() == [0]
    assert ["`pattern`" in failure.detail for failure in decoded.failures] == [True, True]


def test_that_the_time_is_up_is_said_again_where_nobody_heard_it() -> None:
    with validation._at_most(0.05):
        for _ in range(2):
            with pytest.raises(validation._TooLong):
                while True:
                    pass
