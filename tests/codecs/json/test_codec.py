from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.codecs.json_samples import ANYTHING, NAMES
from tests.examples import examples

from distributary.codecs.base import INFERRED
from distributary.codecs.json.codec import JsonCodec, JsonReader
from distributary.codecs.json.inference import MAX_LEAVES, merged
from distributary.codecs.types.fields import fields_in
from distributary.codecs.types.spark_struct import arrow_schema, struct_json
from distributary.codecs.wire.header import TOMBSTONE
from distributary.errors import BadSchema
from distributary.registry.base import Schema


def struct(**types: Any) -> Schema:
    fields = [{"name": name, "type": of, "nullable": True, "metadata": {}} for name, of in types.items()]
    return Schema(0, "STRUCT", json.dumps({"type": "struct", "fields": fields}))


def array(element: Any) -> dict[str, Any]:
    return {"type": "array", "elementType": element, "containsNull": True}


def inner(**types: Any) -> Any:
    return json.loads(struct(**types).text)


def payloads(*values: Any) -> pa.BinaryArray:
    return pa.array(
        [value if isinstance(value, bytes) else json.dumps(value).encode() for value in values], pa.binary()
    )


def reader(schema: Schema) -> JsonReader:
    return JsonCodec().reader(schema, ())


def shape(schema: Schema) -> Any:
    """A schema as nested names and types, without what is the same everywhere."""
    return _shape(json.loads(schema.text))


def _shape(of: Any) -> Any:
    if isinstance(of, str):
        return of
    if of["type"] == "struct":
        return {field["name"]: _shape(field["type"]) for field in of["fields"]}
    return [_shape(of["elementType"])] if of["type"] == "array" else {"*": _shape(of["valueType"])}


def test_every_value_is_its_own_body() -> None:
    values = pa.array([b'{"a":1}', None, b" {}", b""], pa.binary())
    frames = JsonCodec().split(values, None)
    assert frames.kind.tolist() == [0, TOMBSTONE, 0, 0]
    assert list(frames.kinds) == [(INFERRED, ())]
    assert frames.start.tolist() == [0] * 4 and not frames.errors
    assert list(JsonCodec().split(values.slice(1, 1), None).kinds) == []


def test_new_fields_get_the_type_that_all_their_values_fit() -> None:
    found = reader(struct(n="long")).grown(
        payloads(
            {"n": 1, "whole": 1, "mixed": 1, "list": [1, None], "o": {"x": 1}, "big": 2**64},
            {"n": 1, "whole": 1.5, "mixed": "a", "list": [2.5], "o": {"y": [{"z": True}]}, "big": 1},
        )
    )
    assert shape(found) == {
        "n": "long",
        "big": "decimal(20,0)",
        "list": ["double"],
        "mixed": "string",
        "o": {"x": "long", "y": [{"z": "boolean"}]},
        "whole": "double",
    }


def test_fields_are_added_inside_of_structs_lists_and_maps() -> None:
    entry = {"type": "map", "keyType": "string", "valueType": inner(a="long"), "valueContainsNull": True}
    known = struct(o=inner(a="long"), l=array(inner(a="long")), m=entry)
    value = {"o": {"a": 1, "b": 1}, "l": [{"c": "x"}, {"d": 1}], "m": {"k": {"e": [1]}}}
    found = reader(known).grown(payloads(value))
    assert shape(found) == {
        "o": {"a": "long", "b": "long"},
        "l": [{"a": "long", "c": "string", "d": "long"}],
        "m": {"*": {"a": "long", "e": ["long"]}},
    }
    again = reader(found).decode(payloads(value))
    assert again.rescued is not None and again.rescued.to_pylist() == [None]


def test_what_says_nothing_adds_nothing_and_asks_nothing() -> None:
    known = struct(n="long")
    texts = payloads(
        {"n": "x"}, {"a": None}, {"a": []}, {"a": {}}, {"a": [{"b": None}]}, b"broken", b'{"\\ud800":1}'
    )
    assert reader(known).grown(texts) == known
    decoded = reader(known).decode(texts)
    assert decoded.beyond.tolist() == []
    assert decoded.rescued is not None
    assert decoded.rescued.to_pylist() == [
        '{"n":"x"}',
        None,
        '{"a":[]}',
        '{"a":{}}',
        '{"a":[{"b": null}]}',
        '{"\\ud800":1}',
    ]


@settings(max_examples=examples(75), suppress_health_check=list(HealthCheck))
@given(st.lists(st.dictionaries(NAMES, ANYTHING, max_size=3), min_size=1, max_size=4))
def test_a_grown_schema_lacks_nothing_that_was_asked_for(values: list[dict[str, Any]]) -> None:
    known = struct(a="long", o=inner(b="long"))
    texts = payloads(*values)
    found = reader(known).grown(texts)
    assert (found != known) == bool(len(reader(known).decode(texts).beyond))
    after = reader(found).decode(texts)
    assert after.beyond.tolist() == [] and not after.failures
    assert reader(found).grown(texts) == found


def test_a_full_schema_asks_for_no_more() -> None:
    wide = {f"k{number}": 1 for number in range(MAX_LEAVES + 100)}
    found = reader(struct(n="long")).grown(payloads(wide))
    assert len(arrow_schema(found.text)) == MAX_LEAVES
    decoded = reader(found).decode(payloads(wide))
    assert decoded.beyond.tolist() == []
    assert decoded.rescued is not None and len(json.loads(decoded.rescued[0].as_py())) == 101


def test_a_record_with_names_made_of_data_keeps_no_other_out() -> None:
    values: list[Any] = [{"n": 1, "a": 1}, {f"k{number}": 1 for number in range(9)}, {"o": {"b": 1}}]
    found = reader(struct(n="long")).grown(payloads(*values), 4)
    assert shape(found) == {"n": "long", "a": "long", "o": {"b": "long"}}
    # Another one that takes all the room that is left comes after those that need less.
    found = reader(struct(n="long")).grown(payloads({"x": 1, "y": 1, "z": 1}, *values), 4)
    assert shape(found) == {"n": "long", "a": "long", "o": {"b": "long"}}
    alone = reader(struct(n="long"))
    assert alone.grown(payloads(values[1]), 9).text == struct(n="long").text
    assert len(shape(alone.grown(payloads(values[1]), 10))) == 10


@settings(max_examples=examples(50), suppress_health_check=list(HealthCheck))
@given(st.lists(st.dictionaries(NAMES, ANYTHING, max_size=3), min_size=1, max_size=5), st.integers(0, 12))
def test_a_schema_grows_to_no_more_fields_than_it_may(values: list[dict[str, Any]], most: int) -> None:
    known_text = struct(a="long", o=inner(b="long")).text
    known = reader(struct(a="long", o=inner(b="long")))
    found = known.grown(payloads(*values), most)
    assert fields_in(arrow_schema(found.text)) <= max(most, fields_in(known.schema))
    alone = [known.grown(payloads(one)) for one in values]
    fits = [one for one in alone if one.text != known_text and fields_in(arrow_schema(one.text)) <= most]
    assert (found.text != known_text) == bool(fits)
    assert known.grown(payloads(*values), 1000) == known.grown(payloads(*values))


def test_merging_widens_and_keeps_the_first_ones_order() -> None:
    one = struct(z="long", a="long", o=inner(x="long"), l=array("long"), s="integer", t="date")
    other = struct(
        b="boolean", a="double", z="boolean", o=inner(y="string"), l=array("string"), s="long", t="timestamp"
    )
    assert shape(JsonCodec().merged([one, other])) == {
        "z": "string",
        "a": "double",
        "o": {"x": "long", "y": "string"},
        "l": ["string"],
        "s": "long",
        "t": "timestamp",
        "b": "boolean",
    }
    assert list(shape(JsonCodec().merged([one, other]))) == ["z", "a", "o", "l", "s", "t", "b"]


def test_merging_with_nothing_new_leaves_the_text_to_the_letter() -> None:
    one = struct(a="long", o=inner(x="long"))
    assert JsonCodec().merged([one, struct(o=inner(x="long"))]) is one
    assert JsonCodec().merged([one, struct(a="integer")]) is one


_TYPES = st.recursive(
    st.sampled_from(
        [pa.int32(), pa.int64(), pa.float64(), pa.string(), pa.bool_(), pa.decimal128(20, 0), pa.date32()]
    ),
    lambda of: (
        of.map(pa.list_)
        | st.dictionaries(NAMES, of, min_size=1, max_size=2).map(lambda found: pa.struct(list(found.items())))
    ),
    max_leaves=4,
)


@given(_TYPES, _TYPES)
def test_merging_ends_and_does_not_depend_on_who_is_first(one: pa.DataType, other: pa.DataType) -> None:
    both = merged(one, other)
    assert merged(both, one) == merged(both, other) == both
    assert {field.name for field in _fields(both)} == {field.name for field in _fields(merged(other, one))}


def _fields(of: pa.DataType) -> list[pa.Field]:
    return list(of) if pa.types.is_struct(of) else []


@pytest.mark.parametrize(
    "text",
    ["", "{}", "[]", "null", '{"type":"array"}', '{"type":"struct"}', '{"type":"struct","fields":[{"name":"a","type":"interval"}]}',
     '{"type":"struct","fields":[{"name":"a","type":"long"},{"name":"a","type":"long"}]}', '{"type":"struct","fields":[{"name":1,"type":"long"}]}',
     "[" * 100_000],
)  # fmt: skip
def test_what_is_no_struct_type_is_refused(text: str) -> None:
    with pytest.raises(BadSchema):
        reader(Schema(0, "STRUCT", text))


def test_a_struct_type_survives_the_way_to_arrow_and_back() -> None:
    types = [
        "boolean",
        "byte",
        "short",
        "integer",
        "long",
        "float",
        "double",
        "string",
        "binary",
        "date",
        "timestamp",
        "timestamp_ntz",
        "decimal(10,2)",
    ]
    fields: dict[str, Any] = {f"f_{of}": of for of in types}
    known = struct(**fields, l=array(array("long")), o=inner(x="long"))
    back = replace(known, text=struct_json(arrow_schema(known.text)))
    assert json.loads(back.text) == json.loads(known.text)


LONG_NAME = "n" * 256


@pytest.mark.parametrize(
    "value",
    [{LONG_NAME: 1}, {"a": 1, LONG_NAME: {"b": 2}}, {LONG_NAME: [1]}, {"in": {LONG_NAME: 1}}],
)
def test_a_name_longer_than_any_column_s_is_data_and_lets_no_schema_grow(value: Any) -> None:
    known = reader(struct(a="long"))
    assert known.grown(payloads(value)) == struct(a="long")
    decoded = known.decode(payloads(value))
    assert not len(decoded.beyond)
    assert decoded.rescued is not None
    assert LONG_NAME in decoded.rescued[0].as_py()


def test_a_name_as_long_as_a_column_s_may_be_is_one() -> None:
    assert shape(reader(struct()).grown(payloads({LONG_NAME[1:]: 1, "o": {LONG_NAME: 1, "b": 2}}))) == {
        LONG_NAME[1:]: "long",
        "o": {"b": "long"},
    }


def test_what_has_such_a_name_in_a_schema_from_before_is_still_read() -> None:
    known = reader(struct(**{LONG_NAME: "long"}))
    assert known.decode(payloads({LONG_NAME: 5})).rows.to_pylist() == [{LONG_NAME: 5}]
