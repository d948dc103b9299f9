"""Averages, which are kept as a sum and a count: what Spark's own are, of any numbers."""

from __future__ import annotations

import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from tests.ingest.derived.test_refresh import Bench, aggregate

pytestmark = [pytest.mark.spark]


@pytest.fixture
def bench(tmp_path: Path, spark: SparkSession) -> Bench:
    return Bench(tmp_path / "lake", spark)


def test_averages_of_decimals_are_the_decimals_that_spark_makes(bench: Bench, spark: SparkSession) -> None:
    dice = random.Random(5)
    kinds = {"small": (5, 2), "wide": (38, 10), "fine": (30, 28), "long": (20, 0)}
    schema = pa.schema([("k", pa.int64()), *((name, pa.decimal128(*kind)) for name, kind in kinds.items())])

    def some(count: int) -> list[dict[str, Any]]:
        made: list[dict[str, Any]] = []
        for _ in range(count):
            row: dict[str, Any] = {"k": dice.randrange(4)}
            for name, (precision, scale) in kinds.items():
                # Averages of the widest must fit, as they must in Spark's own, whose scale is larger.
                digits = dice.randrange(1, min(precision, 32))
                value = Decimal(dice.randrange(-(10**digits), 10**digits)).scaleb(-scale)
                row[name] = None if dice.random() < 0.1 else value
            made.append(row)
        return [*made, {"k": 9, **dict.fromkeys(kinds)}]

    rule = aggregate("k", **{name: f"avg({name})" for name in kinds}, some="mean(small) FILTER (WHERE k > 1)")
    for _ in range(3):
        bench.put(*some(7), schema=schema)
        done = bench.derive(rule)
    assert done.how == "added", done.why
    averages = ", ".join(f"avg({name}) AS {name}" for name in kinds)
    expected = spark.sql(
        f"SELECT k, {averages}, avg(small) FILTER (WHERE k > 1) AS some FROM delta.`{bench.root / 't'}` GROUP BY k"  # noqa: S608
    ).toArrow()
    found = DeltaTable(str(bench.root / "gold")).to_pyarrow_table()
    assert found.select(expected.schema.names).schema.types == expected.schema.types
    assert bench.rows() == sorted(expected.to_pylist(), key=str)


@pytest.mark.parametrize(
    ("kind", "value"),
    # One of whose sum there is none, and one whose average has more digits than decimals have.
    [((38, 0), 8 * 10**37), pytest.param((38, 0), 10**36, marks=pytest.mark.heavy)],
)
def test_an_average_that_is_no_decimal_is_an_error_as_sparks_own_is_and_leaves_what_was(
    bench: Bench, spark: SparkSession, kind: tuple[int, int], value: int
) -> None:
    schema = pa.schema([("k", pa.int64()), ("v", pa.decimal128(*kind))])
    rule = aggregate("k", v="avg(v)")
    bench.put({"k": 1, "v": Decimal(1)}, schema=schema)
    assert bench.derive(rule).how == "made"
    before = bench.rows()
    bench.put(*[{"k": 1, "v": Decimal(value)}] * 2, schema=schema)
    for whole in (False, True):
        done = bench.derive(rule, whole=whole)
        assert done.how == "failed"
        assert str(value)[:4] + "0" not in done.why
        assert bench.rows() == before
    with pytest.raises((PySparkException, Py4JError)):
        spark.sql(f"SELECT avg(v) FROM delta.`{bench.root / 't'}`").collect()  # noqa: S608
    # Rows that go take it with them.
    DeltaTable(str(bench.root / "t")).delete("v > 1")
    assert bench.derive(rule).how == "made"
    assert bench.rows() == before


def test_averages_of_the_largest_numbers_are_as_sparks_own(bench: Bench, spark: SparkSession) -> None:
    largest = 2**63 - 1
    rule = aggregate("k", n="avg(n)", d="avg(d)")
    for _ in range(3):
        bench.put({"k": 1, "n": largest, "d": 1e308}, {"k": 1, "n": largest, "d": 1e308})
        bench.derive(rule)
    expected = spark.sql(f"SELECT k, avg(n) AS n, avg(d) AS d FROM delta.`{bench.root / 't'}` GROUP BY k")  # noqa: S608
    assert bench.rows() == expected.toArrow().to_pylist()
