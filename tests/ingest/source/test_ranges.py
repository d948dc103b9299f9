"""The pieces in which a range of offsets is read."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from distributary.ingest.kafka.offsets import Positions, ends
from distributary.ingest.source.ranges import next_range, remaining

POSITIONS = st.dictionaries(
    st.sampled_from(["a", "b"]),
    st.dictionaries(st.integers(0, 3), st.integers(0, 500), min_size=1),
    min_size=1,
)


def test_a_range_of_few_offsets_is_one_piece() -> None:
    assert next_range({"a": {0: 3, 1: 7}}, {"a": {0: 10, 1: 7}}, 100) == {"a": {0: (3, 10), 1: (7, 7)}}


def test_each_partition_gives_the_same_part_of_what_it_has_left() -> None:
    assert next_range({"a": {0: 0, 1: 0}}, {"a": {0: 300, 1: 100}}, 100) == {"a": {0: (0, 75), 1: (0, 25)}}


def test_at_the_end_there_is_nothing() -> None:
    assert next_range({"a": {0: 5, 1: 9}}, {"a": {0: 5, 1: 2}}, 10) == {}
    assert next_range({"a": {0: 5}}, {}, 10) == {}


@given(POSITIONS, POSITIONS, st.integers(1, 200))
def test_the_pieces_follow_on_each_other_and_end_exactly_there(
    read: Positions, until: Positions, most: int
) -> None:
    at = read
    wanted = {
        topic: {number: until[topic][number] for number in numbers if number in until.get(topic, {})}
        for topic, numbers in read.items()
    }
    left = remaining(read, wanted)
    while piece := next_range(at, wanted, most):
        assert {topic: {n: pair[0] for n, pair in of.items()} for topic, of in piece.items()} == at
        size = sum(end - begin for of in piece.values() for begin, end in of.values())
        assert 0 < size <= max(most, sum(map(len, read.values())))
        at, left = ends(piece), left - size
    assert left == 0
    assert at == {
        topic: {number: max(begin, wanted[topic].get(number, begin)) for number, begin in numbers.items()}
        for topic, numbers in read.items()
    }
