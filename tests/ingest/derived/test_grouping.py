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

from distributary.ingest.derived import writing

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


def log_of(table: Path) -> list[str]:
    """The entries of a table's log."""
    return [entry.read_text() for entry in sorted((table / "_delta_log").glob("*.json"))]


def test_a_struct_that_is_null_may_be_made_of_what_never_is(bench: Bench) -> None:
    """As of a group whose rows have no order: a struct that an expression makes is none that may be null, and was one within nothing."""
    schema = pa.schema([("k", pa.int64()), ("o", pa.int64()), ("v", pa.int64())])
    rule = aggregate("k", last="max_by(struct(v), o)", all="max_by(array(struct(struct(v) AS s)), o)")
    for order in (None, 1):
        bench.put({"k": 1, "o": None, "v": 5}, {"k": 2, "o": order, "v": 6}, schema=schema)
        assert (done := bench.derive(rule)).how in ("made", "added"), done.why
    chosen = {"last": {"v": 6}, "all": [{"s": {"v": 6}}]}
    assert bench.rows() == [{"k": 1, "last": None, "all": None}, {"k": 2, **chosen}]
    columns = {"k": "k", "s": "CASE WHEN o > 0 THEN struct(struct(v) AS of) END"}
    for of, said in (("t", columns), ("gold", {"last": "last"})):
        made = {"table": f"of_{of}", "inputs": [of], "stream": {"columns": said}}
        assert (done := bench.derive_with(made, of)).how == "made", done.why
    assert [one["s"] for one in bench.rows("of_t")] == [None, None, None, {"of": {"v": 6}}]


def test_rows_are_added_beside_others_whatever_spark_says_is_never_null_in_them(bench: Bench) -> None:
    said = {
        "k": "k",
        "l": "array('x')",
        "m": "map('a', k, 'b', 1)",
        "n": "map('a', 1)",
        "s": "struct(1 AS one)",
    }
    rule = {"table": "rows", "inputs": ["t"], "stream": {"columns": said}}
    for number in range(2):
        bench.put({"k": number})
        assert (done := bench.derive(rule)).how != "failed", done.why
    assert len(bench.rows("rows")) == 2
    assert all("metaData" not in entry for entry in log_of(bench.root / "rows")[1:])


def test_rows_are_added_to_a_table_that_says_that_what_structs_have_is_never_null(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As each did before."""
    schema = pa.schema([("k", pa.int64()), ("o", pa.int64())])
    columns = {"s": "CASE WHEN o > 0 THEN struct(struct(k) AS of) END", "l": "array('x')"}
    rule = {"table": "rows", "inputs": ["t"], "stream": {"columns": columns}}
    monkeypatch.setattr(writing, "_SAME", {})
    monkeypatch.setattr(writing, "_may_be_null", lambda kind: kind)
    bench.put({"k": 1, "o": 1}, schema=schema)
    bench.derive(rule)
    monkeypatch.undo()
    for _ in range(2):
        bench.put({"k": 2, "o": None}, schema=schema)
        assert (done := bench.derive(rule)).how == "added", done.why
    assert [one["s"] for one in bench.rows("rows")] == [None, None, {"of": {"k": 1}}]
    assert ["metaData" in entry for entry in log_of(bench.root / "rows")] == [True, True, False]


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
