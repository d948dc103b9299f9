"""Offsets are counted as a plain dictionary would count them, wherever they lie."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples

from distributary.producer_sim.verify.coverage import BLOCK, Coverage

# Machines that run tests are busy: time says nothing here.
QUICK = settings(deadline=None, max_examples=examples(25))

HERE = ("topic", 3)
# Close together, so that they meet, and around the edges of blocks.
OFFSETS = st.sampled_from([0, 5 * BLOCK, 10**12]).flatmap(
    lambda base: st.integers(max(0, base - 3), base + 3)
)
LISTS = st.lists(OFFSETS, max_size=30)


def counted(*lists: list[int]) -> Coverage:
    coverage = Coverage()
    for offsets in lists:
        coverage.add(HERE, np.array(offsets, np.int64))
    return coverage


@QUICK
@given(LISTS, LISTS, OFFSETS, OFFSETS)
def test_counts_are_those_of_a_dictionary(first: list[int], second: list[int], one: int, other: int) -> None:
    coverage, expected = counted(first, second), Counter(first + second)
    start, end = sorted((one, other))
    end = min(end, start + BLOCK)
    assert coverage.total(HERE) == expected.total()
    assert coverage.within(HERE, start, end) == sum(n for at, n in expected.items() if start <= at < end)
    assert coverage.count(HERE, one) == expected[one]
    missing = coverage.missing(HERE, start, end)
    assert set(missing.tolist()) == set(range(start, end)) - set(expected)


@QUICK
@given(LISTS, LISTS)
def test_repeats_are_found_across_two(first: list[int], second: list[int]) -> None:
    expected = sorted(at for at, count in Counter(first + second).items() if count > 1)
    assert counted(first).more_than_once(HERE, counted(second)).tolist() == expected


def test_counts_stop_at_the_most_a_byte_holds() -> None:
    coverage = counted(*[[7] * 100] * 4)
    assert coverage.count(HERE, 7) == 255


def test_a_partition_never_seen_is_empty() -> None:
    coverage = counted([1])
    other = ("topic", 4)
    assert coverage.partitions() == [HERE]
    assert coverage.total(other) == coverage.count(other, 1) == 0
    assert coverage.missing(other, 2, 5).tolist() == [2, 3, 4]
    assert coverage.more_than_once(other, coverage).tolist() == []


def test_a_range_in_which_offsets_lie_far_apart_is_looked_at_only_where_they_are() -> None:
    coverage = counted([3, 2**32 + 1, 2**62])
    assert coverage.within(HERE, 0, 2**63 - 1) == 3
    assert coverage.within(HERE, 4, 2**62) == 1
