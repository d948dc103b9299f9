"""What no column took of a record: of it only that lands which the rule lets land."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from tests.ingest.reshaping.test_shape import SCHEMA, rule

from distributary.ingest.reshaping.leftovers import let_land


def left(text: str | None, **said: Any) -> str | None:
    found = let_land(rule(**said), SCHEMA, pa.array([text, "{}"], pa.string()))
    return None if found is None else found.to_pylist()[0]


@pytest.mark.parametrize(
    ("said", "text", "expected"),
    [
        ({"leave": ["x"]}, '{"x":1,"y":2}', '{"y":2}'),
        ({"leave": ["x"]}, '{"X":1}', None),
        ({"leave": ["x.y"]}, '{"x":{"y":1},"z":1}', '{"z":1}'),
        ({"leave": ["x"]}, '{"x.y":1,"xx":1}', '{"xx":1}'),
        ({"leave": ["x.y"]}, '{"`x.y`":1}', '{"`x.y`":1}'),
        ({"hash": ["id"]}, '{"id":"no number"}', None),
        ({"mask": {"contacts.phone": "x"}}, '{"contacts.0.phone":5,"contacts.1.kind":[1]}', '{"contacts.1.kind":[1]}'),
        # Whatever stands there is no struct, so that nobody knows what is in it.
        ({"mask": {"contacts.phone": "x"}}, '{"contacts":"+49","contacts.1":[5]}', None),
        ({"leave": ["attrs.pin"]}, '{"attrs.k.pin":"x","attrs.k.n":"x","attrs.k":7}', '{"attrs.k.n":"x"}'),
        ({"take": ["id", "customer.name"]}, '{"id":"x","new":1,"customer.name":1,"customer.new":1}', '{"id":"x","customer.name":1}'),
        ({"take": ["customer.name"]}, '{"customer":5}', None),
        ({"rename": {"customer": "who", "customer.name": "called"}}, '{"customer.name":1,"a":2}', '{"who.called":1,"a":2}'),
        ({"cast": {"id": "string"}}, '{"id":"x"}', '{"id":"x"}'),
        ({"leave": ["x"]}, '{"a":1.00000000000000000000001,"b":"\\u00e9 }","c":[{"d":{}}], "e" : 12345678901234567890123}',
         '{"a":1.00000000000000000000001,"b":"\\u00e9 }","c":[{"d":{}}],"e":12345678901234567890123}'),
        ({"leave": ["x"]}, f'{{"n":{"9" * 5000}}}', f'{{"n":{"9" * 5000}}}'),
        # Half of a surrogate pair, which JSON's escapes can spell and no text can hold.
        ({"leave": ["x"]}, '{"\\ud800":1,"x":2,"\\u00e9":"\\ud800"}', '{"\\ud800":1,"é":"\\ud800"}'),
        ({"leave": ["x"]}, '{"a":1,"x"', None),
        ({"leave": ["x"]}, None, None),
        ({}, "{}", None),
    ],
)  # fmt: skip
def test_what_is_left(said: dict[str, Any], text: str | None, expected: str | None) -> None:
    assert left(text, **said) == expected


def test_of_a_union_nothing_is_left_that_is_hidden_in_any_branch() -> None:
    person, firm = pa.struct([("name", pa.string())]), pa.struct([("vat", pa.string())])
    schema = pa.schema([("who", pa.struct([("member0", person), ("member1", firm)]))])
    text = pa.array(['{"who.member0.email":1,"who.member1.vat":2,"who.member1":{"email":3}}'])
    found = let_land(rule(leave=["who.email"]), schema, text)
    assert found is not None
    assert found.to_pylist() == ['{"who.member1.vat":2}']


def test_nor_where_the_whole_record_is_of_several_types() -> None:
    person, firm = pa.struct([("email", pa.string())]), pa.struct([("vat", pa.string())])
    schema = pa.schema([("value", pa.struct([("member0", person), ("member1", firm)]))])
    text = pa.array(['{"value.member0.email":1,"value.member1.vat":2}'])
    found = let_land(rule(leave=["email"]), schema, text)
    assert found is not None
    assert found.to_pylist() == ['{"value.member1.vat":2}']


def test_nothing_is_left_of_nothing() -> None:
    assert let_land(rule(leave=["x"]), SCHEMA, None) is None
    assert let_land(rule(leave=["x"]), SCHEMA, pa.nulls(3, pa.string())) is None
