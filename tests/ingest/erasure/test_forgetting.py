"""Which of the records that are remembered of a history go with its rows, in whatever years these were true."""

from __future__ import annotations

from datetime import date, datetime, timezone
from typing import Any

import pyarrow as pa
import pytest

from distributary.ingest.erasure.forgetting import Remembered

BY = Remembered((("k",),), ("at",), ("valid_from", "valid_to"))

TIME = pa.timestamp("us", "UTC")

# A time of the year 57868, as of a producer that counts in another unit.
FAR = 1_764_000_000_000_000_000

NOON = datetime(2026, 1, 31, 12, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("kind", "spans", "at", "expected"),
    [
        (TIME, [(NOON, FAR)], [NOON, FAR - 1, FAR, -FAR], [True, True, False, False]),
        (TIME, [(FAR, None)], [NOON, FAR, FAR + 1], [False, True, True]),
        # Of a row that somebody inserted.
        (TIME, [(None, NOON)], [-FAR, NOON], [True, False]),
        (pa.timestamp("us"), [(-FAR, NOON.replace(tzinfo=None))], [-FAR, 0, FAR], [True, True, False]),
        (pa.date32(), [(date(2026, 1, 1), 2**30)], [date(2026, 1, 1), 2**30 - 1, 2**30], [True, True, False]),
    ],
)
def test_those_that_were_true_within_go(
    kind: pa.DataType, spans: list[Any], at: list[Any], expected: list[bool]
) -> None:
    starts, ends = zip(*spans, strict=True)
    columns = {
        "k": pa.array(["a"] * len(spans)),
        "valid_from": pa.array(starts, kind),
        "valid_to": pa.array(ends, kind),
    }
    which = BY.rows(pa.table(columns))
    rows = pa.RecordBatch.from_pydict({"k": pa.array(["a"] * len(at)), "at": pa.array(at, kind)})
    assert which.met(rows).tolist() == expected


def test_keys_may_be_such_times_too() -> None:
    gone = pa.table({"k": pa.array([FAR], TIME), "valid_from": [1], "valid_to": [3]})
    rows = pa.RecordBatch.from_pydict({"k": pa.array([FAR, FAR + 1], TIME), "at": [2, 2]})
    assert BY.rows(gone).met(rows).tolist() == [True, False]


def test_keys_that_are_no_number_and_zeros_of_either_sign_are_found() -> None:
    """Rows of such keys are one key's to a merge, whatever their bits are."""
    nan = float("nan")
    gone = pa.table({"k": pa.array([nan, -0.0]), "valid_from": [1, 1], "valid_to": [3, 3]})
    rows = pa.RecordBatch.from_pydict({"k": pa.array([nan, 0.0, -0.0, 1.0]), "at": [2, 2, 2, 2]})
    assert BY.rows(gone).met(rows).tolist() == [True, True, True, False]
