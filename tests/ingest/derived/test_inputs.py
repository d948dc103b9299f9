"""Which files of a table may have rows of a time, by what its log tells of them."""

from __future__ import annotations

import json

import pytest

from distributary.ingest.derived.inputs import Between

SECOND = 1_000_000
TOLD = {"minValues": {"at": "1970-01-01T00:00:10.000Z"}, "maxValues": {"at": "1970-01-01T00:00:20.000Z"}}


def may_be_in(low: int | None, high: int | None, told: object = TOLD, time: str = "at") -> bool:
    return Between(low, high).of(time).may_be_in({"stats": json.dumps(told)})


def test_files_whose_rows_are_all_before_or_behind_are_left_out() -> None:
    assert not may_be_in(21 * SECOND, None)
    assert not may_be_in(None, 9 * SECOND)
    assert may_be_in(20 * SECOND, 30 * SECOND)
    assert may_be_in(0, 10 * SECOND)
    assert may_be_in(None, None)
    # The log has milliseconds alone.
    assert may_be_in(20 * SECOND + 999, None)
    assert not may_be_in(21 * SECOND, None, time="this.at")


@pytest.mark.parametrize(
    ("told", "time"),
    [
        ({}, "at"),
        ({"minValues": {"at": "1970-01-01"}, "maxValues": {"at": "1970-01-02"}}, "at"),
        ({"minValues": {"at": 5}, "maxValues": {"at": 6}}, "at"),
        ({"minValues": {"at": None}, "maxValues": {"at": None}}, "at"),
        # A time without a zone is cast by the session's.
        ({"minValues": {"at": "1970-01-01T00:00:10.000"}, "maxValues": {"at": "1970-01-01T00:00:20"}}, "at"),
        ({"minValues": {"at": "1970-01-01T00:00:10.000Z"}, "maxValues": {"at": "1970-01-01T00:00:20"}}, "at"),
        (TOLD, "timestamp_millis(at)"),
        (TOLD, "other_time"),
        # Another column than the one of this name.
        (TOLD, "player.at"),
    ],
)
def test_where_the_log_tells_nothing_of_it_a_file_is_read(told: object, time: str) -> None:
    assert may_be_in(99 * SECOND, None, told, time)
    assert may_be_in(None, -99 * SECOND, told, time)
    assert Between(99 * SECOND, None).of("at").may_be_in({})
