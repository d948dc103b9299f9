from __future__ import annotations

import pytest
from tests.ingest.avro_records import GAME, event, one, pinned

from distributary.codecs.base import load_codec
from distributary.ingest.evolution.transitions import Transitions
from distributary.registry.base import Schema

LOGIN = event(1, GAME, one("int", "a"), name="Login")


@pytest.mark.parametrize(
    ("later", "is_one"),
    [
        (event(2, one("int", "x"), one("int", "y"), name="Login"), True),
        (event(2, one("int", "x"), one("int", "y"), name="Enter", aliases=["games.Login"]), True),
        (event(2, GAME, one("int", "a"), one("int", "b"), name="Enter"), True),
        (event(2, GAME, one("int", "x"), one("int", "y"), name="Buy"), False),
    ],
    ids=["same name", "alias", "most fields", "another event"],
)
def test_a_record_type_goes_on_by_name_alias_or_most_of_its_fields(later: Schema, is_one: bool) -> None:
    transitions = Transitions(load_codec("avro"), pinned(LOGIN, later))
    assert transitions.before((2, ()), ((1, ()),)) == ((1, ()) if is_one else None)


def test_the_last_of_the_same_type_counts_whatever_came_in_between() -> None:
    buy = event(2, one("int", "p"), name="Buy")
    again = event(3, GAME, one("long", "a"), name="Login")
    transitions = Transitions(load_codec("avro"), pinned(LOGIN, buy, again))
    assert transitions.before((3, ()), ((1, ()), (2, ()))) == (1, ())
    assert [change.kind for change in transitions.changes((1, ()), (3, ()))] == ["widened"]
    # What is pinned no more says nothing.
    assert transitions.before((3, ()), ((9, ()),)) is None
