from __future__ import annotations

import numpy as np
import pytest
from tests.ingest.kafka_records import Sent, batch

from distributary.ingest.kafka.offset_spans import Ends, committed

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
