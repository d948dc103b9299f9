"""Patterns of names: what fits them, held against a plain model, and which patterns leave nothing to others."""

from __future__ import annotations

import re
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples

from distributary.ingest.settings.patterns import Pattern

LETTERS = "ab"
# As long as the longest text by which two of the globs below differ.
NAMES = [
    "".join(letters) + more
    for length in range(6)
    for letters in product(LETTERS, repeat=length)
    for more in ("", "c")
]
GLOBS = st.text("ab*?", min_size=1, max_size=4)


def model(glob: str, name: str) -> bool:
    parts = {"*": "[\\s\\S]*", "?": "[\\s\\S]"}
    expression = "".join(parts.get(character, re.escape(character)) for character in glob)
    return re.fullmatch(expression, name) is not None


@settings(max_examples=examples(200), deadline=None)
@given(GLOBS, st.text("abc\n*?é", max_size=8))
def test_a_glob_fits_what_it_says_and_nothing_else(glob: str, name: str) -> None:
    assert Pattern(glob, folds=False).fits(name) == model(glob, name)


@settings(max_examples=examples(100), deadline=None)
@given(GLOBS, GLOBS, st.booleans())
def test_a_glob_covers_another_where_each_name_of_that_fits_it(wide: str, narrow: str, folds: bool) -> None:
    found = Pattern(wide, folds).covers(Pattern(narrow, folds))
    assert found == all(model(wide, name) for name in NAMES if model(narrow, name))


@settings(max_examples=examples(100), deadline=None)
@given(st.text("Aa.*?+^$\\[]b", max_size=5), st.text("Aab*?.", min_size=1, max_size=4), st.booleans())
def test_whatever_an_expression_is_told_to_cover_fits_it(expression: str, other: str, folds: bool) -> None:
    wide, narrow = Pattern(f"/{expression}/", folds), Pattern(other, folds)
    if wide.refusal():
        return
    for one, two in ((wide, narrow), (narrow, wide)):
        if one.covers(two):
            assert all(one.fits(name) for name in [*NAMES, "A", "aA", ".", "*"] if two.fits(name))


@pytest.mark.parametrize(
    ("pattern", "name", "fits"),
    [
        ("quest", "Quest", True),
        ("QUEST_*", "quest_of_dragons", True),
        ("/^quest/", "Quest of dragons", True),
        ("/dragons$/", "quest of\ndragons", True),
        ("/a.c/", "xa\ncx", True),
        ("/[A-Z]/", "chess", True),
        ("*", "", True),
        ("a.c", "abc", False),
        ("[ab]", "a", False),
        ("/", "/", True),
        ("STRASSE", "straße", True),
        ("?", "\ud800", True),
    ],
)
def test_names_that_differ_by_case_fit_alike_where_that_makes_no_other_table(
    pattern: str, name: str, fits: bool
) -> None:
    assert Pattern(pattern, folds=True).fits(name) == fits


@pytest.mark.parametrize(("pattern", "name"), [("Quest", "quest"), ("Q*", "quest"), ("/Q/", "quest")])
def test_names_that_differ_by_case_fit_each_their_own_where_tables_differ(pattern: str, name: str) -> None:
    assert not Pattern(pattern, folds=False).fits(name)


@pytest.mark.parametrize(
    ("wide", "narrow", "covers"),
    [
        ("*", "/x+|y/", True),
        ("/.*/", "/x+|y/", True),
        ("quest_*", "/^quest_[0-9]+$/", False),  # it does, and nobody can tell
        ("quest_*", "/^quest_.*$/", True),
        ("quest_*", "/^quest_/", True),
        ("/quest/", "*quest*", True),
        ("/q\\.t/", "*q.t", True),
        ("/^q?/", "a", True),
        ("quest_*", "quest*", False),
        ("*a" + "?" * 40, "*b" + "?" * 40, False),  # told within bounded time
    ],
)
def test_expressions_that_are_globs_in_other_words_are_seen_through(
    wide: str, narrow: str, covers: bool
) -> None:
    assert Pattern(wide, folds=True).covers(Pattern(narrow, folds=True)) == covers


def test_an_expression_takes_no_time_without_end() -> None:
    assert not Pattern("/^(a+)+$/", folds=True).fits("a" * 20_000 + "b")
