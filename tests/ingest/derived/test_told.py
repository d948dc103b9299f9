"""What a derived table's commits say of it, where others made some of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from tests.ingest.derived.test_refresh import Bench, aggregate
from tests.ingest.derived.test_streams import WINDOWS, seen, windows

from distributary.ingest.derived.told import told_by
from distributary.ingest.storage.opening import open_files
from distributary.ingest.storage.place import Place

pytestmark = [pytest.mark.spark]


@pytest.fixture
def bench(tmp_path: Path, spark: SparkSession) -> Bench:
    return Bench(tmp_path, spark)


def test_windows_of_a_table_that_was_put_back_are_not_missed_in_silence(bench: Bench) -> None:
    bench.put(seen(1), seen(12))
    assert bench.derive(WINDOWS).rows == 1
    bench.put(seen(25))
    assert bench.derive(WINDOWS).rows == 1
    DeltaTable(str(bench.root / "gold")).restore(0)
    bench.put(seen(40))
    failed = bench.derive(WINDOWS)
    assert failed.how == "failed"
    assert "it was put back to an earlier version" in failed.why
    assert bench.derive(WINDOWS, whole=True).how == "made"
    assert [one[0] for one in windows(bench)] == [0, 10, 20]
    bench.put(seen(55))
    assert bench.derive(WINDOWS).how == "added"


def test_of_which_columns_others_are_made_its_newest_version_says(bench: Bench) -> None:
    rule = aggregate("lower(k) AS kind", n="count(*)", last="max(at)")
    files = open_files(Place.parse(str(bench.root))).below("gold")
    for how in ("made", "added"):
        bench.put({"k": "A", "at": 1})
        assert bench.derive(rule).how == how
        _, told = told_by(files)
        assert told is not None
        of = {
            name: [(one.table, one.column, one.how) for one in found] for name, found in told.columns.items()
        }
        assert of["kind"] == [("t", "k", "TRANSFORMATION")]
        assert of["last"] == [("t", "at", "AGGREGATION")]
