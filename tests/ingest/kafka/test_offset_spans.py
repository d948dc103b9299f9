from __future__ import annotations

import json
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.ingest.kafka_records import Sent, batch

from distributary.ingest.kafka.offset_spans import (
    Ends,
    Span,
    Spans,
    committed,
    count_spans,
    join_spans,
    placed,
    stretches_of,
)
from distributary.ingest.kafka.offsets import stretches_from_json, stretches_to_json, stretches_within

RECORDS = st.lists(
    st.builds(
        Sent,
        st.just(b""),
        st.integers(0, 2**62),
        st.sampled_from([0, 1, 2**31 - 1]),
        st.sampled_from(["t", "u", "ü"]),
    ),
    max_size=12,
)


def spans(*batches: list[Sent]) -> Spans:
    found: Spans = {}
    for records in batches:
        count_spans(batch(records), found)
    return found


@given(RECORDS)
@settings(deadline=None)
def test_each_partitions_records_are_counted_with_first_and_last_offset(records: list[Sent]) -> None:
    places = {(record.topic, record.partition) for record in records}
    expected = {}
    for place in places:
        offsets = [record.offset for record in records if (record.topic, record.partition) == place]
        expected[place] = Span(len(offsets), min(offsets), max(offsets))
    assert spans(records) == expected


@given(RECORDS, st.integers(0, 12), st.randoms(use_true_random=False))
@settings(deadline=None)
def test_it_does_not_matter_how_records_are_cut_into_batches_and_tasks(
    records: list[Sent], cut: int, order: random.Random
) -> None:
    whole = spans(records)
    order.shuffle(records)
    assert spans(records[:cut], records[cut:]) == whole
    joined = spans(records[:cut])
    join_spans(joined, spans(records[cut:]))
    assert joined == whole


RAW = batch([Sent(b"", 4), Sent(b"", 5), Sent(b"", 4, partition=1), Sent(b"", 4, topic="other")])


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        ({}, [False] * 4),
        ({"game-events": {0: 5}}, [True, False, False, False]),
        ({"game-events": {0: 6, 1: 4}, "other": {0: 5}}, [True, True, False, True]),
    ],
)
def test_rows_below_the_offset_their_partition_has_reached_are_in(ends: Ends, expected: list[bool]) -> None:
    assert committed(RAW, np.arange(4), ends).tolist() == expected


def test_only_the_rows_asked_for_are_answered() -> None:
    ends = {"game-events": {0: 5}}
    assert committed(RAW, np.array([1, 0]), ends).tolist() == [False, True]
    assert committed(RAW, np.array([], dtype=np.int64), ends).tolist() == []


@given(st.lists(st.integers(0, 40)), st.lists(st.integers(0, 40), unique=True))
def test_what_is_in_a_stretch_is_what_the_stretches_were_made_of(there: list[int], asked: list[int]) -> None:
    stretches = {"game-events": {0: stretches_of(np.array(there, np.int64))}, "other": {1: [(0, 99)]}}
    raw = batch([Sent(b"", offset) for offset in asked])
    rows = np.arange(len(asked))[::-1]
    assert placed(raw, rows, stretches).tolist() == [asked[row] in there for row in rows]
    cut = stretches_within(stretches, {"game-events": {0: (10, 20)}})
    assert placed(raw, rows, cut).tolist() == [asked[row] in there and 10 <= asked[row] < 20 for row in rows]
    assert stretches_from_json(json.loads(json.dumps(stretches_to_json(stretches)))) == stretches
