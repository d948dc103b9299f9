from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.ingest.kafka_records import Sent, batch

from distributary.ingest.kafka.offset_spans import Ends, Span, Spans, committed, count_spans, join_spans

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
