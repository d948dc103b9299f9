"""What tests take from PySpark 4, and PySpark 3.5 has under another name or not at all."""

from __future__ import annotations

import pyarrow as pa
import pyspark
import pytest
from pyspark.sql import DataFrame

OLD = pyspark.__version__.startswith("3.")


def lend() -> None:
    """Let a frame of Spark 3.5 be asked for its rows as Spark 4's is."""
    if OLD:
        DataFrame.toArrow = _rows  # type: ignore[method-assign, assignment]


def _rows(frame: DataFrame) -> pa.Table:
    return pa.Table.from_batches(frame._collect_as_arrow())  # type: ignore[operator]


def require_generated_columns(ddl: str) -> None:
    """Skip a test whose table has columns that only the SQL of Spark 4 can make."""
    if OLD and "GENERATED" in ddl:
        pytest.skip("the SQL of Spark 3.5 makes no table with generated columns")
