"""Topics that come and go while a log lives: no offset of any is ever forgotten."""

from __future__ import annotations

from collections.abc import Collection

from hypothesis import given
from hypothesis import strategies as st

from distributary.ingest.commit_log.entries import Standing
from distributary.ingest.commit_log.topics import with_partitions, with_topics
from distributary.ingest.kafka.offsets import Positions

UUIDS = {"a": "1", "b": "2"}

BEGUN = Standing(last=7, ends={"a": {0: 5}, "b": {0: 3, 1: 4}})


def begin(topics: Collection[str]) -> Positions:
    return {topic: {0: 100} for topic in topics}


def test_a_log_with_the_same_topics_is_the_same() -> None:
    assert with_topics(BEGUN, {"a": "1", "b": "2"}, begin) is BEGUN


def test_what_comes_begins_and_what_goes_is_known_for_whoever_reads_it_again() -> None:
    now = with_topics(BEGUN, {"b": "2", "c": "3"}, begin)
    assert (now.ends, now.left) == ({"b": {0: 3, 1: 4}, "c": {0: 100}}, {"a": {0: 5}})
    assert (now.last, now.topics) == (7, {"b": "2", "c": "3"})
    back = with_topics(now, {"a": "1", "c": "3"}, begin)
    assert (back.ends, back.left) == ({"a": {0: 5}, "c": {0: 100}}, {"b": {0: 3, 1: 4}})
    assert back.topics == {"a": "1", "b": "2", "c": "3"}


def test_partitions_that_are_not_read_are_known_for_when_they_are_again() -> None:
    assert with_partitions(BEGUN, UUIDS, {}, begin) is BEGUN
    assert with_partitions(BEGUN, UUIDS, {"a": [0], "b": [0, 1]}, begin) is BEGUN
    some = with_partitions(BEGUN, UUIDS, {"a": [0, 1], "b": [1]}, lambda _: {"a": {0: 9, 1: 42}})
    assert (some.ends, some.left) == ({"a": {0: 5, 1: 42}, "b": {1: 4}}, {"b": {0: 3}})
    assert some.topics == UUIDS, "a program that knows of no such logs would begin again with what is left"
    back = with_partitions(some, UUIDS, {"a": [1], "b": [0, 1]}, begin)
    assert (back.ends, back.left) == ({"a": {1: 42}, "b": {0: 3, 1: 4}}, {"a": {0: 5}})
    every = with_partitions(back, UUIDS, {}, begin)
    assert (every.ends, every.left) == ({"a": {0: 5, 1: 42}, "b": {0: 3, 1: 4}}, {})


def test_a_topic_of_which_some_partitions_were_left_goes_and_comes_whole() -> None:
    some = with_partitions(BEGUN, UUIDS, {"a": [0], "b": [1]}, begin)
    gone = with_topics(some, {"a": "1"}, begin)
    assert (gone.ends, gone.left) == ({"a": {0: 5}}, {"b": {0: 3, 1: 4}})
    other = with_topics(some, {"b": "2", "c": "3"}, begin)
    assert other.left == {"a": {0: 5}, "b": {0: 3}}
    back = with_topics(gone, {"a": "1", "b": "2"}, begin)
    assert (back.ends, back.left) == (BEGUN.ends, {})


@given(st.lists(st.sets(st.sampled_from("abcd"), min_size=1)))
def test_no_topic_begins_twice(chosen: list[set[str]]) -> None:
    begun: list[str] = []

    def once(topics: Collection[str]) -> Positions:
        begun.extend(topics)
        return begin(topics)

    so_far = BEGUN
    for names in chosen:
        so_far = with_topics(so_far, {name: f"of {name}" for name in names}, once)
        assert so_far.ends.keys() == names
    assert len(begun) == len(set(begun))
    assert {**so_far.left, **so_far.ends} == {**BEGUN.ends, **begin(begun)}
    met = set().union(*chosen) if so_far is not BEGUN else set()
    assert so_far.topics.keys() <= met
    assert set(begun) <= so_far.topics.keys()
