"""Which source the settings mean: the one place that knows all of them."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager

from pyspark.sql import SparkSession

from distributary.ingest.inputs.delta.channels import open_tables
from distributary.ingest.inputs.from_files import Waits, open_landing, schemas_of_files
from distributary.ingest.inputs.from_kafka import open_kafka
from distributary.ingest.inputs.from_kinesis import open_stream
from distributary.ingest.settings.model import Settings
from distributary.ingest.source.contract import Channels, Tell
from distributary.ingest.storage.opening import open_files
from distributary.registry.base import SchemaRegistry


def open_source(
    settings: Settings,
    spark: SparkSession | None = None,
    stop: threading.Event | None = None,
    tell: Tell | None = None,
) -> AbstractContextManager[Channels]:
    """The source that a pipeline reads, until the block ends; asked within the session's JVM where there is one and it helps.

    With `tell` an outage is told of and waited for. Raises ConfigError for settings that do not work, and Stopped once `stop` is set
    and there is no answer.
    """
    if settings.source.delta is not None:
        return open_tables(settings.source.delta, settings.storage)
    if settings.source.files is not None:
        root = open_files(settings.sink.root, settings.storage)
        waits = Waits(tell, stop or threading.Event())
        return open_landing(
            settings.source,
            settings.source.files,
            root,
            settings.storage,
            pipeline=settings.name,
            archives=not settings.debug_suffix,
            waits=waits,
        )
    if settings.source.kinesis is not None:
        return open_stream(settings, settings.source.kinesis, stop, tell)
    return open_kafka(settings.source, spark, stop, tell=tell)


def schemas_there(settings: Settings) -> SchemaRegistry | None:
    """The schemas that records of the source bring by themselves, as far as they are there now; None where a registry has them, or nobody.

    Nothing is written.
    """
    if settings.source.files is None:
        return None
    root = open_files(settings.sink.root, settings.storage)
    return schemas_of_files(settings.source.files, root, settings.storage)
