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
from distributary.ingest.batch.attempt import Attempts, Run
from distributary.ingest.batch.finish import Finisher
from distributary.ingest.batch.passes import Workers
from distributary.ingest.batch.rewrite import Rewriter
from distributary.ingest.batch.runner import BatchRunner, Done
from distributary.ingest.batch.spark_decode import check_decoders
from distributary.ingest.batch.sweep import sweep
from distributary.ingest.checkpoint.against_spark import check_continuity
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
from distributary.ingest.evolution.rules import RunRules, rules_of, worker_policies
from distributary.ingest.kafka.cluster import KafkaCluster
from distributary.ingest.kafka.offsets import ends
from distributary.ingest.kafka.records import record_headers
from distributary.ingest.kafka.source import TopicReader, complete, warm_up
from distributary.ingest.pins import Decoding, WorkerRules
from distributary.ingest.progress import Progress
from distributary.ingest.routing.read_ahead import ReadExpression, read_in_session
from distributary.ingest.schemas.known_schemas import SchemaBook, same_columns
from distributary.ingest.schemas.pinned_schemas import PinsStore
from distributary.ingest.schemas.registry_wait import RegistryWait
from distributary.ingest.schemas.subjects import inferred_subject, key_subjects, value_subjects
from distributary.ingest.settings.groups import Decode, Route, Sink
from distributary.ingest.settings.model import Settings
from distributary.ingest.tables.known_tables import TableBook
from distributary.ingest.tables.log_commit import NativeCommits
from distributary.registry.base import SchemaRegistry


@dataclass(frozen=True)
class Pipeline:
    """The parts of a run. It holds the checkpoint's lease while it is open."""

    settings: Settings
    run: Run
    topics: TopicReader
    registry: SchemaRegistry
    kafka: KafkaCluster
    finisher: Finisher
    rewriter: Rewriter

    def records_waiting(self) -> int:
        """How many offsets lie between where this run begins and the end of the topics, as of now."""
        last, begun = self.run.manifests.last(), self.run.generation.start.offsets
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
        schemas = self._values(progress, stop)
        keys = self._keys(progress, stop, schemas) if self.settings.decode.key == "auto" else None
        attempts = Attempts(self.run, schemas, keys)
        return BatchRunner(attempts, self.finisher, self.rewriter, on_start, on_done)

    def _values(self, progress: Progress, stop: threading.Event) -> SchemaBook:
        """The schemas of values: every version of the subjects that are watched, and what was met before."""
        chosen, decode = self.settings, self.settings.decode
        codec = load_codec(decode.format)
        if decode.check == "schema":
            codec = validating(codec)
        store, wait = PinsStore(self.run.checkpoint, same_columns(codec)), RegistryWait(progress, stop)
        schemas = SchemaBook(codec, self.registry, store, wait, chosen.registry.unknown_id_cache_seconds)
        subjects = value_subjects(chosen.source, chosen.registry, decode)
        schemas.open(subjects, inferred_subject(chosen.name, decode))
        if decode.engine == "spark":
            check_decoders(codec, schemas.records)
        return schemas

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
        records = self.topics.stream(self.settings.limits.batch_rows, start)
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
    expression = _expression(spark, settings.route, settings.decode)
    checkpoint = Checkpoint(settings.checkpoint)
    with Lease(checkpoint, spark, settings.name) as lease:
        checkpoint.make()
        checkpoint.sweep()
        generation = _generation(settings, kafka, checkpoint)
        _sweep_tables(settings.sink, checkpoint, generation)
        topics = TopicReader.of(spark, settings.name, settings.source, settings.route)
        _warm_up_once(topics, kafka)
        root, columns, native = str(settings.sink.root), settings.sink.columns, NativeCommits()
        run = Run(
            pipeline=settings.name,
            checkpoint=checkpoint,
            generation=generation,
            lease=lease,
            tables=TableBook(root, columns, spark, settings.limits.commit_threads, native),
            rules=run_rules(settings, expression),
            workers=Workers(
                spark.sparkContext.defaultParallelism,
                record_headers(settings.source, settings.route),
                settings.limits.arrow_rows,
            ),
        )
        yield Pipeline(
            settings=settings,
            run=run,
            topics=topics,
            registry=registry,
            kafka=kafka,
            finisher=Finisher(columns, checkpoint, run.tables, native, generation.lineage),
            rewriter=Rewriter(checkpoint, run.workers),
        )


def run_rules(settings: Settings, expression: ReadExpression | None = None) -> RunRules:
    """What the settings say of a run's batches; `expression` is what they route by, for `route.by: expression`."""
    decode, policies = settings.decode, settings.policies
    workers = WorkerRules(
        decoding=Decoding(
            codec=decode.format,
            engine=decode.engine,
            check=decode.check,
            by_entity=decode.schema_per == "entity",
            max_fields=decode.max_fields,
        ),
        topics=settings.source.topics,
        route=settings.route,
        columns=settings.sink.columns,
        policies=worker_policies(decode, policies),
        worker_bytes=settings.limits.worker_bytes,
        expression=expression.tree if expression else None,
        max_questions=settings.registry.max_unknown_ids,
    )
    return RunRules(decode, workers, rules_of(decode, policies, settings.route, settings.sink, expression))


def _expression(spark: SparkSession, route: Route, decode: Decode) -> ReadExpression | None:
    """What records are routed by, if by an expression. Raises ConfigError for one that cannot be read."""
    if route.expression is None:
        return None
    return read_in_session(spark, route.expression, native=decode.engine == "arrow")


def _generation(settings: Settings, kafka: KafkaCluster, checkpoint: Checkpoint) -> Generation:
    generation = read_generation(checkpoint)
    check_continuity(checkpoint, generation, ManifestStore(checkpoint))
    told = fingerprint(settings.source, settings.route, settings.decode, settings.sink)
    world = World(kafka.cluster_id(), kafka.topic_ids(), told)
    if generation is not None:
        check_same_world(generation, world)
        return generation
    root = str(settings.sink.root)
    start = start_from(root, settings.start, earlier_commits(root))
    return born(checkpoint, settings.name, world, start)


# Kept by the session whose workers have been warmed: they live as long as it does.
_WARM = "spark.distributary.workersWarm"


def _warm_up_once(topics: TopicReader, kafka: KafkaCluster) -> None:
    conf = topics.spark.conf
    if not conf.get(_WARM, ""):
        warm_up(topics, kafka, ["distributary.ingest.worker.demux"])
        conf.set(_WARM, "true")


def _sweep_tables(sink: Sink, checkpoint: Checkpoint, generation: Generation) -> None:
    shutil.rmtree(checkpoint.aside, ignore_errors=True)
    sink.root.mkdir(parents=True, exist_ok=True)
    last = ManifestStore(checkpoint).last_batch()
    sweep(sink.root, generation.id, range(0 if last is None else last + 1))
