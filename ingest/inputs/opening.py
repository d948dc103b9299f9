"""Which source the settings mean: the one place that knows all of them."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager
from functools import partial

from pyspark.sql import SparkSession

from distributary.ingest.checkpoint.folder import Checkpoint
from distributary.ingest.checkpoint.generation import read_generation
from distributary.ingest.inputs.delta.channels import open_tables
from distributary.ingest.inputs.from_files import open_landing
from distributary.ingest.inputs.from_kafka import open_kafka
from distributary.ingest.inputs.from_kinesis import open_stream
from distributary.ingest.inputs.waits import Waits
from distributary.ingest.settings.model import Settings
from distributary.ingest.source.contract import Channels, Tell
from distributary.ingest.storage.opening import open_files
from distributary.ingest.upkeep.whose.by_ledger import reads_again


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
    waits = Waits(tell, stop or threading.Event())
    if settings.source.delta is not None:
        return open_tables(settings.source.delta, settings.storage, waits)
    if settings.source.files is not None:
        root = open_files(settings.sink.root, settings.storage)
        return open_landing(
            settings.source,
            settings.source.files,
            root,
            settings.storage,
            pipeline=settings.name,
            archives=not settings.debug_suffix,
            reads_again=partial(_reads_again, settings),
            waits=waits,
        )
    if settings.source.kinesis is not None:
        return open_stream(settings, settings.source.kinesis, stop, tell)
    return open_kafka(settings.source, spark, stop, tell=tell)


def _reads_again(settings: Settings) -> bool:
    """Whether the checkpoint reads again what was read before, whatever the settings say by now."""
    generation = read_generation(Checkpoint(open_files(settings.checkpoint, settings.storage)))
    root = open_files(settings.sink.root, settings.storage)
    return generation is not None and reads_again(root, generation, settings.name)
