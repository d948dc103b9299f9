"""Each error as Spark and Delta really raise it: a version that does so otherwise fails here."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from tests.spark_3_5 import require_generated_columns

from distributary.ingest.spark.error_classes import named, overflowed, refused_row, worker_died

pytestmark = pytest.mark.usefixtures("compiled")


def failure(frame: DataFrame) -> Exception:
    """What working a frame out ends with."""
    caught: pytest.ExceptionInfo[Exception]
    with pytest.raises((PySparkException, Py4JError)) as caught:
        frame.write.format("noop").mode("overwrite").save()
    return caught.value


def ends_at_once(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    os._exit(3)
    yield from batches


def is_killed_amid_its_input(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch
        os.kill(os.getpid(), signal.SIGKILL)


def raises(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches
    raise EOFError("Python worker exited unexpectedly")


@pytest.mark.parametrize("dies", [ends_at_once, is_killed_amid_its_input])
def test_a_worker_that_died_is_told_from_other_errors(dies: object, spark: SparkSession) -> None:
    rows = spark.range(0, 300_000, 1, 1).select("id", sql.lit("x" * 100).alias("text"))
    error = failure(rows.mapInArrow(dies, rows.schema))  # type: ignore[arg-type]
    assert worker_died(error)
    assert (refused_row(error), overflowed(error)) == (None, False)


def test_a_worker_that_raised_did_not_die(spark: SparkSession) -> None:
    rows = spark.range(1)
    assert not worker_died(failure(rows.mapInArrow(raises, rows.schema)))
    assert not worker_died(
        failure(rows.select(sql.raise_error(sql.lit("Python worker exited unexpectedly"))))
    )


CHECK_CAST = "USING delta TBLPROPERTIES (delta.constraints.i = 'CAST(a AS INT) > 0')"

# How a table is made, the row that it refuses, and by which error class.
REFUSED = [
    (
        "(a INT) USING delta TBLPROPERTIES (delta.constraints.small = 'a < 9')",
        "9 AS a",
        "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES",
    ),
    (
        "(a INT, b INT NOT NULL) USING delta",
        "1 AS a, CAST(NULL AS INT) AS b",
        "DELTA_NOT_NULL_CONSTRAINT_VIOLATED",
    ),
    ("(a INT, b INT NOT NULL) USING delta", "1 AS a", "DELTA_MISSING_NOT_NULL_COLUMN_VALUE"),
    (
        "(a INT, b INT GENERATED ALWAYS AS (a + 1)) USING delta",
        "1 AS a, 1 AS b",
        "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES",
    ),
    (
        "(a INT, b INT GENERATED ALWAYS AS (a + 1)) USING delta",
        "struct(1) AS a",
        "DELTA_GENERATED_COLUMNS_DATA_TYPE_MISMATCH",
    ),
    (
        "(a INT, b BIGINT GENERATED ALWAYS AS IDENTITY) USING delta",
        "1 AS a, 1L AS b",
        "DELTA_IDENTITY_COLUMNS_EXPLICIT_INSERT_NOT_SUPPORTED",
    ),
    ("(a INT) USING delta", "struct(1) AS a", "DELTA_FAILED_TO_MERGE_FIELDS"),
    ("(a VARCHAR(3)) USING delta", "'long' AS a", "DELTA_EXCEED_CHAR_VARCHAR_LIMIT"),
    (f"(a BIGINT) {CHECK_CAST}", "5000000000 AS a", "CAST_OVERFLOW"),
    (f"(a STRING) {CHECK_CAST}", "'x' AS a", "CAST_INVALID_INPUT"),
    (
        "(a INT) USING delta TBLPROPERTIES (delta.constraints.i = '100 / a > 0')",
        "0 AS a",
        "DIVIDE_BY_ZERO",
    ),
    (
        "(a INT, b INT GENERATED ALWAYS AS (a * 2)) USING delta",
        "2000000000 AS a",
        "ARITHMETIC_OVERFLOW",
    ),
]


# Each makes a table; lighter: the first of them, as all classes stand in one set.
@pytest.mark.parametrize(
    ("made", "row", "by"),
    [*REFUSED[:4], *(pytest.param(*one, marks=pytest.mark.heavy) for one in REFUSED[4:])],
)
def test_a_row_that_is_refused_for_good_is_known_by_its_error_class(
    made: str, row: str, by: str, spark: SparkSession, tmp_path: Path
) -> None:
    require_generated_columns(made)
    table = tmp_path / "table"
    spark.sql(f"CREATE TABLE delta.`{table}` {made}")
    with pytest.raises((PySparkException, Py4JError)) as caught:
        spark.sql(f"SELECT {row}").write.format("delta").mode("append").save(str(table))
    assert refused_row(caught.value) == by
    assert not worker_died(caught.value)


# What Delta's writer leaves to Spark's INSERT.
@pytest.mark.parametrize(
    ("made", "row", "by"),
    [
        ("(a INT) USING delta", "5000000000", "CAST_OVERFLOW_IN_TABLE_INSERT"),
        ("(a VARCHAR(3)) USING parquet", "'long'", "EXCEED_LIMIT_LENGTH"),
    ],
)
def test_a_row_that_is_refused_by_spark_itself_is_known_by_its_error_class(
    made: str, row: str, by: str, spark: SparkSession, tmp_path: Path
) -> None:
    spark.sql(f"CREATE TABLE refusing {made} LOCATION '{tmp_path / 'table'}'")
    try:
        with pytest.raises((PySparkException, Py4JError)) as caught:
            spark.sql(f"INSERT INTO refusing SELECT {row}")
        assert refused_row(caught.value) == by
    finally:
        spark.sql("DROP TABLE refusing")


def test_a_row_is_not_refused_by_what_may_pass(spark: SparkSession, tmp_path: Path) -> None:
    said = sql.raise_error(sql.lit("[DELTA_VIOLATE_CONSTRAINT_WITH_VALUES] in a payload"))
    assert refused_row(failure(spark.range(1).select(said))) is None
    with pytest.raises(PySparkException) as caught:
        spark.read.format("delta").load(str(tmp_path / "nowhere"))
    assert refused_row(caught.value) is None
    assert refused_row(OSError("No space left on device")) is None


def test_a_date_too_large_for_a_timestamp_is_told_from_other_errors(spark: SparkSession) -> None:
    late = sql.expr("date_add(DATE '1970-01-01', CAST(id AS INT) + 200000000)")
    assert overflowed(failure(spark.range(1).select(late.cast("timestamp_ntz"))))
    assert not overflowed(failure(spark.range(1).select(sql.expr("1 / id"))))
    assert not overflowed(failure(spark.range(1).select(sql.raise_error(sql.lit("overflow")))))


def test_an_error_of_the_jvm_is_named_without_its_words(spark: SparkSession) -> None:
    error = failure(spark.range(1).select(sql.expr("CAST(concat('Ada', id) AS INT)")))
    assert "Ada" in str(error)
    assert named(error).endswith("SparkNumberFormatException [CAST_INVALID_INPUT]") and "Ada" not in named(
        error
    )
    assert named(OSError("No space left on device")) == ""
