"""Derived tables that are made by a function or a query of the user's own, which fails: nothing that rows say is told."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from tests.ingest.derived.test_refresh import Bench

from distributary.ingest.spark.jvm import jvm_needed

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


class Kept(logging.Handler):
    """Keeps what is logged."""

    def __init__(self) -> None:
        super().__init__()
        self.told = list[str]()

    def emit(self, record: logging.LogRecord) -> None:
        self.told.append(record.getMessage())


@pytest.fixture
def by_pyspark(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What PySpark logs of errors of queries in SQL."""
    logger = pytest.importorskip("pyspark.logger").PySparkLogger.getLogger("SQLQueryContextLogger")
    # Another test may have had a command run in this process, which keeps PySpark from it altogether, or asks for all.
    monkeypatch.setattr(logger, "disabled", False)
    monkeypatch.setattr(logging.getLogger("distributary"), "level", logging.NOTSET)
    logger.addHandler(kept := Kept())
    yield kept.told
    logger.removeHandler(kept)


def test_of_a_query_that_rows_make_fail_pyspark_logs_no_words_and_logs_those_of_others(
    tmp_path: Path, spark: SparkSession, by_pyspark: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    """It does so before it raises the error, in a program that runs a pipeline, too: there they were on standard error."""
    bench = Bench(tmp_path / "lake", spark)
    bench.put({"k": 1})
    # Before any task begins, of which each would be tried four times; of a row's value it says the same.
    fails = {"table": "gold", "inputs": ["t"], "sql": "SELECT cast('secret' AS INT) AS k FROM t"}
    with jvm_needed():
        assert "CAST_INVALID_INPUT" in bench.derive(fails).why
    assert by_pyspark == []
    with pytest.raises(PySparkException):
        spark.sql("SELECT cast('mine' AS INT)").collect()
    assert len(by_pyspark) == 1
    with caplog.at_level(logging.DEBUG, "distributary"):
        bench.derive(fails)
    assert "secret" in by_pyspark[-1]
