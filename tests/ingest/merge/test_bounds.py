from __future__ import annotations

import json
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from distributary.ingest.merge.bounds import KeyBounds, told

MOMENT = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
TIME = pa.timestamp("us", "UTC")


def may_be_in(values: list[Any], dtype: pa.DataType, low: Any, high: Any, nulls: int = 0) -> bool:
    found = {"numRecords": 9, "minValues": {"k": low}, "maxValues": {"k": high}, "nullCount": {"k": nulls}}
    schema = pa.schema([("k", dtype)])
    return KeyBounds(["k"], [pa.array(values, dtype)]).may_be_in(told(json.dumps(found), schema))


@pytest.mark.parametrize(
    ("values", "dtype", "low", "high", "expected"),
    [
        ([1, 9], pa.int64(), 2, 8, False),
        ([1, 5, 9], pa.int64(), 2, 8, True),
        ([8], pa.int64(), 2, 8, True),
        (["a", "z"], pa.string(), "b", "y", False),
        (["a", "y"], pa.string(), "b", "y", True),
        # Cut off, and made higher than all that begins so.
        (["y" * 40], pa.string(), "b", "y" * 32 + "\U0010ffff", True),
        ([MOMENT], TIME, "2026-01-01T12:00:00.000Z", "2026-01-01T12:00:00.000Z", True),
        # Spark writes times of its session, and cuts off what is below a millisecond.
        ([MOMENT], TIME, "2026-01-01T13:00:00.000+01:00", "2026-01-01T14:00:00.000+01:00", True),
        (
            [MOMENT + timedelta(microseconds=900)],
            TIME,
            "2026-01-01T11:00:00.000Z",
            "2026-01-01T12:00:00.000Z",
            True,
        ),
        ([MOMENT], TIME, "2026-01-01T12:00:01.000Z", "2026-01-01T14:00:00.000Z", False),
        ([MOMENT], TIME, "9999-12-31T23:59:59.998Z", "9999-12-31T23:59:59.999Z", True),
        ([MOMENT], TIME, "+10000-01-01T00:00:00.000Z", "+10000-01-01T00:00:00.000Z", True),
        ([1.5], pa.float64(), 2.0, 3.0, True),
        ([Decimal("1.5")], pa.decimal128(9, 2), 2.0, 3.0, False),
        # delta-rs tells them as floating-point numbers.
        ([Decimal("1.50")], pa.decimal128(9, 2), 1.5000000000000002, 3.0, True),
        ([Decimal(10**20 + 1)], pa.decimal128(38, 0), 2**63 - 1, 2**63 - 1, True),
    ],
)
def test_a_file_is_passed_by_only_where_it_can_have_none(
    values: list[Any], dtype: pa.DataType, low: Any, high: Any, expected: bool
) -> None:
    assert may_be_in(values, dtype, low, high) is expected


@pytest.mark.parametrize(
    ("values", "dtype", "text", "expected"),
    [
        ([1, 9], pa.int64(), "9", True),
        ([1, 9], pa.int64(), "5", False),
        (["de"], pa.string(), "de", True),
        (["de"], pa.string(), "fr", False),
        (["de"], pa.string(), None, False),
        ([date(2026, 1, 2)], pa.date32(), "2026-01-02", True),
        ([date(2026, 1, 2)], pa.date32(), "2026-01-03", False),
        ([True], pa.bool_(), "false", True),
    ],
)
def test_a_partition_has_keys_of_its_own_value_alone(
    values: list[Any], dtype: pa.DataType, text: str | None, expected: bool
) -> None:
    found = told(json.dumps({"numRecords": 9}), pa.schema([("k", dtype)]), {"k": text})
    assert KeyBounds(["k"], [pa.array(values, dtype)]).may_be_in(found) is expected


def test_of_very_many_texts_the_ends_are_looked_at() -> None:
    many = [f"k{number:06}" for number in range(1000, 20_000)]
    assert may_be_in(many, pa.string(), "k005000a", "k005000b")
    assert not may_be_in(many, pa.string(), "k020000", "k030000")


def test_a_file_whose_keys_are_all_null_has_none() -> None:
    assert not may_be_in([1], pa.int64(), None, None, nulls=9)
    assert may_be_in([1], pa.int64(), None, None, nulls=8)


@pytest.mark.parametrize(
    "text", [None, "", "{", '{"numRecords":3}', '{"minValues":{"k":"x"},"maxValues":{"k":"y"}}']
)
def test_without_statistics_any_file_may_have_it(text: str | None) -> None:
    assert KeyBounds(["k"], [pa.array([1])]).may_be_in(told(text, pa.schema([("k", pa.int64())])))
