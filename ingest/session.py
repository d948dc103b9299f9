"""The Spark session of a pipeline: the process's own, or one made as the settings say."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark import SparkContext
from pyspark.sql import SparkSession

from distributary.ingest.catalog.metastore import session_settings
from distributary.ingest.settings.catalog import Catalog
from distributary.ingest.settings.groups import Limits, Spark
from distributary.ingest.settings.model import Settings
from distributary.ingest.spark.configuration import laid_over
from distributary.ingest.spark.jvm import jvm_needed, stop_session
from distributary.ingest.spark.session import spark_session


@contextmanager
def pipeline_session(settings: Settings) -> Iterator[SparkSession]:
    """A session for the block. One that the process has already is used and left; another ends with the block.

    Raises SetupError, and JvmDied for whatever fails in the block because Spark's JVM died.
    """
    ours = SparkContext._active_spark_context is None
    with jvm_needed():
        session = made_for(settings)
        try:
            yield session
        finally:
            if ours:
                stop_session(session)


def made_for(settings: Settings) -> SparkSession:
    """The session of this process, made as the settings say if there is none. Raises SetupError."""
    return spark_session(
        settings.name, settings.spark.master, spark_conf(settings.spark, settings.limits, settings.catalog)
    )


def spark_conf(spark: Spark, limits: Limits, catalog: Catalog | None = None) -> dict[str, str]:
    """What the settings say of the Spark session."""
    ours = {
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(limits.arrow_rows),
        **session_settings(catalog, spark.conf),
    }
    return laid_over(ours, spark.conf)
