"""A pipeline put together from its settings: the parts that live as long as the run."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from distributary.codecs.base import load_codec, validating
from distributary.codecs.mixed.keys import KeyCodec
from distributary.ingest.batch.finish import Finisher
from distributary.ingest.batch.passes import Workers
from distributary.ingest.batch.rewrite import Rewriter
from distributary.ingest.batch.runner import BatchRunner, Done, Run, RunMemory, worker_rules
from distributary.ingest.batch.spark_decode import check_decoders
from distributary.ingest.batch.sweep import sweep
from distributary.ingest.checkpoint.consistency import check_continuity
from distributary.ingest.checkpoint.earlier_runs import earlier_commits, start_from
from distributary.ingest.checkpoint.folder import Checkpoint
from distributary.ingest.checkpoint.generation import (
    Generation,
    World,
    born,
    check_same_world,
    fingerprint,
    read_generation,
)
from distributary.ingest.checkpoint.lease import Lease
from distributary.ingest.checkpoint.manifest_file import ManifestStore
from distributary.ingest.evolution.rules import rules_of
from distributary.ingest.kafka.cluster import KafkaCluster
from distributary.ingest.kafka.offsets import ends
from distributary.ingest.kafka.records import record_headers
from distributary.ingest.kafka.source import complete, read_stream, warm_up
from distributary.ingest.progress import Progress
from distributary.ingest.routing.read_ahead import ReadExpression, read_in_session
from distributary.ingest.schemas.known_schemas import SchemaBook, same_columns
from distributary.ingest.schemas.registry_wait import RegistryWait
from distributary.ingest.schemas.store import PinsStore
from distributary.ingest.schemas.subjects import inferred_subject, key_subjects, value_subjects
from distributary.ingest.settings.model import Settings
from distributary.ingest.tables.known_tables import TableBook
from distributary.ingest.tables.log_commit import NativeCommits
from distributary.registry.base import SchemaRegistry


@dataclass(frozen=True)
class Pipeline:
    """The parts of a run. It holds the checkpoint's lease while it is open."""

    run: Run
    memory: RunMemory
    spark: SparkSession
    registry: SchemaRegistry
    kafka: KafkaCluster
    finisher: Finisher
    rewriter: Rewriter

    @property
    def settings(self) -> Settings:
        """What the run was told."""
        return self.run.settings

    def records_waiting(self) -> int:
        """How many offsets lie between where this run begins and the end of the topics, as of now."""
        last, begun = ManifestStore(self.run.checkpoint).last(), self.run.generation.start.offsets
        read = ends(last.offsets) if last else begun or self.kafka.earliest_offsets()
        return sum(offsets for partitions in self.kafka.lag(read).values() for offsets in partitions.values())

    def batch_runner(
        self,
        progress: Progress,
        stop: threading.Event,
        on_start: Callable[[int], None],
        on_done: Callable[[Done], None],
    ) -> BatchRunner:
        """What one query calls with its batches, with every schema pinned that is known now."""
        codec = load_codec(self.settings.decode.format)
        if self.settings.decode.check == "schema":
            codec = validating(codec)
        schemas = SchemaBook(
            codec,
            self.registry,
            PinsStore(self.run.checkpoint, same_columns(codec)),
            RegistryWait(progress, stop),
            self.settings.registry.unknown_id_cache_seconds,
        )
        chosen = self.settings
        subjects = value_subjects(chosen.source, chosen.registry, chosen.decode)
        schemas.open(subjects, inferred_subject(chosen.name, chosen.decode))
        if self.settings.decode.engine == "spark":
            check_decoders(codec, schemas.records)
        keys = self._keys(progress, stop, schemas) if self.settings.decode.key == "auto" else None
        return BatchRunner(
            run=self.run,
            memory=self.memory,
            finisher=self.finisher,
            rewriter=self.rewriter,
            schemas=schemas,
            keys=keys,
            on_start=on_start,
            on_done=on_done,
        )

    def _keys(self, progress: Progress, stop: threading.Event, values: SchemaBook) -> SchemaBook:
        """The schemas of keys: every version of the topics' subjects for them, and what was met before."""
        store, wait = PinsStore(self.run.checkpoint, of="keys"), RegistryWait(progress, stop)
        seconds = self.settings.registry.unknown_id_cache_seconds
        keys = SchemaBook(KeyCodec(), self.registry, store, wait, seconds)
        # A start that needs no registry for its values does not wait for one because of keys.
        keys.open(key_subjects(self.settings.source), waiting=not values.records)
        return keys

    def start(self, process: Any) -> StreamingQuery:
        """The streaming query, started; `process` is called with each batch."""
        start = self.run.generation.start.offsets
        if start is not None:
            start = complete(start, self.kafka.partitions())
        records = read_stream(self.spark, self.settings, start)
        trigger = self.settings.trigger
        writer = (
            records.writeStream.queryName(self.settings.name)
            .foreachBatch(process)
            .option("checkpointLocation", str(self.run.checkpoint.folder))
        )
        if trigger.available_now:
            return writer.trigger(availableNow=True).start()
        return writer.trigger(processingTime=f"{int(trigger.interval_seconds * 1000)} milliseconds").start()


@contextmanager
def open_pipeline(
    settings: Settings, spark: SparkSession, registry: SchemaRegistry, kafka: KafkaCluster
) -> Iterator[Pipeline]:
    """The pipeline with its lease held, its identity checked, and leftovers of crashes swept."""
    expression = _expression(spark, settings)
    checkpoint = Checkpoint(settings.checkpoint)
    with Lease(checkpoint, spark, settings.name) as lease:
        checkpoint.make()
        checkpoint.sweep()
        generation = _generation(settings, kafka, checkpoint)
        _sweep_tables(settings, checkpoint, generation)
        _warm_up_once(spark, settings, kafka)
        root, columns, native = str(settings.sink.root), settings.sink.columns, NativeCommits()
        run = Run(
            settings=settings,
            checkpoint=checkpoint,
            generation=generation,
            lease=lease,
            tables=TableBook(root, columns, spark, settings.limits.commit_threads, native),
            rules=worker_rules(settings, expression.tree if expression else None),
            changes=rules_of(settings, expression),
            workers=Workers(
                spark.sparkContext.defaultParallelism, record_headers(settings.source, settings.route)
            ),
        )
        yield Pipeline(
            run=run,
            memory=RunMemory(),
            spark=spark,
            registry=registry,
            kafka=kafka,
            finisher=Finisher(settings, checkpoint, run.tables, native, generation.lineage),
            rewriter=Rewriter(checkpoint, run.workers),
        )


def _expression(spark: SparkSession, settings: Settings) -> ReadExpression | None:
    """What records are routed by, if by an expression. Raises ConfigError for one that cannot be read."""
    text = settings.route.expression
    if text is None:
        return None
    return read_in_session(spark, text, native=settings.decode.engine == "arrow")


def _generation(settings: Settings, kafka: KafkaCluster, checkpoint: Checkpoint) -> Generation:
    generation = read_generation(checkpoint)
    check_continuity(checkpoint, generation, ManifestStore(checkpoint))
    world = World(kafka.cluster_id(), kafka.topic_ids(), fingerprint(settings))
    if generation is not None:
        check_same_world(generation, world)
        return generation
    root = str(settings.sink.root)
    start = start_from(root, settings.start, earlier_commits(root))
    return born(checkpoint, settings.name, world, start)


# Kept by the session whose workers have been warmed: they live as long as it does.
_WARM = "spark.distributary.workersWarm"


def _warm_up_once(spark: SparkSession, settings: Settings, kafka: KafkaCluster) -> None:
    if not spark.conf.get(_WARM, ""):
        warm_up(spark, settings, kafka, ["distributary.ingest.worker.demux"])
        spark.conf.set(_WARM, "true")


def _sweep_tables(settings: Settings, checkpoint: Checkpoint, generation: Generation) -> None:
    shutil.rmtree(checkpoint.aside, ignore_errors=True)
    settings.sink.root.mkdir(parents=True, exist_ok=True)
    last = ManifestStore(checkpoint).last_batch()
    sweep(settings.sink.root, generation.id, range(0 if last is None else last + 1))
