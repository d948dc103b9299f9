"""Derived tables that are made by a function of the user's own."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.ingest.derived.test_refresh import Bench

pytestmark = [pytest.mark.spark]

OPENS_WHAT_ROWS_SAY = """def one(spark, tables):
    def opened(batches):
        open("/nowhere/secret")
        yield from batches
    return tables["t"].mapInArrow(opened, "k long")
"""


def test_of_an_error_that_rows_meet_in_one_no_words_are_told(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which file it opens a row may say."""
    bench = Bench(tmp_path / "lake", spark)
    bench.put({"k": 1})
    (tmp_path / "tables_of_rows.py").write_text(OPENS_WHAT_ROWS_SAY)
    monkeypatch.syspath_prepend(str(tmp_path))
    failed = bench.derive({"table": "gold", "inputs": ["t"], "python": "tables_of_rows:one"})
    assert failed.how == "failed"
    assert "secret" not in failed.why
    assert "PythonException" in failed.why
