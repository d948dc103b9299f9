"""The tables of entities made again from bronze: what they lack, or all, portion by portion, once each whatever dies when."""

from __future__ import annotations

import dataclasses
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timezone
from time import monotonic
from typing import Any

from pyspark.sql import SparkSession

from distributary.errors import CheckpointMismatch, ConfigError, LeaseHeld, PipelineError
from distributary.ingest.checkpoint.folder import Checkpoint
from distributary.ingest.checkpoint.generation import read_generation
from distributary.ingest.checkpoint.manifests import manifest_of
from distributary.ingest.columns.safe_names import BATCHES_TABLE
from distributary.ingest.commit_log.followed import Followed
from distributary.ingest.inputs.opening import open_source
from distributary.ingest.lease.holding import looked_for
from distributary.ingest.lease.replaying import alone
from distributary.ingest.lineage.of_commands import told_of
from distributary.ingest.pipeline import Pipeline
from distributary.ingest.progress import Progress, Silent
from distributary.ingest.quarantine.chosen import Chosen
from distributary.ingest.rebuild import resets
from distributary.ingest.replay.beside import open_beside, open_instead, require_appended
from distributary.ingest.replay.deciding import Became
from distributary.ingest.replay.kept import OF, Turns, kept_as
from distributary.ingest.replay.leaving import require_no_keys
from distributary.ingest.replay.portions import OnRefused, Portion, Until, portions, until
from distributary.ingest.replay.work import Replay, Work
from distributary.ingest.run import schemas_of
from distributary.ingest.session import pipeline_session
from distributary.ingest.settings.model import Settings
from distributary.ingest.spark.jvm import jvm_needed
from distributary.ingest.storage.opening import open_files
from distributary.ingest.tables.log_commit import NativeCommits
from distributary.registry.base import SchemaRegistry


@dataclass(frozen=True, slots=True)
class Replayed:
    """What was made again of a pipeline's tables from bronze.

    records   chosen records that bronze has
    became    what became of them
    portions  in how many parts
    dry_run   whether nothing was done: then it is only known how many have no row, or a row that would make room
    """

    pipeline: str
    records: int = 0
    became: Became = field(default_factory=Became)
    portions: int = 0
    dry_run: bool = False

    @property
    def there(self) -> int:
        """Records that had their place, and kept it."""
        return self.became.already

    @property
    def lacking(self) -> int:
        """Records that were decoded again, or would be."""
        return self.records - self.there

    @property
    def tables(self) -> Mapping[str, int]:
        """Rows that tables got, by their folders."""
        return self.became.tables

    @property
    def left(self) -> Mapping[str, int]:
        """Rows that made room, by their tables' folders."""
        return self.became.left

    @property
    def refused(self) -> Mapping[str, int]:
        """Records that are in quarantine, as they cannot be decoded or placed today, by the reason."""
        return self.became.refused

    @property
    def kept(self) -> Mapping[str, int]:
        """Records that cannot be, either, and keep the row that they had, by the reason."""
        return self.became.kept

    @property
    def dropped(self) -> int:
        """Records that the settings let go, and deletes."""
        return self.became.dropped

    def and_(self, one: Replay) -> Replayed:
        """With a portion more."""
        return Replayed(
            self.pipeline, self.records + one.records, self.became.and_(one.became), self.portions + 1
        )

    def as_dict(self) -> dict[str, Any]:
        """The same as JSON values."""
        return {
            "pipeline": self.pipeline,
            "records": self.records,
            "there": self.there,
            "lacking": self.lacking,
            "tables": dict(self.tables),
            "left": dict(self.left),
            "refused": dict(self.refused),
            "kept": dict(self.kept),
            "dropped": self.dropped,
            "portions": self.portions,
            "dry_run": self.dry_run,
        }


@jvm_needed()
def replay(  # noqa: PLR0913 - what a run is given, which records, and what becomes of rows
    settings: Settings,
    chosen: Chosen | None = None,
    progress: Progress | None = None,
    spark: SparkSession | None = None,
    registry: SchemaRegistry | None = None,
    *,
    replace: bool = False,
    refused: OnRefused = "keep",
) -> Replayed:
    """Make rows again, from the records that bronze keeps, of those that no table has: each once, by today's settings and schemas.

    settings  the pipeline's as they are today, with `bronze`
    chosen    which records; by default all
    progress  told of each portion, and of waits
    spark     the session to use; by default the process's own, or one that ends with this
    registry  where schemas come from; by default what the settings say
    replace   whether records that have a row are decoded again, too, and their rows make room for what comes of them
    refused   what becomes of the row of a record that would go to quarantine now: `keep`, or `quarantine`, where the record then waits

    Kafka is not asked. What a call began that a crash ended is finished first. A run of the pipeline may go on meanwhile, unless records are for
    tables with one row a key, or their schema is inferred: then LeaseHeld is raised. Raises ConfigError where rows are to be replaced of tables with
    one row a key, and the PipelineError that says what else stands in the way.
    """
    chosen, watch = chosen or Chosen(), progress or Silent()
    replaces = refused if replace else None
    with (
        told_of(settings, "replay", ("bronze",)) as heard,
        opened(settings, watch, spark, registry) as (work, alive),
    ):
        if replace:
            run = work.pipeline.run
            known = () if work.last is None else work.last.entities
            require_no_keys(run.rules.workers.tables, chosen.entities or known, run.pipeline)
        # One that a crash ended has emptied tables, whose records come again in their first order.
        begun = None if alive else resets.unfinished(work.pipeline.run.checkpoint.files)
        portion = Portion({}, chosen, begun is not None, replaces, begun is not None and begun.untold)
        done = Rebuilding(work, watch, alive).done(portion)
        heard.rows = done.tables
        return done


@contextmanager
def opened(
    settings: Settings,
    watch: Progress,
    spark: SparkSession | None,
    registry: SchemaRegistry | None,
    *,
    beside: bool = True,
) -> Iterator[tuple[Work, bool]]:
    """What replays from bronze work with, and whether a run is alive; with `beside` that may be so, otherwise LeaseHeld is raised."""
    require_bronze(settings)
    settings = as_last_read(settings)
    checkpoint = Checkpoint(open_files(settings.checkpoint, settings.storage))
    keeper, stop = looked_for(settings.checkpoint, settings.storage), threading.Event()
    with ExitStack() as stack:
        session = spark or stack.enter_context(pipeline_session(settings))
        channels = stack.enter_context(open_source(settings, session, stop, watch.waiting))
        own = registry or stack.enter_context(
            schemas_of(
                settings, session, channels, lambda notice: watch.waiting(notice.text, 0.0), as_kept=True
            )
        )
        stack.enter_context(alone(checkpoint))
        try:
            pipeline = stack.enter_context(open_instead(settings, session, own, channels, keeper))
            alive, let = False, _any
        except LeaseHeld:
            if not beside:
                raise
            pipeline = stack.enter_context(open_beside(settings, session, own, channels))
            alive, let = True, require_appended
        if not alive:
            _require_newest(pipeline)
        _require_whole(pipeline)
        attempts = pipeline.attempts(watch, stop)
        turns = Turns(checkpoint.files)
        native = stack.enter_context(closing(NativeCommits()))
        yield Work(pipeline, attempts, native, session, turns, let), alive


def _require_newest(pipeline: Pipeline) -> None:
    """Raises CheckpointMismatch for a log that the tables are ahead of: of what it knows nothing of nothing would be made again."""
    run, finisher = pipeline.run, pipeline.finisher
    batch, _ = run.log.last()
    reached = finisher.reached(run.generation)
    if batch is not None and batch.number == reached:
        # A copy may have had other batches under the numbers of the newest one.
        finisher.require_in_ledger(manifest_of(batch, run.checkpoint.log))
    if reached is not None and (batch is None or batch.number < reached):
        known = "no batch" if batch is None else f"batch {batch.number} as the newest one"
        raise CheckpointMismatch(
            f"the tables in {run.root} have batch {reached}, and the log in {run.checkpoint} knows {known}: the checkpoint was put back from an "
            "older copy, and what it knows nothing of could not be made again. Nothing was changed. Restore the newest one into an empty folder, "
            "not over this one; or run the pipeline with a new checkpoint and `start: from_tables`, and say this again with that"
        )


def _require_whole(pipeline: Pipeline) -> None:
    """Raises PipelineError where a table lacks the newest batch: the next start puts that there again, beside what would be made of it here."""
    run, finisher = pipeline.run, pipeline.finisher
    reached = finisher.reached(run.generation)
    # Behind that: for one that a run has parked since it waits.
    run.log.look()
    batch, _ = run.log.last()
    if batch is None or batch.number != reached:
        return
    manifest, waits = manifest_of(batch, run.checkpoint.log), run.log.so_far.waiting(batch.number)
    folders = {folder for table in manifest.tables if table.folder not in waits for folder in table.parts}
    newest = finisher.newest(run.generation, sorted(folders - {BATCHES_TABLE}))
    if lacking := finisher.given(run.checkpoint.log).lacks(manifest, newest):
        raise PipelineError(
            f"{', '.join(lacking)} in {run.root} lacks batch {reached}, as if put back from an older copy, and the next start of the pipeline puts that "
            "there again: what was made again of it would be there twice. Nothing was changed. Run the pipeline once (anew, if it runs), and say this again"
        )


def _any(tables: Iterable[str]) -> None:
    """While no run is alive rows may take the place of others in all tables."""


def require_bronze(settings: Settings) -> None:
    """Raises ConfigError where the settings keep no records as they came."""
    if settings.bronze is None:
        raise ConfigError(
            "the settings have no `bronze`, so no record was kept as it came, and nothing can be made again without Kafka. Read the topic "
            "again, while it has the records (`start: again`)"
        )


def as_last_read(settings: Settings) -> Settings:
    """With the topics that were read last in the place of patterns, as the checkpoint has them. Raises PipelineError where that cannot be read."""
    checkpoint = Checkpoint(open_files(settings.checkpoint, settings.storage))
    generation = read_generation(checkpoint)
    if generation is None:
        return settings
    state = checkpoint.log.state()
    so_far = state.so_far
    topics = generation.world.topics if so_far is None else generation.as_of(so_far).world.topics
    return settings.of_topics(sorted(topics)) if topics else settings


def end_of(log: Followed, reached: Callable[[], int | None], *, alive: bool) -> Until:
    """Before which offsets all batches are in all tables that are not parked as the log then says; `reached` asks the ledger for its newest batch."""
    whole = reached()
    # Behind that: of a table that a run has parked since, files of a batch wait which the ledger has.
    log.look()
    batch, _ = log.last()
    return until(log.so_far, batch, whole, alive=alive)


@dataclass(frozen=True, slots=True)
class Rebuilding:
    """One call's replays from bronze."""

    work: Work
    watch: Progress
    alive: bool = False

    def done(self, whole: Portion) -> Replayed:
        """Those that were begun before, and portions of all that is chosen, which are as the whole is but for their offsets."""
        run = self.work.pipeline.run
        self.work.finish_begun()
        found = Replayed(run.pipeline)
        raw = self.work.raw()
        most = self.work.pipeline.settings.limits.batch_rows
        for number, offsets in enumerate(portions(raw, whole.chosen, self._end(), most)):
            began = monotonic()
            one = self._portion(dataclasses.replace(whole, offsets=offsets))
            found = found.and_(one)
            self.watch.batch_done(number, one.records, len(one.became.tables), monotonic() - began, None)
        return found

    def _end(self) -> Until:
        run, finisher = self.work.pipeline.run, self.work.pipeline.finisher
        return end_of(run.log, lambda: finisher.reached(run.generation), alive=self.alive)

    def _portion(self, portion: Portion) -> Replay:
        run = self.work.pipeline.run
        kept = kept_as(run.checkpoint.files, run.root, uuid.uuid4().hex)
        begun = {
            "id": kept.id,
            "pipeline": run.pipeline,
            "generation": run.generation.id,
            "at": datetime.now(timezone.utc).isoformat(),
            "chosen": portion.chosen.as_dict(),
            OF: "bronze",
            "portion": portion.as_dict(),
        }
        kept.begin(begun)
        return self.work.finished(kept, begun, resumed=False)
