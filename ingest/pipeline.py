"""A pipeline put together from its settings: the parts that live as long as the run."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from socket import gethostname
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from distributary.codecs.base import load_codec, validating
from distributary.codecs.mixed.keys import KeyCodec
from distributary.errors import EvolutionStopped
from distributary.ingest.batch.attempt import Attempts, Run
from distributary.ingest.batch.decide import code_version
from distributary.ingest.batch.finish import Finisher
from distributary.ingest.batch.passes import Workers
from distributary.ingest.batch.rewrite import Rewriter
from distributary.ingest.batch.runner import BatchRunner, Done
from distributary.ingest.batch.spark_decode import check_decoders
from distributary.ingest.batch.sweep import sweep_drafts
from distributary.ingest.batch.waiting_records import forget_waiting, place_aside
from distributary.ingest.beginnings import (
    Rereading,
    after_others,
    as_read_now,
    placed_within,
    require_order_again,
    tell_back,
    within,
)
from distributary.ingest.catalog.registering import TableNames
from distributary.ingest.checkpoint import old_layout
from distributary.ingest.checkpoint.folder import KEYS, Checkpoint, checkpoint_at
from distributary.ingest.checkpoint.generation import (
    Generation,
    World,
    app_of,
    born,
    check_same_topics,
    check_same_world,
    fingerprint,
    read_generation,
)
from distributary.ingest.checkpoint.manifests import manifest_of
from distributary.ingest.checkpoint.spark_files import SparkFiles
from distributary.ingest.commit_log.entries import Owner, Process, Standing
from distributary.ingest.commit_log.owners import Owners
from distributary.ingest.commit_log.writing import Writer, begin
from distributary.ingest.evolution.rules import RunRules
from distributary.ingest.handover.heritage import Heritage
from distributary.ingest.handover.reaching import Reaching
from distributary.ingest.kafka.offsets import Offsets, Positions, highest
from distributary.ingest.kafka.offsets import ends as ends_of
from distributary.ingest.kafka.records import record_headers
from distributary.ingest.kafka.source import (
    Lost,
    complete,
    lost,
    require_not_back,
    require_there,
)
from distributary.ingest.lease.holding import held
from distributary.ingest.lease.keeper import Keeper
from distributary.ingest.progress import Progress
from distributary.ingest.running.rules import conditions_of, expression_of, run_rules
from distributary.ingest.schemas.from_columns import brought, keep
from distributary.ingest.schemas.known import SchemaBook, same_columns
from distributary.ingest.schemas.pinned import PinsStore
from distributary.ingest.schemas.registry_wait import RegistryWait
from distributary.ingest.schemas.subjects import inferred_subject, key_subjects, value_subjects
from distributary.ingest.settings.catalog import Catalog
from distributary.ingest.settings.model import Settings
from distributary.ingest.source.contract import Channels, Records
from distributary.ingest.source.moments import first_offsets, last_offsets
from distributary.ingest.spark.workers import require_workers
from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.opening import open_files, tables_at
from distributary.ingest.storage.probe import require_usable
from distributary.ingest.tables.change import LOG_RETENTION, log_retention
from distributary.ingest.tables.known import MadeWith, TableBook, folder_of_topics
from distributary.ingest.tables.log_commit import NativeCommits
from distributary.registry.base import SchemaRegistry


@dataclass(frozen=True)
class Pipeline:
    """The parts of a run. While it is open it writes the checkpoint's log, and holds its lease."""

    settings: Settings
    run: Run
    topics: Records
    registry: SchemaRegistry
    channels: Channels
    finisher: Finisher
    rewriter: Rewriter
    names: TableNames | None = None

    def records_waiting(self) -> int | None:
        """How many offsets lie between where this run begins and where it ends: the end of the topics, as of now, unless the settings say; None where that is told bit by bit."""
        if self.comes_to_an_end and self.channels.ends_by_itself:
            return None
        return _waiting(self.channels, self.run.log.so_far, self.ends)

    @cached_property
    def ends(self) -> Positions | None:
        """The first offset of each partition that this run reads no more, looked up once; None where it reads what comes."""
        ends = last_offsets(self.settings.source.until, self.channels)
        # What is there now, where no stream of Spark's looks that up, and the source does not by itself.
        if ends is not None or not self.comes_to_an_end or self.channels.ends_by_itself:
            return ends
        # What became of what was read is told by who knows what was.
        self.channels.lag(self.run.log.so_far.ends)
        return self.channels.end_offsets()

    @property
    def comes_to_an_end(self) -> bool:
        """Whether ranges are read up to an end that this run has, be it known in offsets or not."""
        once = self.settings.trigger.available_now and not self.topics.streams
        return once or self.settings.source.until is not None

    def next_range(self) -> Offsets:
        """What comes next before the end that this run has, or before the one that there is now; nothing where that is reached."""
        read = complete(self.run.log.so_far.ends, self.channels.partitions())
        ends = self.ends
        if ends is None:
            ends = self.channels.ends() if self.channels.ends_by_itself else self.channels.end_offsets()
        return self.topics.next_range(read, ends, self.settings.limits.batch_rows)

    def learned(self, offsets: Offsets) -> bool:
        """Whether the records of this range have columns that no schema has; one that has them is kept then, for another query to pin.

        Raises EvolutionStopped where the settings let none come.
        """
        told, decode = self.channels.columns(ends_of(offsets)), self.settings.decode
        subject = inferred_subject(self.settings.name, decode)
        found = None if told is None or subject is None else brought(self.registry, subject, decode, told)
        if found is None or subject is None:
            return False
        if decode.evolution == "fail" and self.run.log.so_far.last is not None:
            raise EvolutionStopped(
                f"what is read next brings {', '.join(found.columns)}, and decode.evolution is `fail`. Run once with `restart` or `inline` to take it in"
            )
        keep(self.registry, subject, found)
        return True

    def batch_runner(
        self,
        spark: SparkFiles,
        progress: Progress,
        stop: threading.Event,
        on_start: Callable[[int], None],
        on_done: Callable[[Done], None],
    ) -> BatchRunner:
        """What one query calls with its batches, with every schema pinned that is known now."""
        attempts = self.attempts(progress, stop)
        aside = place_aside(self.run.checkpoint.files, self.run.root, self.run.generation.id)
        reading = self.topics.reading(aside)
        return BatchRunner(attempts, self.finisher, self.rewriter, spark, reading, on_start, on_done)

    def attempts(self, progress: Progress, stop: threading.Event) -> Attempts:
        """What takes records to a manifest, with every schema pinned that is known now."""
        schemas = self._values(progress, stop)
        keys = self._keys(progress, stop, schemas) if self.settings.decode.key == "auto" else None
        return Attempts(self.run, schemas, self._require_same_topics, keys)

    def _require_same_topics(self) -> None:
        check_same_topics(self.run.generation, self.channels.topic_ids())

    def _values(self, progress: Progress, stop: threading.Event) -> SchemaBook:
        """The schemas of values: every version of the subjects that are watched, and what was met before."""
        chosen, decode = self.settings, self.settings.decode
        codec = load_codec(decode.codec)
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
        store, wait = PinsStore(self.run.checkpoint, of=KEYS), RegistryWait(progress, stop)
        seconds = self.settings.registry.unknown_id_cache_seconds
        keys = SchemaBook(KeyCodec(), self.registry, store, wait, seconds)
        # A start that needs no registry for its values does not wait for one because of keys.
        keys.open(key_subjects(self.settings.source), waiting=not values.records)
        return keys

    def lost(self) -> tuple[Offsets, list[Lost]]:
        """Where Kafka has no more what comes next: each partition's offsets until it has something, and those that no table has, either.

        Nothing where it has all, and where that is to stop the run.
        """
        if self.settings.source.on_data_loss == "stop":
            return {}, []
        start, earliest = self._next_offsets(), self._earliest()
        gone = lost(start, earliest, self.channels.holder)
        if not gone:
            return {}, []
        offsets: Offsets = {
            topic: {
                number: (first, max(first, earliest[topic].get(number, 0)))
                for number, first in numbers.items()
            }
            for topic, numbers in start.items()
        }
        had = self.run.generation.start.placed
        return offsets, [one for gap in gone for one in gap.but(had)]

    def _next_offsets(self) -> Positions:
        """Where the log ends, of each partition."""
        self._require_same_topics()
        return complete(self.run.log.so_far.ends, self.channels.partitions())

    def _earliest(self) -> Positions:
        """The first offset still there in each partition; the run's end where that comes before."""
        earliest = self.channels.earliest_offsets()
        return earliest if self.ends is None else within(earliest, self.ends)

    def require_next(self) -> Positions:
        """Where the next batch begins. Raises CheckpointMismatch where Kafka has other records there, or none any more."""
        start = self._next_offsets()
        # Not only from where the log ends: records in the place of those that count as committed would not be brought in.
        require_not_back(
            highest(start, self.run.generation.start.counted()), self.channels.ends(), self.channels.holder
        )
        # Where a loss is recorded: what went since it was looked at ends the query, and is recorded before the next one.
        if self.settings.source.on_data_loss == "stop":
            require_there(start, self._earliest(), self.channels.holder)
        return start

    def start(self, process: Any, spark: SparkFiles) -> StreamingQuery | None:
        """The streaming query, started where the log ends; `process` is called with each batch. None where the source has no stream."""
        start = self.require_next()
        trigger = self.settings.trigger
        waits = 0.0 if trigger.available_now else trigger.interval_seconds
        records = self.topics.stream(self.settings.limits.batch_rows, start, waits)
        if records is None:
            return None
        writer = (
            records.writeStream.queryName(self.settings.name)
            .foreachBatch(process)
            # Not quoted as URLs are: Hadoop takes a text as it is.
            .option("checkpointLocation", f"file://{spark.folder}")
        )
        if trigger.available_now:
            return writer.trigger(availableNow=True).start()
        return writer.trigger(processingTime="0 milliseconds").start()


@contextmanager
def open_pipeline(
    settings: Settings,
    spark: SparkSession,
    registry: SchemaRegistry,
    channels: Channels,
    keeper: Keeper | None = None,
) -> Iterator[Pipeline]:
    """The pipeline with its lease held, by `keeper`, its identity checked, and leftovers of crashes swept."""
    expression = expression_of(spark, settings.route, settings.decode)
    conditions = conditions_of(spark, settings)
    checkpoint = Checkpoint(open_files(settings.checkpoint, settings.storage))
    root = tables_at(settings.sink.root, settings.storage)
    checkpoint.make()
    # Before a generation is born, which would hold whoever repairs what is not usable to this place. Where it has to be watched whether
    # somebody holds the lease, it is done meanwhile; a folder's locks tell at once, and whoever is too many does none of it.
    watched = checkpoint.files.remote
    if watched:
        _make_ready(spark, root, checkpoint)
    with held(checkpoint, settings.name, keeper), closing(NativeCommits()) as native:
        checkpoint.sweep()
        if not watched:
            _make_ready(spark, root, checkpoint)
        rules = run_rules(settings, expression, conditions)
        tables = tables_of(settings, root, rules, spark, native)
        made_with = tables.made_with
        at = partial(checkpoint_at, settings.storage)
        heritage = Heritage(Reaching(tables, native, spark, at, rules.changes.widens))
        generation = _generation(settings, channels, checkpoint, heritage, tables)
        tables.made_with = replace(made_with, topics=generation.world.topics)
        native.expect(lambda url: app_of(generation.id, url.rpartition("/")[2]))
        owners = owners_of(settings, checkpoint, generation, heritage)
        log = _begun(
            settings, channels, checkpoint, generation, lambda: heritage.complete(generation, owners)
        )
        generation = generation.as_of(log.so_far)
        tables.made_with = replace(tables.made_with, topics=generation.world.topics)
        forget_waiting(place_aside(checkpoint.files, root, generation.id))
        sweep_drafts(root)
        topics = channels.records(
            spark, settings.name, settings.source, settings.route, rules.workers.tables.beside
        )
        _warm_up_once(topics, channels, log.so_far)
        run = Run(
            owners=owners,
            checkpoint=checkpoint,
            generation=generation,
            log=log,
            tables=tables,
            rules=rules,
            workers=workers_of(settings, spark),
        )
        with _names(settings.catalog, spark, run) as names:
            yield Pipeline(
                settings=settings,
                run=run,
                topics=topics,
                registry=registry,
                channels=channels,
                finisher=Finisher(settings.sink.columns, checkpoint, run.tables, native, generation.lineage),
                rewriter=Rewriter(checkpoint.log, log, run.tables, run.workers),
                names=names,
            )


def tables_of(
    settings: Settings, root: Files, rules: RunRules, spark: SparkSession, native: NativeCommits
) -> TableBook:
    """A pipeline's tables, and what those that are made are like."""
    made_with = MadeWith(
        {LOG_RETENTION: log_retention(settings.sink.log_retention_days)},
        rules.workers.tables.of,
        folder_of=folder_of_topics(settings.route),
        named=settings.route.folder,
        by_text=settings.decode.key == "auto",
    )
    return TableBook(root, settings.sink.columns, spark, settings.limits.commit_threads, native, made_with)


def workers_of(settings: Settings, spark: SparkSession) -> Workers:
    """The session's workers, as a pipeline uses them."""
    return Workers(
        spark.sparkContext.defaultParallelism,
        record_headers(settings.source, settings.route),
        settings.limits.arrow_rows,
        settings.limits.batch_files,
    )


@contextmanager
def _names(catalog: Catalog | None, spark: SparkSession, run: Run) -> Iterator[TableNames | None]:
    """What names tables in the catalog, if the settings say so; those that the log knows it is told of."""
    if catalog is None:
        yield None
        return
    names = TableNames(spark, catalog, run.root)
    try:
        batch, _ = run.log.last()
        if batch is not None:
            names.take(manifest_of(batch, run.checkpoint.log).entities)
        yield names
    finally:
        names.close(wait=False)


def _generation(
    settings: Settings, channels: Channels, checkpoint: Checkpoint, heritage: Heritage, tables: TableBook
) -> Generation:
    generation = read_generation(checkpoint)
    old_layout.check_owner(checkpoint, generation)
    told = fingerprint(settings.source, settings.route, settings.decode, settings.sink)
    world = World(channels.cluster_id(), channels.topic_ids(), told)
    if generation is not None:
        check_same_world(generation, world)
        return generation
    start = heritage.start(settings.start, settings.name, settings.confirm_dead, world)
    if start.mode == "again":
        reading = Rereading(settings.rule_book(), settings.route, world.topics)
        require_order_again(reading, heritage, tables, channels.ends)
    ends = channels.ends() if start.already or start.placed else {}
    tell_back(start.counted(), ends)
    already = {table: within(known, ends) for table, known in start.already.items()}
    start = replace(start, already=already, placed=placed_within(start.placed, ends))
    return born(checkpoint, settings.name, world, start)


def owners_of(
    settings: Settings, checkpoint: Checkpoint, generation: Generation, heritage: Heritage
) -> Owners:
    """Whose the tables are, as a pipeline asks and answers."""
    me = Owner(settings.name, checkpoint.files.url, generation.id, generation.lineage)
    dead = {*generation.start.dead, *settings.confirm_dead}
    return Owners(heritage.records, me, heritage.log, dead)


def _begun(
    settings: Settings,
    channels: Channels,
    checkpoint: Checkpoint,
    generation: Generation,
    take_over: Callable[[], Positions | None],
) -> Writer:
    """The log, which this process writes from here on; `take_over` is called once in a log's life, and says where it is to begin."""
    old_layout.adopt(checkpoint, generation)

    def first() -> Standing:
        taken = take_over()
        planned = taken or old_layout.first_offsets(checkpoint) or generation.start.offsets
        if planned is None:
            return Standing(ends=first_offsets(settings.source.starting_offsets, channels))
        return after_others(settings.rule_book(), settings.route, settings.source, channels, planned)

    def goes_on(so_far: Standing) -> Standing:
        return as_read_now(so_far, generation, channels, settings.source)

    return begin(checkpoint.log, Process(gethostname(), os.getpid(), code_version()), first, goes_on)


# Kept by the session whose workers were asked, and warmed: they live as long as it does.
_ASKED, _WARM = "spark.distributary.workersAsked", "spark.distributary.workersWarm"


def _make_ready(spark: SparkSession, root: Files, checkpoint: Checkpoint) -> None:
    """Raises SetupError where the place of the tables cannot be used, or the session's workers, which are asked once, cannot work."""
    require_usable(root)
    if not spark.conf.get(_ASKED, ""):
        places = [root] if root.remote else [root, checkpoint.files]
        require_workers(spark, places, ["distributary.ingest.worker.demux"])
        spark.conf.set(_ASKED, "true")


def _warm_up_once(topics: Records, channels: Channels, so_far: Standing) -> None:
    """Have the session's first batch wait for nothing that could be loaded before it came.

    A run that goes on where records wait has its first batch at once, which loads the same. Whether the topics may be read is
    found out here, before their first batch.
    """
    conf = topics.spark.conf
    if conf.get(_WARM, ""):
        return
    if so_far.last is None or not _waiting(channels, so_far):
        topics.warm_up(channels)
    conf.set(_WARM, "true")


def _waiting(channels: Channels, so_far: Standing, until: Positions | None = None) -> int:
    """How much lies behind what is decided, as of now, or before these offsets."""
    return sum(count for numbers in channels.lag(so_far.ends, until).values() for count in numbers.values())
