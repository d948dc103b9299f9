"""Running a pipeline: what `distributary run` does, as a function."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from distributary.codecs.base import growing, load_codec
from distributary.ingest.inference.entities import infer_entities, keep
from distributary.ingest.inference.topic import infer
from distributary.ingest.pipeline import open_pipeline
from distributary.ingest.progress import Progress, Silent
from distributary.ingest.schemas.entity_location import EntitySchemas, location_of
from distributary.ingest.schemas.hints import hints_of
from distributary.ingest.schemas.mixed import MixedSchemas
from distributary.ingest.settings.model import Settings
from distributary.ingest.spark.session import spark_session
from distributary.ingest.supervisor import Outcome, Supervisor
from distributary.registry.base import SchemaRegistry
from distributary.registry.confluent.registry import ConfluentRegistry
from distributary.registry.disk.cache import DiskCache, Notice, to_log


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
    watch = progress or Silent()
    with schemas_of(settings, session, lambda notice: watch.waiting(notice.text, 0.0)) as own:
        return _run(settings, session, own, progress or Silent(), stop or threading.Event())


@contextmanager
def schemas_of(
    settings: Settings, spark: SparkSession, tell: Callable[[Notice], None] = to_log
) -> Iterator[SchemaRegistry]:
    """Where the settings' schemas come from: the registry, the location of the one that is inferred, or both.

    Where no record names its schema, a location that is empty gets its first version, inferred from what the topics hold
    now. `tell` is told when the registry's answers come from its cache.
    """
    codec = load_codec(settings.decode.format)
    if codec.registered:
        with ConfluentRegistry(settings.registry) as registry:
            cache = settings.registry.cache
            known = (
                registry if cache is None else DiskCache(registry, cache, str(settings.registry.url), tell)
            )
            if growing(codec) is None:
                yield known
                return
            hints = hints_of(settings.decode.schema_hints)
            yield MixedSchemas(known, location_of(settings), hints.json())
        return
    location = location_of(settings)
    if isinstance(location, EntitySchemas):
        if not location.names():
            keep(location, infer_entities(spark, settings))
    elif location.latest() is None:
        location.register(location.subject, infer(spark, settings).text)
    yield location


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
