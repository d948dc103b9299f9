"""Running a pipeline: what `distributary run` does, as a function."""

from __future__ import annotations

import threading

from pyspark.sql import SparkSession

from distributary.ingest.pipeline import open_pipeline
from distributary.ingest.progress import Progress, Silent
from distributary.ingest.settings import Settings
from distributary.ingest.spark_session import spark_session
from distributary.ingest.supervisor import Outcome, Supervisor
from distributary.registry.base import SchemaRegistry
from distributary.registry.confluent import ConfluentRegistry


def run(
    settings: Settings,
    progress: Progress | None = None,
    stop: threading.Event | None = None,
    spark: SparkSession | None = None,
    registry: SchemaRegistry | None = None,
) -> Outcome:
    """Run a pipeline until it is done, told to stop, or cannot go on; then a DistributaryError says why.

    Without `spark` the settings' session is made (or the process's own is used); without `registry` the settings'.
    """
    session = spark or spark_session(settings.name, settings.spark.master, spark_conf(settings))
    if registry is not None:
        return _run(settings, session, registry, progress or Silent(), stop or threading.Event())
    with ConfluentRegistry(settings.registry.options()) as own:
        return _run(settings, session, own, progress or Silent(), stop or threading.Event())


def spark_conf(settings: Settings) -> dict[str, str]:
    """What the settings say of the Spark session."""
    return {
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(settings.limits.arrow_rows),
        **settings.spark.conf,
    }


def _run(
    settings: Settings,
    spark: SparkSession,
    registry: SchemaRegistry,
    progress: Progress,
    stop: threading.Event,
) -> Outcome:
    with open_pipeline(settings, spark, registry) as pipeline:
        return Supervisor(pipeline, progress, stop).run()
