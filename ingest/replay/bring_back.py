"""Records of the quarantine decoded again by today's settings and schemas, and put into their tables, once each whatever dies when."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timezone
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from distributary.errors import LeaseHeld, PipelineError
from distributary.ingest.batch.attempt import Attempts
from distributary.ingest.checkpoint.folder import Checkpoint
from distributary.ingest.checkpoint.scratch import scratch_folder
from distributary.ingest.inputs.opening import open_source
from distributary.ingest.lease.holding import looked_for
from distributary.ingest.lease.replaying import alone
from distributary.ingest.lineage.of_commands import told_of
from distributary.ingest.pipeline import Pipeline, open_pipeline
from distributary.ingest.progress import Progress, Silent
from distributary.ingest.quarantine.chosen import Chosen
from distributary.ingest.quarantine.whose import whose_are
from distributary.ingest.replay.beside import open_beside, require_appended
from distributary.ingest.replay.deciding import Became
from distributary.ingest.replay.headers import named_by
from distributary.ingest.replay.kept import Kept, Turns, kept_as, unfinished
from distributary.ingest.replay.places import split
from distributary.ingest.replay.portions import even_ranges
from distributary.ingest.replay.raw_records import PLACE
from distributary.ingest.replay.staging import Asked, open_rows, stage, why_none
from distributary.ingest.replay.work import Replay, Work
from distributary.ingest.run import schemas_of
from distributary.ingest.session import pipeline_session
from distributary.ingest.settings.model import Settings
from distributary.ingest.spark.jvm import jvm_needed
from distributary.ingest.storage.opening import open_files, tables_at
from distributary.ingest.tables.log_commit import NativeCommits
from distributary.ingest.upkeep.whose.by_ledger import reads_again
from distributary.registry.base import SchemaRegistry


@dataclass(frozen=True, slots=True)
class BroughtBack:
    """What was replayed of a pipeline's quarantine.

    replays  those that were done: one that an earlier call had begun, and those of what was asked for, one for about as many records as a batch has
    """

    pipeline: str
    replays: tuple[Replay, ...] = ()

    @property
    def resolved(self) -> int:
        """Records that are open no more."""
        return sum(one.became.resolved for one in self.replays)

    @property
    def refused(self) -> int:
        """Records that stay in quarantine as they cannot be decoded or placed today, either."""
        return sum(sum(one.became.refused.values()) for one in self.replays)

    def as_dict(self) -> dict[str, Any]:
        """The same as JSON values."""
        return {**asdict(self), "resolved": self.resolved, "refused": self.refused}


@jvm_needed()
def bring_back(
    settings: Settings,
    chosen: Chosen | None = None,
    progress: Progress | None = None,
    spark: SparkSession | None = None,
    registry: SchemaRegistry | None = None,
) -> BroughtBack:
    """Decode records of the quarantine again, and put those that can be into their tables, exactly once.

    settings  the pipeline's as they are today; tables grow by them as a run lets them
    chosen    which records of those that are open; by default all
    progress  told of waits
    spark     the session to use; by default the process's own, or one that ends with this
    registry  where schemas come from; by default what the settings say

    A replay that an earlier call began, and that a crash ended, is finished first. Records that fail again stay as they are. A run of the
    pipeline may go on meanwhile, unless records are for tables with one row a key, or their schema is inferred: then LeaseHeld is raised. Raises the
    PipelineError that says what else stands in the way.
    """
    chosen, watch = chosen or Chosen(), progress or Silent()
    root = tables_at(settings.sink.root, settings.storage)
    checkpoint = Checkpoint(open_files(settings.checkpoint, settings.storage))
    book = settings.rule_book()
    asked = Asked(whose_are(settings, root), chosen, named=named_by(settings.route, book.beside))
    if not unfinished(checkpoint.files, root) and not any(one.num_rows for one in open_rows(root, asked)):
        return BroughtBack(settings.name)
    if why := why_none(asked.named, book):
        raise PipelineError(f"{why}, so nothing of it can be decoded again as it was meant to be")
    keeper, stop = looked_for(settings.checkpoint, settings.storage), threading.Event()
    with told_of(settings, "quarantine-replay", ("quarantine",)) as heard, ExitStack() as opened:
        session = spark or opened.enter_context(pipeline_session(settings))
        channels = opened.enter_context(open_source(settings, session, stop, watch.waiting))
        settings = settings.of_topics(channels.names())
        own = registry or opened.enter_context(
            schemas_of(settings, session, channels, lambda notice: watch.waiting(notice.text, 0.0))
        )
        opened.enter_context(alone(checkpoint))
        try:
            pipeline = opened.enter_context(open_pipeline(settings, session, own, channels, keeper))
        except LeaseHeld:
            # A run is alive, so this is done beside it.
            pipeline, let = (
                opened.enter_context(open_beside(settings, session, own, channels)),
                require_appended,
            )
            attempts = pipeline.attempts(watch, stop)
        else:
            attempts, let = _behind_the_newest_batch(pipeline, watch, stop), _any
        turns = Turns(checkpoint.files)
        native = opened.enter_context(closing(NativeCommits()))
        done = _Bringing(Work(pipeline, attempts, native, session, turns, let)).done(asked)
        heard.rows = reduce(Became.and_, (one.became for one in done.replays), Became()).tables
        return done


def _behind_the_newest_batch(pipeline: Pipeline, watch: Progress, stop: threading.Event) -> Attempts:
    """What takes records to a manifest, behind the newest batch, which a crash may have left and is brought to its end."""
    with scratch_folder() as files:
        runner = pipeline.batch_runner(files, watch, stop, lambda number: None, lambda done: None)
        runner.resume()
        return runner.attempts


def _any(tables: Iterable[str]) -> None:
    """While no run is alive rows may take the place of others in all tables."""


@dataclass(frozen=True)
class _Bringing:
    """The replays of one call."""

    work: Work

    def done(self, asked: Asked) -> BroughtBack:
        """Those that were begun before, and those of all that is asked for and was not tried by them, in parts."""
        run = self.work.pipeline.run
        found, tried = self.work.finish_begun()
        # Only after this are records read again that were read before.
        again = reads_again(run.root, run.generation, run.pipeline)
        ends = run.log.so_far.ends if again else {}
        asked = replace(asked, but=pa.concat_arrays([asked.but, *tried]), ends=ends)
        # So many at once as a batch has, whatever waits there: all of a replay's coordinates are in the driver's memory.
        places = (split(*(rows[name] for name in PLACE)) for rows in open_rows(run.root, asked))
        for within in even_ranges(places, self.work.pipeline.settings.limits.batch_rows):
            part = replace(asked, within=within)
            if any(one.num_rows for one in open_rows(run.root, part)):
                found.append(self.work.finished(*self._begun(part), resumed=False))
        return BroughtBack(run.pipeline, tuple(found))

    def _begun(self, asked: Asked) -> tuple[Kept, Mapping[str, Any]]:
        """The records taken out of quarantine, and written down that these are all."""
        run = self.work.pipeline.run
        kept = kept_as(run.checkpoint.files, run.root, uuid.uuid4().hex)
        kept.announce()
        staged = stage(self.work.tables(), asked, run.rules.workers.tables, kept.records)
        begun = {
            "id": kept.id,
            "pipeline": run.pipeline,
            "generation": run.generation.id,
            "at": datetime.now(timezone.utc).isoformat(),
            "chosen": asked.chosen.as_dict(),
            **staged.as_dict(),
        }
        kept.begin(begun)
        return kept, begun
