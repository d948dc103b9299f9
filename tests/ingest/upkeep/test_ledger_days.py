from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.ingest.upkeep.ledger_days import LIGHT, Bounds, Row, ages, first_id, shortened, spans

NOW = datetime(2025, 6, 30, 12, tzinfo=timezone.utc)
DAY = timedelta(days=1)
SUMS = ("rows_read", "rows_tables", "rows_quarantined", "rows_dropped", "rows_already", "files", "bytes")


def batch(number: int, ended: datetime, start: int = 0, rows: int = 10, **more: Any) -> Row:
    """A batch of so many records of one partition from an offset on, two of which are in quarantine."""
    row: dict[str, Any] = dict.fromkeys(SUMS, 0)
    return {
        **row,
        "batch_id": number,
        "ended_at": ended,
        "started_at": ended - timedelta(seconds=1),
        "seconds": 1.0,
        "attempts": 1,
        "rows_read": rows,
        "rows_tables": rows - 2,
        "rows_quarantined": 2,
        "rows_by_reason": json.dumps({"malformed": 2}),
        "tables": 3,
        "files": 4,
        "bytes": 100,
        "offsets": json.dumps({"games": {"0": [start, start + rows]}}),
        "gaps": "{}",
        "schema_ids": "[1]",
        "unknown_fields": "{}",
        "requests": None,
        "first_batch_id": None,
        "rows_purged": None,
        **dict.fromkeys(f"rows_{one}" for one in ("inserted", "updated", "deleted", "older", "duplicate")),
        **more,
    }


def following(ended: Sequence[datetime], rows: int = 10) -> list[Row]:
    return [batch(number, at, number * rows, rows) for number, at in enumerate(ended)]


def test_the_batches_of_an_old_day_become_one_row_with_their_sums() -> None:
    ended = [NOW - days * DAY for days in (40, 40, 40, 39, 2, 1)]
    bounds = Bounds.of(NOW, 30, None)
    first, second, *young = shortened(following(ended), ended, bounds)
    assert (first["first_batch_id"], first["batch_id"], second["first_batch_id"]) == (0, 2, None)
    assert (first["rows_read"], first["rows_tables"], first["rows_quarantined"]) == (30, 24, 6)
    assert json.loads(first["offsets"]) == {"games": {"0": [0, 30]}}
    assert json.loads(first["rows_by_reason"]) == {"malformed": 6}
    assert (first["seconds"], first["attempts"], first["tables"], first["bytes"]) == (3.0, 3, 3, 300)
    assert (first["started_at"], first["ended_at"]) == (ended[0] - timedelta(seconds=1), ended[2])
    assert young == following(ended)[4:]


def test_batches_that_do_not_go_on_where_the_one_before_ended_stay_as_they_are() -> None:
    ended = [NOW - 40 * DAY] * 2
    for odd in (
        [batch(0, ended[0]), batch(1, ended[1], start=15)],
        [batch(0, ended[0]), batch(1, ended[1], start=10, rows_dropped=1)],
        [batch(0, ended[0]), batch(1, ended[1], start=10, gaps=json.dumps({"games": {"0": 1}}))],
    ):
        assert shortened(odd, ended, Bounds.of(NOW, 30, None)) == odd


def test_a_day_on_which_the_pipeline_was_renamed_stays_as_it_is() -> None:
    """Its names tell whose earlier checkpoints are."""
    ended = [NOW - days * DAY for days in (40, 40, 39, 39)]
    names = ("games", "plays", "plays", "plays")
    rows = [{**row, "pipeline": name} for row, name in zip(following(ended), names, strict=True)]
    *renamed, day = shortened(rows, ended, Bounds.of(NOW, 30, None))
    assert renamed == rows[:2]
    assert (first_id(day), day["batch_id"]) == (2, 3)


def test_a_day_has_the_sums_of_what_its_batches_tell_of_expectations() -> None:
    told = [
        {"golf": {"sane": [8, 2]}},
        None,
        {"golf": {"sane": [1, 0], "new": [0, 3]}, "go": {"sane": [4, 4]}},
    ]
    rows = [
        {**row, "expectations": None if one is None else json.dumps(one)}
        for row, one in zip(following([NOW - timedelta(days=9)] * 3), told, strict=True)
    ]
    bounds = Bounds.of(NOW, 7, None)
    (day,) = shortened(rows, [NOW - timedelta(days=9)] * 3, bounds)
    assert json.loads(day["expectations"]) == {
        "golf": {"sane": [9, 2], "new": [0, 3]},
        "go": {"sane": [4, 4]},
    }
    (day,) = shortened([{**row, "expectations": None} for row in rows], [NOW - timedelta(days=9)] * 3, bounds)
    assert day["expectations"] is None


def test_a_partition_that_came_later_has_its_own_stretch() -> None:
    ended = [NOW - 40 * DAY] * 2
    offsets = json.dumps({"games": {"0": [10, 15], "1": [7, 12]}})
    (row,) = shortened(
        [batch(0, ended[0]), batch(1, ended[1], offsets=offsets)], ended, Bounds.of(NOW, 30, None)
    )
    assert json.loads(row["offsets"]) == {"games": {"0": [0, 15], "1": [7, 12]}}


@pytest.mark.parametrize(("told", "sum_"), [((1, 2), 3), ((1, None), None), ((None, None), None)])
@pytest.mark.parametrize("name", ["rows_inserted", "rows_added"])
def test_what_one_batch_does_not_say_of_merged_rows_and_others_its_day_does_not_say(
    name: str, told: tuple[int | None, int | None], sum_: int | None
) -> None:
    ended = [NOW - 40 * DAY] * 2
    rows = [
        {**batch(number, at, number * 10), name: count}
        for (number, at), count in zip(enumerate(ended), told, strict=True)
    ]
    (row,) = shortened(rows, ended, Bounds.of(NOW, 30, None))
    assert row[name] == sum_


def test_what_may_be_gone_from_quarantine_is_said_of_single_batches_and_of_days() -> None:
    ended = [NOW - days * DAY for days in (50, 50, 40, 10)]
    rows = following(ended)
    single = shortened(rows, ended, Bounds.of(NOW, None, 30))
    assert [row["rows_purged"] for row in single] == [2, 2, 2, None]
    days = shortened(single, ended, Bounds.of(NOW, 30, 45))
    assert [(first_id(row), row["batch_id"], row["rows_purged"]) for row in days] == [
        (0, 1, 4),
        (2, 2, 2),
        (3, 3, None),
    ]
    none = shortened(
        [batch(0, ended[0], rows_quarantined=0, rows_tables=10)], ended[:1], Bounds.of(NOW, None, 30)
    )
    assert none[0]["rows_purged"] is None


def test_a_wrong_clock_makes_no_batch_older_than_it_is() -> None:
    behind, ahead = NOW - 9000 * DAY, NOW + 9000 * DAY
    told = [NOW - 3 * DAY, behind, NOW - 2 * DAY, ahead, NOW - DAY]
    assert ages(told, NOW) == [NOW - 3 * DAY] * 2 + [NOW - 2 * DAY] * 2 + [NOW - DAY]
    assert ages([ahead, NOW - DAY], NOW) == [NOW, NOW - DAY]


def test_only_rows_with_something_to_change_are_looked_at_whole() -> None:
    ended = [NOW - days * DAY for days in (50, 50, 49, 48, 48, 47, 3, 1)]
    light = [{name: row[name] for name in LIGHT} for row in following(ended)]
    together = Bounds.of(NOW, 30, None)
    assert [(one.start, one.end) for one in spans(light, ended, together, 100)] == [(0, 2), (3, 5)]
    assert [(one.start, one.end) for one in spans(light, ended, Bounds.of(NOW, 30, 30), 100)] == [(0, 6)]
    assert [(one.start, one.end) for one in spans(light, ended, Bounds.of(NOW, 30, 30), 2)] == [
        (0, 2),
        (2, 5),
        (5, 6),
    ]
    assert not list(spans(light, ended, Bounds.of(NOW, 60, 60), 2))


def round_of(rows: Sequence[Row], now: datetime, bounds: Bounds, most: int) -> list[Row]:
    """The ledger after one upkeep."""
    found, ended = list(rows), ages([row["ended_at"] for row in rows], now)
    for span in reversed(list(spans(rows, ended, bounds, most))):
        some = slice(span.start, span.end)
        found[some] = shortened(rows[some], ended[some], bounds)
    return found


@given(
    st.lists(st.tuples(st.floats(0, 60), st.integers(2, 9)), max_size=30),
    st.none() | st.integers(1, 50),
    st.none() | st.integers(1, 50),
    st.lists(st.floats(0, 20), min_size=1, max_size=3),
    st.integers(1, 10),
)
def test_sums_stay_over_the_rounds_and_nothing_is_left_to_do(
    batches: list[tuple[float, int]],
    together: int | None,
    purged: int | None,
    rounds: list[float],
    most: int,
) -> None:
    rows, start, now = list[Row](), 0, NOW
    told = sorted(NOW - DAY * days for days, _ in batches)
    for number, (ended, (_, count)) in enumerate(zip(told, batches, strict=True)):
        rows.append(batch(number * 3, ended, start, count))
        start += count
    short = rows
    for days in rounds:
        now += DAY * days
        bounds = Bounds.of(now, together, purged)
        short = round_of(short, now, bounds, most)
        assert round_of(short, now, bounds, most) == short
        for row in short:
            old = bounds.purged is not None and row["ended_at"] < bounds.purged
            assert not old or row["rows_purged"] == row["rows_quarantined"]
            assert old or row["first_batch_id"] is not None or row["rows_purged"] is None
    for name in SUMS:
        assert sum(row[name] for row in short) == sum(row[name] for row in rows)
    for one, other in pairwise(short):
        assert json.loads(one["offsets"])["games"]["0"][1] == json.loads(other["offsets"])["games"]["0"][0]
        assert one["batch_id"] < first_id(other)
