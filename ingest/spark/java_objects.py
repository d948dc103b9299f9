"""Columns and frames of objects of the JVM, which Spark 4 makes in another way than Spark 3.5."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyspark
from pyspark import SparkContext

# Spark 4 has a second kind of each, for Spark Connect.
_CLASSIC = not pyspark.__version__.startswith("3.")

if _CLASSIC:
    from pyspark.sql.classic.column import Column as OwnColumn
    from pyspark.sql.classic.dataframe import DataFrame as OwnFrame
else:
    from pyspark.sql import Column as OwnColumn  # type: ignore[assignment]
    from pyspark.sql import DataFrame as OwnFrame  # type: ignore[assignment]

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


def expression_of(jvm: Any, column: Column) -> Any:
    """The expression (a Java object) that a column stands for."""
    java: Any = column._jc
    return jvm.org.apache.spark.sql.classic.ExpressionUtils.expression(java) if _CLASSIC else java.expr()


def column_of(jvm: Any, expression: Any) -> Column:
    """The column that stands for an expression."""
    sql = jvm.org.apache.spark.sql
    return OwnColumn(sql.classic.ExpressionUtils.column(expression) if _CLASSIC else sql.Column(expression))


def tried(value: Column) -> Column:
    """NULL where it fails. SQL has this for some functions, by names that begin with `try_`, and for no expression."""
    jvm = SparkContext._jvm
    if jvm is None:
        raise ValueError("a column is made without a Spark session")
    return column_of(jvm, jvm.org.apache.spark.sql.catalyst.expressions.TryEval(expression_of(jvm, value)))


def frame_of(java_frame: Any, session: SparkSession) -> DataFrame:
    """The frame of a Java `Dataset`."""
    return OwnFrame(java_frame, session)
