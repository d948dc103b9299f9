"""A pipeline as a replay sees it while a run of it is alive: its log is read and never written, and only what is safe beside the run is let through."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from socket import gethostname
from typing import final

from pyspark.sql import SparkSession

from distributary.codecs.base import load_codec
from distributary.errors import LeaseHeld, PipelineError
from distributary.ingest.batch.attempt import Run
from distributary.ingest.batch.decide import code_version
from distributary.ingest.batch.finish import Finisher
from distributary.ingest.batch.rewrite import Rewriter
from distributary.ingest.checkpoint.folder import Checkpoint, checkpoint_at
from distributary.ingest.checkpoint.generation import Generation, app_of, read_generation
from distributary.ingest.commit_log.entries import Batch, HandedOver, Process, Rewritten, Standing
from distributary.ingest.commit_log.followed import Followed
from distributary.ingest.commit_log.reading import CommitLog
from distributary.ingest.commit_log.writing import Writer, begin
from distributary.ingest.handover.heritage import Heritage
from distributary.ingest.handover.reaching import Reaching
from distributary.ingest.lease.holding import held
from distributary.ingest.lease.keeper import Keeper
from distributary.ingest.pipeline import Pipeline, owners_of, tables_of, workers_of
from distributary.ingest.running.rules import conditions_of, expression_of, run_rules
from distributary.ingest.settings.model import Settings
from distributary.ingest.source.contract import Channels
from distributary.ingest.storage.opening import open_files, tables_at
from distributary.ingest.tables.log_commit import NativeCommits
from distributary.ingest.upkeep.whose.by_ledger import reads_again
from distributary.registry.base import SchemaRegistry

_STOP = "stop the run, and say this again"


@final
class ReadLog(Followed):
    """A log as somebody else writes it, as far as it had come when this was made."""

    def __init__(self, log: CommitLog) -> None:
        """Raises PipelineError where there is no log yet."""
        self._log = log
        self.look()

    def look(self) -> None:
        """Learn how far it has come by now. Raises PipelineError where there is no log."""
        state = self._log.state()
        if state.so_far is None:
            raise PipelineError(f"{self._log.url} has no entry yet: the run has only begun; say it again")
        self._so_far, self._number = state.so_far, state.next

    @property
    def next(self) -> int:
        """The number of an entry that is not this one's to write."""
        return self._number

    @property
    def so_far(self) -> Standing:
        """How far the log had come."""
        return self._so_far

    def last(self) -> tuple[Batch | None, tuple[Rewritten, ...]]:
        """The newest batch, as of then or now, which may not be in all its tables yet. Raises CheckpointMismatch where it is lost."""
        while (last := self._so_far.last) is not None:
            found = self._log.newest_batch(last)
            if found is not None:
                return found, ()
            # Gone, as there is a newer one.
            self.look()
            if self._so_far.last == last:
                raise self._log.missing(last)
        return None, ()

    def confirm(self) -> None:
        """Raises PipelineError where the tables were handed over to another pipeline meanwhile."""
        newest = self._log.state().newest
        if isinstance(newest, HandedOver):
            raise PipelineError(f"the tables were handed over to {newest.to}; nothing was changed")


@contextmanager
def open_beside(
    settings: Settings, spark: SparkSession, registry: SchemaRegistry, channels: Channels
) -> Iterator[Pipeline]:
    """The pipeline beside its run. Raises LeaseHeld, with what to do, where a replay is not safe there."""
    checkpoint = Checkpoint(open_files(settings.checkpoint, settings.storage))
    generation = read_generation(checkpoint)
    if generation is None:
        raise LeaseHeld(f"checkpoint {checkpoint} is just being made by a run; say it again")
    _require_safe(settings, generation)
    with _opened(settings, spark, registry, channels, generation) as (pipeline, _):
        yield pipeline


@contextmanager
def open_instead(
    settings: Settings,
    spark: SparkSession,
    registry: SchemaRegistry,
    channels: Channels,
    keeper: Keeper | None = None,
) -> Iterator[Pipeline]:
    """The pipeline with its lease held, by `keeper`, and without a question to Kafka, which may have forgotten its topics.

    Whoever ran it before is shut out. Its newest batch is not brought to its end, which may take Kafka. Raises LeaseHeld while a run is alive, and
    PipelineError where there has not been one yet.
    """
    checkpoint = Checkpoint(open_files(settings.checkpoint, settings.storage))
    with held(checkpoint, settings.name, keeper):
        generation = read_generation(checkpoint)
        if generation is None:
            raise PipelineError(f"checkpoint {checkpoint} is of no run yet: there is nothing to make again")
        ReadLog(checkpoint.log)
        with _opened(settings, spark, registry, channels, generation) as (pipeline, log):
            yield replace(pipeline, run=replace(pipeline.run, log=log()))


def _require_safe(settings: Settings, generation: Generation) -> None:
    codec = load_codec(settings.decode.codec)
    if not codec.registered or codec.capabilities.growing is not None:
        raise LeaseHeld(
            f"a run of the pipeline is alive, and both would grow the schema that is inferred: {_STOP}"
        )
    if reads_again(tables_at(settings.sink.root, settings.storage), generation, settings.name):
        raise LeaseHeld(
            f"a run of the pipeline is alive that reads again what was read before (`start: again`), so it may bring records of the quarantine itself: {_STOP}"
        )


@contextmanager
def _opened(
    settings: Settings,
    spark: SparkSession,
    registry: SchemaRegistry,
    channels: Channels,
    generation: Generation,
) -> Iterator[tuple[Pipeline, Callable[[], Writer]]]:
    """The pipeline with its log to read, and what begins an entry there."""
    checkpoint = Checkpoint(open_files(settings.checkpoint, settings.storage))
    root = tables_at(settings.sink.root, settings.storage)
    expression = expression_of(spark, settings.route, settings.decode)
    conditions = conditions_of(spark, settings)
    with closing(NativeCommits()) as native:
        rules = run_rules(settings, expression, conditions)
        tables = tables_of(settings, root, rules, spark, native)
        heritage = Heritage(Reaching(tables, native, spark, partial(checkpoint_at, settings.storage)))
        tables.made_with = replace(tables.made_with, topics=generation.world.topics)
        native.expect(lambda url: app_of(generation.id, url.rpartition("/")[2]))
        owners = owners_of(settings, checkpoint, generation, heritage)
        log = ReadLog(checkpoint.log)
        generation = generation.as_of(log.so_far)
        tables.made_with = replace(tables.made_with, topics=generation.world.topics)
        workers = workers_of(settings, spark)
        me = Process(gethostname(), os.getpid(), code_version())
        run = Run(owners, checkpoint, generation, log, tables, rules, workers)
        pipeline = Pipeline(
            settings=settings,
            run=run,
            topics=channels.records(
                spark, settings.name, settings.source, settings.route, rules.workers.tables.beside
            ),
            registry=registry,
            channels=channels,
            finisher=Finisher(settings.sink.columns, checkpoint, tables, native, generation.lineage),
            rewriter=Rewriter(checkpoint.log, log, tables, workers),
        )
        yield pipeline, lambda: begin(checkpoint.log, me, lambda: log.so_far)


def require_appended(tables: Iterable[str]) -> None:
    """Raises LeaseHeld where rows would take the place of others: their merges are in order with the run's only while that is not alive."""
    if found := sorted(tables):
        raise LeaseHeld(
            f"a run of the pipeline is alive, and {', '.join(found)} has one row a key, or keeps what was: nothing became visible. {_STOP.capitalize()}; or "
            "choose records of others, as by --entity"
        )
