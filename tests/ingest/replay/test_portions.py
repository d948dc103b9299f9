"""Portions have each record of what is to be replayed once, and about as many each, wherever the records lie."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any, cast

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from distributary.ingest.commit_log.entries import Batch, Standing
from distributary.ingest.quarantine.chosen import Chosen
from distributary.ingest.replay.places import between, count, of_rows
from distributary.ingest.replay.portions import Portion, Until, even_ranges, portions, until
from distributary.ingest.replay.raw_records import PLACE, PLACE_AND_TIME, RawRecords

NOON = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)

Triple = tuple[str, int, int]

triples = st.tuples(
    st.sampled_from(["a", "b"]),
    st.integers(0, 1),
    st.one_of(st.integers(0, 60), st.integers(10**9, 10**9 + 9)),
)


@dataclass(frozen=True)
class InMemory:
    """A file of raw records, which come a second after the other by their offsets."""

    records: list[Triple]
    gone: frozenset[int] = frozenset()

    @property
    def key(self) -> tuple[str, str]:
        return "", str(id(self))

    def rows(self) -> Iterator[tuple[pa.Table, pa.Array]]:
        rows: list[dict[str, Any]] = [
            dict(zip(PLACE_AND_TIME.names, (*one, NOON + timedelta(seconds=one[2])), strict=True))
            for one in self.records
        ]
        alive = pa.array([number not in self.gone for number in range(len(rows))], pa.bool_())
        yield pa.Table.from_pylist(rows, PLACE_AND_TIME), alive


def raw(*files: InMemory) -> RawRecords:
    return RawRecords(cast(Any, files))


def told(records: list[Triple], chosen: Chosen, end: Until, most: int) -> list[set[Triple]]:
    every = of_rows(next(InMemory(records).rows())[0], PLACE)
    found = [between(every, offsets) for offsets in portions(raw(InMemory(records)), chosen, end, most)]
    return [
        {(*partition, offset) for partition, offsets in one.items() for offset in offsets.tolist()}
        for one in found
    ]


@given(st.lists(triples, unique=True, max_size=80), st.integers(1, 30), st.integers(0, 70))
def test_each_record_before_the_end_is_in_one_portion(records: list[Triple], most: int, end: int) -> None:
    bound = Until({"a": {0: end}})
    found = told(records, Chosen(), bound, most)
    wanted = {one for one in records if one[2] < bound.of(*one[:2])}
    assert sum(map(len, found)) == len(wanted)
    assert set().union(*found) == wanted


def test_portions_are_about_as_large_as_they_may_be_and_partitions_come_along_together() -> None:
    records = [("a", number, offset) for number in range(2) for offset in range(100_000)]
    found = list(portions(raw(InMemory(records)), Chosen(), Until(), 20_000))
    every = of_rows(next(InMemory(records).rows())[0], PLACE)
    sizes = [count(between(every, offsets)) for offsets in found]
    assert len(sizes) == 10
    assert max(sizes) < 30_000
    assert all(set(offsets["a"]) == {0, 1} for offsets in found)


def test_where_files_end_there_portions_end_and_read_no_file_of_another() -> None:
    # As batches bring them: one partition is always a little ahead of the other.
    batches = [
        InMemory(
            [("a", number, first + offset) for number in range(2) for offset in range(1000 + 37 * number)]
        )
        for first in (0, 1037, 2074, 3111)
    ]
    read = raw(*batches)
    found = list(portions(read, Chosen(), Until(), 2037))
    mine = [[*cast(Any, read.within(offsets).files)] for offsets in found]
    assert mine == [[one] for one in batches]


@given(st.lists(st.lists(triples, unique=True, max_size=20), max_size=8), st.integers(1, 30))
def test_wherever_files_end_each_record_is_in_one_portion_that_reads_its_file(
    every: list[list[Triple]], most: int
) -> None:
    files = [InMemory(one) for one in every]
    read = raw(*files)
    found = [(one, cast(Any, read.within(one).files)) for one in portions(read, Chosen(), Until(), most)]
    for file in files:
        for topic, number, offset in file.records:
            mine = [
                of
                for one, of in found
                if (own := one.get(topic, {}).get(number)) and own[0] <= offset < own[1]
            ]
            assert [file in of for of in mine] == [True]


def test_what_is_marked_as_gone_or_not_chosen_makes_no_portion() -> None:
    file = InMemory([("a", 0, 1), ("a", 0, 2), ("b", 0, 3)], frozenset({0}))
    assert len(list(portions(raw(file), Chosen(topics=("a",)), Until(), 10))) == 1
    for chosen in (
        Chosen(topics=("c",)),
        Chosen(since=NOON + timedelta(seconds=9)),
        Chosen(until=NOON + timedelta(seconds=2)),
        Chosen(offsets=(4, None)),
        Chosen(offsets=(None, 2)),
        Chosen(place=(1, None)),
    ):
        assert not list(portions(raw(file), chosen, Until(), 10))
    assert not list(portions(raw(), Chosen(), Until(), 10))


@given(st.lists(triples, max_size=40), st.integers(1, 9))
def test_places_are_in_ranges_of_about_as_many_once_each(every: list[Triple], most: int) -> None:
    rows = pa.table(dict(zip(PLACE, map(list, zip(*every, strict=True)), strict=True))) if every else None
    found = list(even_ranges([] if rows is None else [of_rows(rows, PLACE)], most))
    mine = [
        [
            (topic, number, offset)
            for topic, number, offset in every
            if (own := one.get(topic, {}).get(number)) and own[0] <= offset < own[1]
        ]
        for one in found
    ]
    assert sorted(place for one in mine for place in one) == sorted(every)
    assert len(found) <= -(-len(every) // most)


def batch(number: int, first: int) -> Batch:
    so_far = Standing(ends={"a": {0: first}})
    offsets = {"a": {0: (first, first + 5)}}
    return Batch(number=number, id="", at="", so_far=so_far, start=0, offsets=offsets, decided={}, waits=())


def test_a_batch_that_is_not_in_all_its_tables_is_left_to_its_run() -> None:
    so_far = Standing(ends={"a": {0: 15}}, last=7)
    assert until(so_far, batch(7, 10), 7, alive=True).of("a", 0) == 15
    assert until(so_far, batch(7, 10), 6, alive=True).of("a", 0) == 10
    assert until(so_far, batch(7, 10), None, alive=False).of("a", 0) == 10
    # Of what the log does not name a run that is alive may just be reading the first.
    assert until(so_far, None, None, alive=True).of("b", 0) == 0
    assert until(so_far, None, None, alive=False).of("b", 0) > 10**18


@given(
    st.sampled_from([None, "keep", "quarantine"]),
    st.booleans(),
    st.integers(0, 9),
    st.sampled_from([(), ("g",)]),
)
def test_a_portion_is_the_same_behind_json(
    replaces: Any, rebuilt: bool, first: int, of: tuple[str, ...]
) -> None:
    chosen = Chosen(entities=of, since=NOON, place=(1, None), offsets=(first, None))
    portion = Portion({"a": {0: (first, 10)}}, chosen, rebuilt, replaces, untold=rebuilt)
    assert Portion.from_dict(portion.as_dict()) == portion


def test_a_portion_of_before_is_read_as_it_was_meant() -> None:
    told = {"offsets": {"a": {"0": [0, 9]}}, "chosen": {"place": [1, 5]}, "rebuilt": True}
    assert Portion.from_dict(told) == Portion({"a": {0: (0, 9)}}, Chosen(place=(1, 5)), rebuilt=True)
