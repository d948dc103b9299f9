"""Sets of records by their places, held against plain sets of triples."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from distributary.ingest.replay import places
from distributary.ingest.replay.places import Places

Triple = tuple[str, int, int]

NAMES = ("topic", "partition", "offset")

KINDS = (pa.string(), pa.int32(), pa.int64())

triples = st.tuples(
    st.sampled_from(["a", "b", "ü"]), st.integers(0, 2), st.one_of(st.integers(0, 30), st.just(2**40))
)

several = st.lists(triples, max_size=40)


def as_rows(some: Iterable[Triple | tuple[None, None, None]]) -> pa.Table:
    columns = list(zip(*some, strict=True)) or [(), (), ()]
    return pa.table(
        [pa.array(list(one), kind) for one, kind in zip(columns, KINDS, strict=True)], list(NAMES)
    )


def made(some: Iterable[Triple]) -> Places:
    return places.of_rows(as_rows(some), NAMES)


def told(some: Places) -> set[Triple]:
    found = [(*partition, offset) for partition, offsets in some.items() for offset in offsets.tolist()]
    assert len(set(found)) == len(found)
    assert all(len(offsets) and (np.diff(offsets) > 0).all() for offsets in some.values())
    return set(found)


@given(several, several)
def test_they_are_joined_left_out_and_met_as_sets_are(one: list[Triple], other: list[Triple]) -> None:
    mine, others = made(one), made(other)
    assert told(mine) == set(one)
    assert places.count(mine) == len(set(one))
    assert told(places.joined([mine, others])) == set(one) | set(other)
    assert told(places.without(mine, others)) == set(one) - set(other)
    assert told(places.within(mine, others)) == set(one) & set(other)


@given(several)
def test_they_are_the_same_behind_json(some: list[Triple]) -> None:
    assert told(places.from_json(places.to_json(made(some)))) == set(some)


@given(several, several)
def test_rows_are_from_them_or_not(rows: list[Triple], some: list[Triple]) -> None:
    found = places.are_in(as_rows(rows), NAMES, made(some))
    assert found.to_pylist() == [one in set(some) for one in rows]


def test_a_row_that_lacks_a_place_is_none_of_them() -> None:
    rows = as_rows([("a", 0, 1), (None, None, None)])
    assert told(places.of_rows(rows, NAMES)) == {("a", 0, 1)}
    assert places.are_in(rows, NAMES, made([("a", 0, 1)])).to_pylist() == [True, False]


def test_rows_keep_their_order_and_come_as_often_as_they_are_there() -> None:
    rows = as_rows([("a", 0, 2), ("a", 1, 7), ("a", 0, 1), ("a", 0, 2)])
    found = places.split(*(rows[name] for name in NAMES))
    assert {partition: offsets.tolist() for partition, offsets in found.items()} == {
        ("a", 0): [2, 1, 2],
        ("a", 1): [7],
    }


@given(several, st.integers(0, 31), st.integers(0, 31))
def test_a_range_has_its_first_and_not_its_end(some: list[Triple], first: int, end: int) -> None:
    found = places.between(made(some), {"a": {0: (first, end)}})
    assert told(found) == {one for one in some if one[:2] == ("a", 0) and first <= one[2] < end}


@given(several, several)
def test_what_is_passed_by_is_all_but_the_wanted_in_as_few_stretches_as_can_be(
    every: list[Triple], wanted: list[Triple]
) -> None:
    mine = set(every) & set(wanted)
    stretches = places.passed_by(made(every), made(mine))
    found = [
        (topic, number, first, end)
        for topic, ranges in stretches.items()
        for number, spans in ranges.items()
        for first, end in spans
    ]

    def is_passed(one: Triple) -> bool:
        return any(
            one[:2] == (topic, number) and first <= one[2] < end for topic, number, first, end in found
        )

    assert {one for one in every if is_passed(one)} == set(every) - mine
    edges = 0
    for partition in {one[:2] for one in every}:
        flags = [one in mine for one in sorted(set(every)) if one[:2] == partition]
        edges += sum(not flag and (not at or flags[at - 1]) for at, flag in enumerate(flags))
    assert len(found) == edges
