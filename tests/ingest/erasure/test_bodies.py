"""What had no place in a column counts as if it had: a condition is true of it, or not, or nobody can tell."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from distributary.ingest.columns.layout import SOURCE
from distributary.ingest.erasure.as_it_was import AsItWas
from distributary.ingest.erasure.bodies import Rows
from distributary.ingest.routing.as_said import met_as_it_was
from distributary.ingest.routing.conditions import ReadCondition
from distributary.ingest.routing.tree import Call, Field, Literal

WIDE = 3_000_000_000
SEVEN = ReadCondition(Call("=", (Field(("who", "id")), Literal(WIDE))))
WHO = pa.struct([("id", pa.int32()), ("name", pa.string())])


def met(said: Any, who: Any = None, condition: ReadCondition = SEVEN) -> tuple[bool, int]:
    text = said if isinstance(said, str) or said is None else json.dumps(said)
    rows = pa.RecordBatch.from_arrays(
        [pa.array([who], WHO), pa.array([text], pa.string())], names=["Who", "_rescued_data"]
    )
    which = Rows(condition, "_rescued_data")
    return bool(which.met(rows)[0]), which.unread


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (None, (False, 0)),
        ({"who.id": WIDE}, (True, 0)),
        ({"Who.ID": WIDE}, (True, 0)),
        ({"who": {"id": WIDE, "more": [1, "x"]}}, (True, 0)),
        ({"who.id": WIDE + 1}, (False, 0)),
        ({"who.name": 7, "id": WIDE}, (False, 0)),
        # Of another type nobody can tell, nor of what is in it.
        ({"who.id": str(WIDE)}, (False, 1)),
        ({"who.id": 2**70}, (False, 1)),
        ({"who": "x"}, (False, 1)),
        ({"who.id.more": 7}, (False, 1)),
        ("{", (False, 0)),
    ],
)
def test_what_had_no_place_is_looked_into(said: Any, expected: tuple[bool, int]) -> None:
    assert met(said) == expected
    assert met(said, {"id": 1, "name": "x"}) == expected


FAR = pa.array([1_764_000_000_000_000_000], pa.timestamp("us", "UTC"))


@pytest.mark.parametrize(
    "said", ['{"`full.name`": "ann"}', '{"who.`full.name`": "ann"}', '{"who": {"full.name": "ann"}}']
)
def test_what_had_no_place_has_its_records_names(said: str) -> None:
    """It stayed where Delta has the column by another one, and nothing said so."""
    own = pa.field("full_name_1", pa.string(), metadata={SOURCE: b"full.name"})
    layout = pa.schema([own, ("who", pa.struct([own])), ("_rescued_data", pa.string())])
    rows = pa.RecordBatch.from_pylist([{"_rescued_data": said}], layout)
    path = ("who", "full_name_1") if "who" in said else ("full_name_1",)
    condition = ReadCondition(Call("=", (Field(path), Literal("ann"))))
    assert Rows(condition, "_rescued_data", was=AsItWas.of(layout, None)).met(rows).tolist() == [True]


def test_a_time_in_a_year_that_python_lacks_keeps_nobody_from_looking() -> None:
    text = pa.array([json.dumps({"who.id": WIDE})])
    rows = pa.RecordBatch.from_pydict(
        {"born": FAR, "who": pa.array([None], WHO), "_rescued_data": text, "__before": pa.array(["{}"])}
    )
    which = Rows(SEVEN, "_rescued_data")
    assert (which.met(rows).tolist(), which.unread) == ([True], 0)
    # Where the condition names it nobody can tell.
    both = ReadCondition(Call("and", (SEVEN.tree, Call("=", (Field(("born",)), Field(("born",)))))))
    which = Rows(both, "_rescued_data")
    assert (which.met(rows).tolist(), which.unread) == ([False], 1)


def test_a_row_says_the_rest() -> None:
    both = ReadCondition(Call("and", (SEVEN.tree, Call("=", (Field(("who", "name")), Literal("ann"))))))
    assert met({"who.id": WIDE}, {"id": None, "name": "ann"}, both) == (True, 0)
    assert met({"who.id": WIDE}, {"id": None, "name": "bob"}, both) == (False, 0)


def test_a_table_without_such_a_column_is_known_by_its_others() -> None:
    rows = pa.RecordBatch.from_pydict({"who": pa.array([{"id": WIDE}])})
    assert Rows(SEVEN).met(rows).tolist() == [True]


@pytest.mark.parametrize(
    "was",
    [
        pa.array([{"who": {"id": WIDE}}, {"who": {"id": 1}}, None, {"who": None}]),
        pa.array([json.dumps({"Who": {"id": WIDE, "x": 1}}), '{"who": {"id": 1}}', None, "[7]"]),
        # Those of another type are looked at by themselves.
        pa.array([json.dumps({"who": {"id": WIDE}}), '{"who": {"id": 2.5}}', None, '{"who": "x"}']),
    ],
    ids=["whole", "as text", "at odds"],
)
def test_a_row_of_which_a_change_keeps_how_it_was_is_meant_by_that_too(was: pa.Array) -> None:
    """Whoever makes a person's row anonymous sends such a change."""
    who = pa.array(
        [None, {"id": 3, "name": "x"}, {"id": WIDE, "name": "x"}, None],
        pa.struct([("id", pa.int64()), ("name", pa.string())]),
    )
    rows = pa.RecordBatch.from_arrays([who, was, pa.array([1, 2, 3, 4])], ["Who", "__before", "n"])
    which = Rows(SEVEN)
    assert which.met(rows).tolist() == [True, False, True, False]
    assert which.unread == (was[3].as_py() == '{"who": "x"}')
    both = ReadCondition(Call("and", (SEVEN.tree, Call("=", (Field(("n",)), Literal(2))))))
    assert Rows(both).met(rows).tolist() == [False] * 4


@pytest.mark.parametrize("name", ["straße", "οδος", "\u00b5m", "STRASSE"])
def test_a_row_as_it_was_is_found_by_names_that_are_folded_in_several_ways(name: str) -> None:
    """Such as a sharp s: the field was there by a name by which the condition did not look for it, and the row stayed."""
    condition = ReadCondition(Call("=", (Field((name,)), Literal("x"))))
    for said in (name, name.lower()):
        was = [json.dumps({said: "x"}), json.dumps({said: "y"}), "{}"]
        rows = pa.RecordBatch.from_pydict({name: ["y", "x", None], "__before": was})
        met, unknown = met_as_it_was(condition, rows)
        assert met.tolist() == [True, False, False]
        assert not unknown.any()


def test_keys_are_meant_whatever_their_rows_say() -> None:
    rows = pa.RecordBatch.from_pydict({"key": [b"a", b"b", None], "_rescued_data": ["{}", None, None]})
    assert Rows(None, None, ("key",), frozenset([b"a"])).met(rows).tolist() == [True, False, False]
    assert Rows(SEVEN, "_rescued_data", ("key",), frozenset([b"b"])).met(rows).tolist() == [
        False,
        True,
        False,
    ]


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"__before.who.id": WIDE}, ([True], 0)),
        ({"__before.Who.ID": WIDE}, ([True], 0)),
        ({"__before": {"who": {"id": WIDE}}}, ([True], 0)),
        ({"__before.who.id": WIDE + 1}, ([False], 0)),
        ({"__before.who.name": 7}, ([False], 0)),
        ({"__before.who.id": "x"}, ([False], 1)),
    ],
)
@pytest.mark.parametrize("was", [None, {"who": {"id": None, "name": "ann"}}])
def test_what_had_no_place_in_a_row_as_it_was_is_looked_into_too(said: Any, expected: Any, was: Any) -> None:
    """Otherwise a row stays by whose earlier image alone a person is known, of which the value did not fit the column."""
    rows = pa.RecordBatch.from_arrays(
        [
            pa.array([{"id": 3, "name": "gone"}], WHO),
            pa.array([was], pa.struct([("who", WHO)])),
            pa.array([json.dumps(said)]),
        ],
        ["who", "__before", "_rescued_data"],
    )
    which = Rows(SEVEN, "_rescued_data")
    assert (which.met(rows).tolist(), which.unread) == expected


def test_it_is_found_by_the_name_that_the_table_has_for_it() -> None:
    where = ReadCondition(Call("=", (Field(("mail",)), Literal("ann@x"))))
    rows = pa.RecordBatch.from_pydict(
        {
            "mail": ["none"],
            "__before": pa.array([None], pa.struct([("e-mail", pa.int32())])),
            "_rescued_data": ['{"__before.e-mail":"ann@x"}'],
        }
    )
    columns = pa.schema([("mail", pa.string()), *list(rows.schema)[1:]])
    was = AsItWas(("__before",), list(columns), {("e-mail",): "mail"})
    table = [columns.field(0).with_metadata({b"distributary.source": b"mail"}), *list(columns)[1:]]
    assert Rows(where, "_rescued_data", was=replace(was, table=table)).met(rows).tolist() == [True]
