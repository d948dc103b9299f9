"""Values cast by a rule, held against what Spark's `try_cast` makes of them: the same, or nothing."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime, timezone
from decimal import Decimal
from math import inf, nan
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from distributary.ingest.reshaping.casts import cast, castable, type_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

UTC = timezone.utc

NUMBERS = ["0", "-7", "+5", "007", "  5 ", "5\t", "1.50", ".5", "5.", "1e2", "-0", "0.1", "1.555", "9007199254740993",
           "9223372036854775808", "127", "128", "NaN", "Infinity", "-inf", "1e400", "1e39", "1e-400", "0x10", "1_000", "1,000", "1d",
           "99999.995", "1e-7", "12345678901234567890123456789012345678", "1" * 40, "1" + "0" * 300]  # fmt: skip

WORDS = ["true", "TRUE", " false ", "t", "yes", "on", "maybe", "", "  ", "é", "a\0b"]

TIMES = ["2026-01-02", "2026-1-2", "2026-01", "2026", "20260102", "2026-01-02T", "2026-01-02T03:04", "2026-01-02T03:04:05",
         "2026-01-02 03:04:05.123456", "2026-01-02 03:04:05.1234567", "2026-01-02T03:04:05Z", "2026-01-02T03:04:05+02",
         "2026-01-02T03:04:05+0200", "2026-01-02T03:04:05-02:00", "2026-01-02T03:04:05-23:59", "2026-01-02T03:04:05 UTC", "2026-01-02T03:04:05z", "2026-01-02T24:00:00",
         "2026-01-02T23:59:60", "2026-02-29", "2024-02-29", "0000-01-01", "0001-01-01", "9999-12-31", "10000-01-01", "-2026-01-02",
         "03:04", "1969-12-31T23:59:59.999999Z", " 2026-01-02 "]  # fmt: skip

MOMENTS = [datetime(1970, 1, 1), datetime(1969, 12, 31, 23, 59, 59, 999_999), datetime(2026, 1, 2, 3, 4, 5, 120_000),
           datetime(9999, 12, 31, 23, 59, 59, 999_999), datetime(1, 1, 1)]  # fmt: skip

VALUES: Mapping[str, pa.Array] = {
    "string": pa.array(NUMBERS + WORDS + TIMES),
    "boolean": pa.array([True, False]),
    "tinyint": pa.array([0, 1, 2, -128], pa.int8()),
    "bigint": pa.array([0, 1, 128, -129, 2**24 + 1, 2**31, 2**53, 2**53 + 1, 2**63 - 1, -(2**63)]),
    "float": pa.array([0.0, -0.0, 0.1, 1.5, 300.7, 2.0**24, 1e20, 3.4e38, 1e-45, inf, -inf, nan], pa.float32()),
    "double": pa.array([0.0, -0.0, 0.1, 1.5, 127.9, 128.0, 2.0**53, 2.0**63, 1e20, 1e-7, 1e300, 5e-324, 12.345, 0.125, 56690927176.097206, inf, -inf, nan]),
    "decimal(3,1)": pa.array(list(map(Decimal, ("0.0", "0.3", "0.7", "1.0", "-99.9")))),
    "decimal(38,18)": pa.array(list(map(Decimal, ("0", "0.1", "0.3", "1.5", "128", "123456789.123456789123456789", "99999999999999999999.5", "1e-18"))), pa.decimal128(38, 18)),
    "decimal(20,0)": pa.array(list(map(Decimal, (0, 1, 2**53 + 1, 2**63, 10**20 - 1))), pa.decimal128(20, 0)),
    "date": pa.array([date(1, 1, 1), date(1969, 12, 31), date(2026, 1, 2), date(9999, 12, 31)]),
    "timestamp": pa.array([one.replace(tzinfo=UTC) for one in MOMENTS], pa.timestamp("us", "UTC")),
    "timestamp_ntz": pa.array(MOMENTS),
    "binary": pa.array([b"abc", b""]),
}  # fmt: skip

TARGETS = ("string", "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "decimal(5,2)", "decimal(15,4)", "decimal(20,0)",
           "decimal(38,18)", "decimal(38,34)", "date", "timestamp", "timestamp_ntz", "binary")  # fmt: skip


def texts_of(values: pa.Array) -> list[str]:
    """Values told apart by all that they are, a zero's sign among it."""
    counted = pa.types.is_temporal(values.type)
    if counted:
        values = values.view(pa.int32() if pa.types.is_date32(values.type) else pa.int64())
    return [str(value) for value in values.to_pylist()]


def alike(given: str, to: str) -> bool:
    """Whether the docs have it otherwise: texts are those that are hashed, and a `float` has its own digits instead of a double's."""
    return not (
        (to == "string" and given not in {"string", "boolean", "tinyint", "bigint", "date", "binary"})
        or (given == "float" and to.startswith("decimal"))
    )


@pytest.mark.parametrize("given", VALUES)
def test_a_cast_gives_what_sparks_gives_or_nothing(given: str, spark: SparkSession) -> None:
    values = VALUES[given]
    types = {to: of for to in TARGETS if (of := type_of(to)) is not None and castable(values.type, of)}
    frame = spark.createDataFrame(pa.table({"number": range(len(values)), "value": values}))
    casts = [f"try_cast(value as {to}) as `{to}`" for to in types]
    found = frame.selectExpr("number", *casts).toArrow().sort_by("number").combine_chunks()
    for to, of in types.items():
        stored, bad = cast(values, of)
        rows = zip(values.to_pylist(), texts_of(stored), texts_of(found[to].chunk(0)), bad, strict=True)
        others = [
            (value, own, sparks) for value, own, sparks, refused in rows if not refused and own != sparks
        ]
        assert not others or not alike(given, to), to
