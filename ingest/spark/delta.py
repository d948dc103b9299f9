"""Delta's own library in Spark's JVM, which only tables that delta-rs does not master need."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from distributary.ingest.spark.configuration import DELTA_CATALOG, DELTA_EXTENSION
from distributary.ingest.spark.jvm import is_on_class_path
from distributary.ingest.spark.supported import line_of, spark_line

# Databricks has a Delta without it.
_LOG = "org.apache.spark.sql.delta.DeltaLog"

_EXTENSIONS, _CATALOG = "spark.sql.extensions", "spark.sql.catalog.spark_catalog"

SUBMIT_WITH = 'spark-submit --jars "$(distributary jars --paths)"'


def why_no_delta(session: SparkSession) -> str | None:
    """Why Spark cannot write Delta tables in this session as distributary wants them, and what to do; None where it can."""
    jvm: Any = session.sparkContext._jvm
    if not is_on_class_path(jvm, _LOG):
        return (
            f"Delta is not on the class path of this Spark session: start it with {SUBMIT_WITH}, or let distributary make the"
            " session"
        )
    line = spark_line(session.version)
    found = _delta_version(jvm)
    if line is not None and line_of(found) != line_of(line.delta_revision):
        return (
            f"Delta {found} is on Spark's class path, but distributary needs {line_of(line.delta_revision)}.x there: take the"
            " other jars away, or submit with the ones that distributary fetches"
        )
    for key, value in ((_EXTENSIONS, DELTA_EXTENSION), (_CATALOG, DELTA_CATALOG)):
        if value not in (session.conf.get(key, "") or "").split(","):
            return (
                f"this Spark session was made without {key}={value}, which Delta needs: set it before the session is made, or"
                " let distributary make the session"
            )
    return None


def _delta_version(jvm: Any) -> str:
    # VERSION is in a Scala package object, whose names are no Python identifiers.
    return str(getattr(getattr(jvm.io.delta, "package$"), "MODULE$").VERSION())
