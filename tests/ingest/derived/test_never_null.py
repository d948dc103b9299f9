"""What Spark knows to be never null within a column, as the pieces of a text: a table says of nothing that it is, and keeps it current all the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from tests.ingest.derived.test_refresh import Bench, aggregate

pytestmark = [pytest.mark.spark]


@pytest.fixture
def bench(tmp_path: Path, spark: SparkSession) -> Bench:
    return Bench(tmp_path, spark)


def test_a_stream_goes_on(bench: Bench) -> None:
    """Each turn behind the first one failed for ever, as if its rows were of another type."""
    columns = {"tags": "split(city, ',')", "one": "struct(1 AS a)", "m": "map('a', 1)"}
    rule: dict[str, Any] = {"table": "gold", "inputs": ["t"], "stream": {"columns": columns}}
    bench.put({"city": "Ulm,Bonn"})
    assert bench.derive(rule).how == "made"
    bench.put({"city": "Ulm"})
    done = bench.derive(rule)
    assert (done.how, done.why) == ("added", "")
    assert [one["tags"] for one in bench.rows()] == [["Ulm", "Bonn"], ["Ulm"]]


def test_a_group_without_an_order_has_no_value(bench: Bench) -> None:
    """It failed, and told of nothing but Python."""
    rule = aggregate("k", last="max_by(struct(*), o)", is_there="max_by(1, o)")
    bench.put({"k": 1, "o": 1}, {"k": 2, "o": None})
    done = bench.derive(rule)
    assert (done.how, done.why) == ("made", "")
    expected = [
        {"k": 1, "last": {"k": 1, "o": 1}, "is_there": 1},
        {"k": 2, "last": None, "is_there": None},
    ]
    assert bench.rows() == expected
    bench.put({"k": 2, "o": None})
    bench.assert_kept_current(rule)


def test_what_people_say_of_columns_stays_when_others_come(bench: Bench) -> None:
    """Their comments were gone with the first column that was added."""
    bench.put({"k": 1, "v": 2})
    bench.derive({"table": "gold", "inputs": ["t"], "sql": "SELECT k FROM t"})
    DeltaTable(str(bench.root / "gold")).alter.set_column_metadata("k", {"comment": "whose it is"})
    done = bench.derive({"table": "gold", "inputs": ["t"], "sql": "SELECT v, k FROM t"})
    assert (done.how, done.why) == ("made", "")
    fields = DeltaTable(str(bench.root / "gold")).schema().fields
    assert {one.name: one.metadata for one in fields} == {"v": {}, "k": {"comment": "whose it is"}}
