"""Paths of fields: whatever the names are, they can be told apart again."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from distributary.codecs.types.fields import part, parts

NAMES = st.text(st.sampled_from("a`. \n") | st.characters(exclude_categories=["Cs"]), max_size=6)


def test_only_a_name_that_would_be_mistaken_stands_in_backticks() -> None:
    assert [part(name) for name in ("level", "a b", "a.b", "a`b", "")] == [
        "level",
        "a b",
        "`a.b`",
        "`a``b`",
        "``",
    ]


@given(st.lists(NAMES, min_size=1, max_size=4))
def test_a_path_can_be_taken_apart_again(names: list[str]) -> None:
    assert parts(".".join(map(part, names))) == tuple(names)
