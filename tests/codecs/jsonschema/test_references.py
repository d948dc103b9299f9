"""Where references of a JSON Schema lead: by the specification's scopes, alike for columns and for validation."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.codecs.jsonschema.test_codec import LONG, STRING, reader, record

from distributary.codecs.types.spark_struct import list_of
from distributary.errors import BadSchema

INTEGER = {"type": "integer"}
TEXT = {"type": "string"}
DRAFT_4 = "http://json-schema.org/draft-04/schema#"
DRAFT_7 = "http://json-schema.org/draft-07/schema#"
DRAFT_2019 = "https://json-schema.org/draft/2019-09/schema"


def column_of(schema: Any, **imports: Any) -> pa.DataType:
    """The type of the column x; its records can be checked, too."""
    reader(schema, imports, validate=True)
    return reader(schema, imports).schema.field("x").type


def test_an_id_within_a_document_is_a_base() -> None:
    schema = {
        "$id": "http://x/root.json",
        **record(x={"$ref": "nested/item.json"}),
        "$defs": {
            "item": {"$id": "http://x/nested/item.json", **record(n={"$ref": "n.json"})},
            "n": {"$id": "http://x/nested/n.json", **INTEGER},
        },
    }
    assert column_of(schema) == pa.struct([("n", LONG)])


def test_a_pointer_begins_at_the_nearest_id() -> None:
    inner = {"$id": "inner.json", **record(v={"$ref": "#/$defs/n"}), "$defs": {"n": INTEGER}}
    schema = {
        "$id": "http://x/root.json",
        **record(x={"$ref": "#/$defs/inner"}),
        "$defs": {"n": TEXT, "inner": inner},
    }
    assert column_of(schema) == pa.struct([("v", LONG)])


def test_an_anchor_is_of_the_nearest_id() -> None:
    defs = {"inner": {"$id": "inner.json", "$defs": {"n": {"$anchor": "here", **INTEGER}}}}
    root = {"$id": "http://x/root.json", "$defs": defs}
    assert column_of({**root, **record(x={"$ref": "inner.json#here"})}) == LONG
    for validate in (False, True):
        with pytest.raises(BadSchema, match="nothing at that place"):
            reader({**root, **record(x={"$ref": "#here"})}, validate=validate)


def test_what_only_looks_like_an_anchor_is_none() -> None:
    schema = record(x={"$ref": "#here"}, y={"examples": [{"$anchor": "here", **INTEGER}]})
    with pytest.raises(BadSchema, match="nothing at that place"):
        reader(schema)


@pytest.mark.parametrize(("word", "draft"), [("$id", DRAFT_7), ("id", DRAFT_4)])
def test_older_drafts_have_their_own_words(word: str, draft: str) -> None:
    schema = {
        "$schema": draft,
        word: "http://x/root.json",
        **record(x={"$ref": "n.json"}, y={"$ref": "#here"}),
        "definitions": {"n": {word: "n.json", **INTEGER}, "here": {word: "#here", **TEXT}},
    }
    found = reader(schema, validate=True).schema
    assert found == pa.schema([("x", LONG), ("y", STRING)])


def test_ids_that_some_generators_write_for_each_property_are_no_bases() -> None:
    schema = {
        "$id": "http://x/root.json",
        **record(x={"$id": "#/properties/x", "$ref": "#/$defs/n"}),
        "$defs": {"n": INTEGER},
    }
    assert reader(schema).schema.field("x").type == LONG


EACH_AN_ID = {
    "$schema": DRAFT_7,
    "$id": "http://x/root.json",
    **record(
        x={"$id": "/properties/x", **record(a={"$ref": "#/definitions/n"}, b={"$ref": "#/definitions/text"})}
    ),
    "definitions": {"n": INTEGER, "text": TEXT},
}


def test_a_pointer_that_leads_nowhere_from_the_nearest_id_begins_at_the_documents_root() -> None:
    assert column_of(EACH_AN_ID) == pa.struct([("a", LONG), ("b", STRING)])
    payloads = pa.array([b'{"x":{"a":1}}', b'{"x":{"b":2}}'], pa.binary())
    decoded = reader(EACH_AN_ID, validate=True).decode(payloads)
    assert decoded.rows.to_pylist() == [{"x": {"a": 1, "b": None}}]
    assert [(one.row, one.reason) for one in decoded.failures] == [(1, "invalid")]


def test_such_a_pointer_within_a_registry_reference_begins_at_that_ones_root() -> None:
    other = {**EACH_AN_ID, "$id": "http://y/other.json", "definitions": {"n": TEXT, "text": INTEGER}}
    schema = {**EACH_AN_ID, **record(x={"$ref": "http://y/other.json#/properties/x"})}
    assert column_of(schema, **{"other.json": other}) == pa.struct([("a", STRING), ("b", LONG)])


def test_what_is_at_the_nearest_id_comes_before_what_is_at_the_root() -> None:
    inner = {"$id": "/properties/x", **record(a={"$ref": "#/definitions/n"}), "definitions": {"n": TEXT}}
    assert column_of({**EACH_AN_ID, **record(x=inner)}) == pa.struct([("a", STRING)])


def test_a_pointer_that_leads_nowhere_from_either_is_said_as_it_was_written() -> None:
    inner = {"$id": "/properties/x", **record(a={"$ref": "#/definitions/far"})}
    for validate in (False, True):
        with pytest.raises(
            BadSchema, match="refers to '#/definitions/far', and there is nothing at that place"
        ):
            reader({**EACH_AN_ID, **record(x=inner)}, validate=validate)


def test_a_documents_own_id_is_known_beside_the_name_of_its_reference() -> None:
    other = {"$id": "http://y/deep/other.json", **record(n={"$ref": "n.json"})}
    schema = {"$id": "http://x/root.json", **record(x={"$ref": "other.json"})}
    assert column_of(schema, **{"other.json": other, "n.json": INTEGER}) == pa.struct([("n", LONG)])


@pytest.mark.parametrize(
    ("id_", "called", "reference"),
    [
        ("http://x/root.json", "http://x/root.json", "http://x/root.json"),
        ("http://x/root.json", "http://x/root.json", "root.json"),
        ("http://x/root.json", "root.json", "root.json"),
        ("http://x/root.json", "root.json", "http://x/root.json#"),
        ("root.json", "root.json", "root.json"),
        ("urn:example:root", "urn:example:root", "urn:example:root"),
    ],
)
@pytest.mark.parametrize("with_id", [False, True])
def test_a_registry_reference_that_is_called_by_the_schemas_own_id_is_what_its_name_says(
    id_: str, called: str, reference: str, with_id: bool
) -> None:
    price = {"$ref": "#/definitions/price"}
    imported = {**record(n=price), "definitions": {"price": TEXT}, **({"$id": id_} if with_id else {})}
    schema = {
        "$id": id_,
        **record(a=price, x={"$ref": reference}, y={"$ref": "#/definitions/deep"}),
        "definitions": {"price": INTEGER, "deep": record(n=price)},
    }
    for validate in (False, True):
        found = reader(schema, {called: imported}, validate).schema
        wanted = [("a", LONG), ("x", pa.struct([("n", STRING)])), ("y", pa.struct([("n", LONG)]))]
        assert found == pa.schema(wanted)
    payloads = [b'{"a":1,"x":{"n":"a"},"y":{"n":1}}', b'{"a":1,"x":{"a":1,"n":2}}']
    decoded = reader(schema, {called: imported}, validate=True).decode(pa.array(payloads, pa.binary()))
    assert decoded.source.tolist() == [0]


def test_what_is_beside_such_a_schema_stays_there() -> None:
    schema = {"$id": "http://x/y/root.json", **record(x={"$ref": "n.json"}, y={"$ref": "root.json"})}
    found = reader(schema, {"http://x/y/root.json": record(n=TEXT), "http://x/y/n.json": INTEGER}).schema
    assert found == pa.schema([("x", LONG), ("y", pa.struct([("n", STRING)]))])


LIST = {
    "$id": "http://x/list.json",
    "type": "array",
    "items": {"$dynamicRef": "#T"},
    "$defs": {"content": {"$dynamicAnchor": "T", "type": "string"}},
}


def test_documents_that_were_copied_with_their_id_keep_their_own_definitions() -> None:
    def document(price: Any, **properties: Any) -> Any:
        return {"$id": "http://x/root.json", **record(**properties), "definitions": {"price": price}}

    priced = {"$ref": "#/definitions/price"}
    common = document(TEXT, n=priced)
    of_both = {"a": priced, "x": {"$ref": "common.json"}}
    found = reader(document(INTEGER, **of_both), {"common.json": common}).schema
    assert [found.field(name).type for name in ("a", "x")] == [LONG, pa.struct([("n", STRING)])]
    one, two = document(INTEGER, n=priced), common
    both = reader(record(a={"$ref": "one.json"}, b={"$ref": "two.json"}), {"one.json": one, "two.json": two})
    assert [both.schema.field(name).type["n"].type for name in ("a", "b")] == [LONG, STRING]
    alone = {**document(TEXT, x={"$ref": "#/definitions/mine"}), "definitions": {"mine": INTEGER}}
    assert column_of(alone, **{"common.json": common}) == LONG


def test_a_dynamic_reference_leads_to_the_outermost_anchor_of_its_name() -> None:
    assert column_of(record(x={"$ref": "http://x/list.json"}), **{"list.json": LIST}) == list_of(STRING)
    numbers = {
        "$id": "http://x/numbers.json",
        "$ref": "list.json",
        "$defs": {"number": {"$dynamicAnchor": "T", **INTEGER}},
    }
    schema = record(x={"$ref": "http://x/numbers.json"})
    assert column_of(schema, **{"list.json": LIST, "numbers.json": numbers}) == list_of(LONG)


def test_a_recursive_reference_leads_to_its_own_document() -> None:
    tree = {
        "$schema": DRAFT_2019,
        "$id": "http://x/tree.json",
        **record(n=INTEGER),
        "$defs": {"pair": record(one={"$recursiveRef": "#"})},
    }
    schema = {"$schema": DRAFT_2019, **record(x={"$ref": "tree.json#/$defs/pair"})}
    assert column_of(schema, **{"tree.json": tree}) == pa.struct([("one", pa.struct([("n", LONG)]))])


def test_words_of_another_draft_are_no_references() -> None:
    assert column_of({"$schema": DRAFT_7, **record(x={"$dynamicRef": "#none", **INTEGER})}) == LONG


@pytest.mark.parametrize("draft", ["http://json-schema.org/draft-03/schema#", DRAFT_4, DRAFT_7, DRAFT_2019])
@pytest.mark.parametrize("odd", [True, False, None, 3, "string", [TEXT]])
def test_what_is_no_schema_of_its_draft_is_a_column_of_text(odd: Any, draft: str) -> None:
    found = reader({"$schema": draft, **record(x=odd, y=INTEGER)}).schema
    assert found == pa.schema([("x", STRING), ("y", LONG)])


def test_a_schema_within_may_be_of_an_older_draft() -> None:
    assert column_of(record(x={"$schema": DRAFT_4, **record(a=True)})) == pa.struct([("a", STRING)])


@pytest.mark.parametrize(
    "odd",
    [
        pytest.param({"type": "array", "items": [TEXT, INTEGER]}, id="a list of items"),
        pytest.param({"$id": 7, **TEXT}, id="an id that is no text"),
        pytest.param({"$id": "http://[bad", **TEXT}, id="an id that is no URL"),
        pytest.param({"allOf": [3, None]}, id="no schemas"),
        pytest.param({"properties": None}, id="no properties"),
        pytest.param({"items": 3, "prefixItems": 3}, id="no items"),
        pytest.param({"allOf": {}, "oneOf": 3}, id="no list of schemas"),
        pytest.param({"$defs": [], "definitions": {"a": None}}, id="no definitions"),
        pytest.param({"$schema": DRAFT_7, "dependencies": []}, id="no dependencies"),
        pytest.param({"$schema": 7, **TEXT}, id="a draft that is no text"),
        pytest.param({"$schema": DRAFT_4, **record(a=True)}, id="no schema of another draft"),
        pytest.param({"$anchor": [], "$dynamicAnchor": {}, **TEXT}, id="anchors that are no text"),
    ],
)
def test_what_is_odd_elsewhere_hides_no_anchor_and_no_id(odd: Any) -> None:
    schema = {
        "$id": "http://x/root.json",
        **record(x={"$ref": "#here"}, y={"$ref": "n.json"}, z=odd),
        "$defs": {"here": {"$anchor": "here", **INTEGER}, "n": {"$id": "n.json", **INTEGER}},
    }
    found = reader(schema).schema
    assert (found.field("x").type, found.field("y").type) == (LONG, LONG)


def test_an_anchor_may_be_in_a_list_of_items() -> None:
    tuple_ = {"type": "array", "items": [{"$anchor": "here", **INTEGER}]}
    assert reader(record(x={"$ref": "#here"}, y=tuple_)).schema.field("x").type == LONG


def test_a_reference_of_an_older_draft_hides_no_anchor() -> None:
    other = {"$schema": DRAFT_4, **record(n=INTEGER), "definitions": {"odd": True, "id": {"id": 7}}}
    schema = {**record(x={"$ref": "#here"}), "$defs": {"here": {"$anchor": "here", **INTEGER}}}
    assert column_of(schema, **{"other.json": other}) == LONG


@pytest.mark.parametrize(("word", "draft"), [("$id", DRAFT_7), ("id", DRAFT_4)])
def test_an_older_drafts_anchors_and_ids_may_be_under_the_newer_word_for_definitions(
    word: str, draft: str
) -> None:
    schema = {
        "$schema": draft,
        word: "http://x/root.json",
        **record(x={"$ref": "#here"}, y={"$ref": "n.json"}),
        "$defs": {"here": {word: "#here", **INTEGER}, "n": {word: "n.json", **TEXT}, "odd": 3},
    }
    for validate in (False, True):
        assert reader(schema, validate=validate).schema == pa.schema([("x", LONG), ("y", STRING)])


@pytest.mark.parametrize("here", [{"$anchor": "here"}, {"id": "#here"}])
def test_words_of_another_draft_are_no_anchors(here: Any) -> None:
    schema = {**record(x={"$ref": "#here"}), "definitions": {"here": {**here, **INTEGER}}}
    with pytest.raises(BadSchema, match="nothing at that place"):
        reader({"$schema": DRAFT_7, **schema})


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        ("http://example.com/a.json", "neither within it nor among its registry references"),
        ("b.json#/a", "never fetched from a URL"),
        ("#/properties/y", "nothing at that place"),
        ("#/properties/x/type/far", "nothing at that place"),
        ("#/required/first", "nothing at that place"),
        ("#far", "nothing at that place"),
        ("http://[bad", "neither within it"),
        (7, "is no text"),
    ],
)
def test_a_reference_that_leads_nowhere_is_said(reference: Any, said: str) -> None:
    schema = {**record(x={"type": ["null"], "allOf": [{"$ref": reference}]}), "required": ["x"]}
    with pytest.raises(BadSchema, match=said):
        reader(schema)


# What a keyword may hold by mistake, whatever the keyword; none of it is an anchor or an id.
ODD: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, 3, [], [3], [None], {}, {"a": 3}, {"a": None}, {"a": []}]
)

OF_SCHEMAS = ["additionalItems", "additionalProperties", "contains", "contentSchema", "else", "if", "items", "not", "propertyNames",
    "then", "unevaluatedItems", "unevaluatedProperties", "allOf", "anyOf", "oneOf", "prefixItems", "$defs", "definitions", "dependencies",
    "dependentSchemas", "patternProperties", "properties", "extends"]  # fmt: skip
OF_IDENTITY = ["$id", "id", "$anchor", "$dynamicAnchor", "$schema"]
OF_VALUES = [
    "type",
    "enum",
    "const",
    "required",
    "title",
    "format",
    "pattern",
    "minimum",
    "$comment",
    "default",
]

WRONG = st.dictionaries(st.sampled_from([*OF_SCHEMAS, *OF_IDENTITY, *OF_VALUES]), ODD, max_size=5)


@given(
    wrong=st.tuples(WRONG, WRONG, WRONG, WRONG), draft=st.sampled_from([None, DRAFT_4, DRAFT_7, DRAFT_2019])
)
def test_references_lead_where_they_did_whatever_keywords_are_wrong_elsewhere(
    wrong: tuple[Any, ...], draft: str | None
) -> None:
    of_draft = {"$schema": draft} if draft else {}
    id_ = "id" if draft == DRAFT_4 else "$id"
    here = {"$anchor": "here"} if draft in (None, DRAFT_2019) else {id_: "#here"}
    dynamic = {"t": {"$dynamicAnchor": "T", **INTEGER}} if draft is None else {}
    schema = {
        # What is said already stays: only what is not is said wrongly.
        **wrong[0],
        **of_draft,
        id_: "http://x/root.json",
        **record(a={"$ref": "#here"}, b={"$ref": "n.json"}, c={"$ref": "other.json#here"}, odd=wrong[1]),
        "definitions": {
            "odd": wrong[2],
            "n": {id_: "n.json", **INTEGER},
            "here": {**here, **INTEGER},
            **dynamic,
        },
    }
    if dynamic:
        schema["properties"]["d"] = {"$dynamicRef": "#T"}
    other = {**wrong[3], **of_draft, id_: "http://y/other.json", "definitions": {"here": {**here, **INTEGER}}}
    found = reader(schema, {"other.json": other}).schema
    assert [found.field(name).type for name in "abcd" if name in found.names] == [LONG] * (3 + len(dynamic))


NAMES = st.sampled_from([*OF_SCHEMAS, *OF_IDENTITY, *OF_VALUES, "$ref", "$dynamicRef", "$recursiveRef", "a"])

LEAVES = st.one_of(
    ODD, st.sampled_from(["a", "#", "#a", "object", "integer", "array", DRAFT_4, DRAFT_2019, "http://[bad"])
)

ANY = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=25,
)


@given(
    words=st.dictionaries(NAMES, ANY, max_size=4),
    properties=st.dictionaries(NAMES, ANY, max_size=4),
    validate=st.booleans(),
)
def test_a_schema_is_understood_or_refused_in_one_sentence(
    words: Any, properties: Any, validate: bool
) -> None:
    try:
        reader({**record(**properties), **words}, {"a": words}, validate=validate)
    except BadSchema as error:
        assert str(error) and "\n" not in str(error)
