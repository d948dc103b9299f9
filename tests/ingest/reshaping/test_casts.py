"""Values cast to another type: exactly, or not at all."""

from __future__ import annotations

from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from distributary.ingest.reshaping.casts import NAMES, cast, castable, type_of, unit_of

UTC = timezone.utc


def test_types_are_called_as_in_sql() -> None:
    assert all(type_of(name) is not None for name in NAMES[:-1])
    assert type_of(" Decimal( 18, 2 )") == pa.decimal128(18, 2)
    assert [type_of(name) for name in ("decimal(39,2)", "decimal(2,3)", "decimal", "array<int>", "")] == [
        None
    ] * 5


@pytest.mark.parametrize(
    ("values", "to", "expected"),
    [
        (pa.array(["12", "x", None, "-7", "1.5"]), "int", [12, None, None, -7, None]),
        (pa.array(["128"]), "tinyint", [None]),
        (pa.array(["0x10", "007", None]), "bigint", [None, 7, None]),
        (pa.array(["9007199254740993", "9007199254740992", "1e400", "-Infinity", "0.1", None]), "double",
         [None, float(2**53), None, float("-inf"), 0.1, None]),
        (pa.array(["16777217", "16777216", "1e39"]), "float", [None, float(2**24), None]),
        (pa.array(["9007199254740993.0", "-9007199254740993.", "9007199254740992.00", "9007199254740993.5", "1" + "0" * 15 + "." + "0" * 5000]), "double", [None, None, float(2**53), float(2**53 + 2), 1e15]),
        # Longer than any text that Python takes for a whole number.
        (pa.array(["0" * 5000, "-" + "0" * 5000 + "1", "0" * 5000 + "9007199254740993", "1" * 5000]), "double", [0.0, -1.0, None, None]),
        (pa.array(["0" * 5000 + "16777217", "0" * 5000 + "16777216"]), "float", [None, float(2**24)]),
        (pa.array(["1.50", "1.555", "x"]), "decimal(5,2)", [Decimal("1.50"), None, None]),
        # Beyond 128 bits with the zeros of the scale, or without: another number comes of it by Arrow.
        (pa.array(["12345678901234567890123456789012345678", "1" * 40, "1" + "0" * 300, "7"]), "decimal(38,18)", [None] * 3 + [Decimal(7)]),
        # By these Arrow reads beyond the end of its own table: another number comes of it, or the end of the process.
        (pa.array(["1e-77", "-1.5E-2147483640", "1e-99999999999999999999", "25e-0001", "0e-9999999", "1e-٣"]), "decimal(10,2)", [None, None, None, Decimal("2.50"), Decimal(0), None]),
        (pa.array([1e300, 3.4e38, 5e-324, 56690927176.097206, 7.0]), "decimal(38,18)", [None] * 3 + [Decimal("56690927176.097206"), Decimal(7)]),
        (pa.array([56690927176.097206, 56690927176.0972, 5e-324]), "decimal(15,4)", [None, Decimal("56690927176.0972"), None]),
        (pa.array([Decimal("33150423.0013"), Decimal("1.0013")], pa.decimal128(16, 4)), "decimal(38,34)", [None, Decimal("1.0013")]),
        (pa.array([Decimal("0.7"), Decimal("343.9"), None]), "double", [0.7, 343.9, None]),
        (pa.array([Decimal("0.1"), Decimal(2**63), Decimal("0." + "123456789" * 2)], pa.decimal128(38, 18)), "double", [0.1, float(2**63), None]),
        (pa.array([Decimal("0.1"), Decimal(16777217)], pa.decimal128(38, 18)), "float", [float(np.float32(0.1)), None]),
        (pa.array(["+5", " 6\t", "+ 7", "  ", ""]), "int", [5, 6, None, None, None]),
        (pa.array([" 2026-01-02T03:04:05 ", "2026-01-02T05:04:05+02:00"]), "timestamp", [datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)] * 2),
        # No place is further off than 18 hours.
        (pa.array(["2026-01-01T18:00:00+18:00", "2026-01-02 00:00:00+18:01", "2026-01-02T00:00:00-1830", "2026-01-01T00:00Z", "2026-01-02T00:00+19", "2026-01-19"]), "timestamp",
         [datetime(2026, 1, 1, tzinfo=UTC), None, None, datetime(2026, 1, 1, tzinfo=UTC), None, datetime(2026, 1, 19, tzinfo=UTC)]),
        (pa.array([1.0, 1.5, None]), "bigint", [1, None, None]),
        (pa.array([2**53, 2**53 + 1]), "double", [float(2**53), None]),
        (pa.array([0.5, 0.1]), "float", [0.5, None]),
        (pa.array([Decimal("0.50"), Decimal("0.10")]), "double", [0.5, 0.1]),
        (pa.array([0.1, 12.5, 1.234, 12.005, 1e20, float("nan"), None]), "decimal(5,2)", [Decimal("0.10"), Decimal("12.50")] + [None] * 5),
        (pa.array([0.1, 1e21, 1e-7]), "decimal(38,10)", [Decimal("0.1"), Decimal("1e21"), Decimal("1e-7")]),
        (pa.array([0.1, 0.15625], pa.float32()), "decimal(12,4)", [Decimal("0.1"), None]),
        (pa.array([12, -7, 1000, None]), "decimal(5,2)", [Decimal("12.00"), Decimal("-7.00"), None, None]),
        (pa.array([12], pa.uint64()), "decimal(4,2)", [Decimal("12.00")]),
        (pa.array([0, 1, 2]), "boolean", [False, True, None]),
        (pa.array([3, 300]), "tinyint", [3, None]),
        (pa.array([3.0, 0.25]), "string", ["3", "0.25"]),
        (pa.array([True, None]), "string", ["true", None]),
        (pa.array([b"abc", b"\xff"]), "string", ["abc", None]),
        (pa.array(["abc"]), "binary", [b"abc"]),
        (pa.array(["true", "FALSE", "maybe"]), "boolean", [True, False, None]),
        (pa.array(["2026-01-02", "2026-13-02"]), "date", [date(2026, 1, 2), None]),
        (pa.array(["2026-01-02T03:04:05Z", "2026-01-02 03:04:05", "2026-01-02T05:04:05+02:00", "soon"]),
         "timestamp", [datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)] * 3 + [None]),
        (pa.array([datetime(2026, 1, 2, 3, 4, 5)]), "date", [date(2026, 1, 2)]),
        (pa.array([1_500, None, -1]), "timestamp(ms)", [datetime(1970, 1, 1, 0, 0, 1, 500_000, tzinfo=UTC), None,
                                                        datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)]),
        (pa.array([1, 2**62]), "timestamp(s)", [datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), None]),
        # Milliseconds that somebody has called seconds, and others that are of no year that SQL's types hold.
        (pa.array([1_700_000_000_000, 253_402_300_799, 253_402_300_800, -62_135_596_800, -62_135_596_801]), "timestamp(s)",
         [None, datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC), None, datetime(1, 1, 1, tzinfo=UTC), None]),
        (pa.array(["0000-12-31", "0001-01-01", "9999-12-31"]), "date", [None, date(1, 1, 1), date(9999, 12, 31)]),
        (pa.array(["0000-12-31T23:59:59Z", "0001-01-01 00:00:00", "9999-12-31T23:59:59-01:00"]), "timestamp",
         [None, datetime(1, 1, 1, tzinfo=UTC), None]),
        (pa.array([1], pa.uint32()), "timestamp(us)", [datetime(1970, 1, 1, 0, 0, 0, 1, tzinfo=UTC)]),
        (pa.array([], pa.string()), "int", []),
        (pa.array([None, None], pa.string()), "int", [None, None]),
        (pa.array(["1", "x", "1"]).dictionary_encode(), "int", [1, None, 1]),
    ],
)  # fmt: skip
def test_a_value_that_is_none_of_the_type_is_told(values: pa.Array, to: str, expected: list[Any]) -> None:
    of = type_of(to)
    assert of is not None
    assert castable(values.type, of, unit_of(to))
    stored, bad = cast(values, of, unit_of(to))
    assert stored.type == of
    assert stored.to_pylist() == expected
    assert bad.tolist() == [
        was is not None and is_now is None for was, is_now in zip(values.to_pylist(), expected, strict=True)
    ]


@pytest.mark.parametrize(
    ("given", "to"),
    [
        (pa.int64(), "timestamp"),
        (pa.float64(), "date"),
        (pa.string(), "timestamp(ms)"),
        (pa.bool_(), "double"),
        (pa.int32(), "binary"),
        (pa.float64(), "boolean"),
        (pa.date32(), "int"),
        (pa.binary(), "int"),
    ],
)
def test_a_type_of_which_no_value_is_one_of_the_other(given: pa.DataType, to: str) -> None:
    of = type_of(to)
    assert of is not None
    assert not castable(given, of, unit_of(to))
