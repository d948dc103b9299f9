"""One micro-batch from Kafka's records to commits in all its tables: what `foreachBatch` calls."""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone

from pyspark.sql import DataFrame

from distributary.errors import CheckpointMismatch
from distributary.ingest import failpoints
from distributary.ingest.batch.decide import Attempt, Before, Decision, decide
from distributary.ingest.batch.finish import Finisher
from distributary.ingest.batch.passes import Settled, Settling, Workers, planned_changes
from distributary.ingest.batch.rewrite import Rewriter
from distributary.ingest.batch.schema_answers import SchemaAnswers
from distributary.ingest.batch.sweep import sweep_batch
from distributary.ingest.batch.table_rules import TableRules
from distributary.ingest.checkpoint.change_log import ChangeLog, LoggedChange, TableChange
from distributary.ingest.checkpoint.consistency import check_manifest
from distributary.ingest.checkpoint.folder import Checkpoint
from distributary.ingest.checkpoint.generation import Generation
from distributary.ingest.checkpoint.lease import Lease
from distributary.ingest.checkpoint.manifest import Manifest
from distributary.ingest.checkpoint.manifest_file import ManifestStore
from distributary.ingest.checkpoint.spark_files import batch_offsets
from distributary.ingest.evolution.rules import Rules, tables_grow, tables_widen, worker_policies
from distributary.ingest.kafka.offsets import Offsets, ends, starts
from distributary.ingest.pins import (
    FIRST_TURN,
    BatchId,
    Decoding,
    PinnedKeys,
    PinnedSchemas,
    PinnedTables,
    Pins,
    WorkerRules,
)
from distributary.ingest.routing.tree import Node
from distributary.ingest.schemas.known_schemas import SchemaBook
from distributary.ingest.settings.model import Settings
from distributary.ingest.tables.change import PlannedChange, TableChanger
from distributary.ingest.tables.known_tables import TableBook
from distributary.ingest.worker.fields_seen import GrowthWarnings, UnknownFieldWarnings

# How many rows a Python worker is given at once.
ARROW_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"


@dataclass(frozen=True, slots=True)
class Done:
    """A finished batch. `resumed`: an earlier attempt had decided it. `changes` are those of tables known before."""

    manifest: Manifest
    seconds: float
    resumed: bool
    changes: Sequence[PlannedChange] = ()


@dataclass(frozen=True)
class RunMemory:
    """What a run remembers from one query to the next: how often each batch was begun, and what it has warned of."""

    attempts: Counter[int] = field(default_factory=Counter)
    unknown: UnknownFieldWarnings = field(default_factory=UnknownFieldWarnings)
    outgrown: GrowthWarnings = field(default_factory=GrowthWarnings)


@dataclass(frozen=True)
class Run:
    """What the batches of one run share, whichever query they belong to.

    rules    what the settings say to workers
    changes  what they say of changes to tables
    workers  Spark's, as every pass uses them
    """

    settings: Settings
    checkpoint: Checkpoint
    generation: Generation
    lease: Lease
    tables: TableBook
    rules: WorkerRules
    changes: Rules
    workers: Workers


@dataclass
class BatchRunner:
    """Brings the batches of one query to their end.

    schemas   of values
    keys      the schemas of keys, where those are decoded
    """

    run: Run
    memory: RunMemory
    finisher: Finisher
    rewriter: Rewriter
    schemas: SchemaBook
    keys: SchemaBook | None
    on_start: Callable[[int], None]
    on_done: Callable[[Done], None]
    _last: Manifest | None = field(default=None, init=False)
    _retried: bool = field(default=False, init=False)

    def __call__(self, records: DataFrame, batch_id: int) -> None:
        """Bring a batch to its end, from the beginning or from where an earlier attempt left it."""
        self.on_start(batch_id)
        began, run = time.monotonic(), self.run
        # The query's own session, so that the settings hold in one that a caller brought, and nowhere else in it.
        records.sparkSession.conf.set(ARROW_ROWS, str(run.settings.limits.arrow_rows))
        manifest, planned = self._manifests.read(batch_id), list[PlannedChange]()
        resumed = manifest is not None
        if manifest is None:
            manifest, planned = self._decided(records, batch_id)
        else:
            check_manifest(run.checkpoint, run.generation, manifest)
            nothing = Before({}, {}, {})
            manifest = self.rewriter.restored(manifest, records, self._first_pins(batch_id, nothing))
        self._last = manifest
        self.finisher.finish(manifest, records)
        again = resumed or self._retried or self.memory.attempts[batch_id] > 1
        if again or manifest.pins.decisions["guarded"]:
            # Whoever died on the way may have left files that the manifest does not name.
            sweep_batch(run.settings.sink.root, run.generation.id, batch_id, manifest.file_names())
        failpoints.reach(failpoints.BEFORE_SPARK_COMMIT, batch_id)
        self.on_done(Done(manifest, time.monotonic() - began, resumed, planned))

    @property
    def _manifests(self) -> ManifestStore:
        return ManifestStore(self.run.checkpoint)

    def _decided(self, records: DataFrame, batch_id: int) -> tuple[Manifest, list[PlannedChange]]:
        started, run = datetime.now(timezone.utc), self.run
        self.memory.attempts[batch_id] += 1
        last = self._last or self._manifests.last()
        offsets, before = self._offsets(batch_id, last), self._before(last)
        settled = self._settle(records, batch_id, before)
        self._warn(settled)
        planned = planned_changes(settled, before.known)
        logged = self._evolve(records, batch_id, settled, planned)
        decision = Decision(
            batch_id=batch_id,
            offsets=offsets,
            before=before,
            settled=settled,
            changes=planned,
            logged=logged,
            attempt=Attempt(started, self.memory.attempts[batch_id]),
            rules=run.changes,
        )
        manifest = decide(run.settings, run.generation, run.tables, decision)
        failpoints.reach(failpoints.BEFORE_MANIFEST, batch_id)
        run.lease.confirm()
        self._manifests.write(manifest)
        failpoints.reach(failpoints.AFTER_MANIFEST, batch_id)
        return manifest, planned

    def _before(self, last: Manifest | None) -> Before:
        entities = dict(last.entities) if last else self.run.tables.entities_there()
        return Before(entities, self.run.tables.pinned(entities), last.met if last else {})

    def _warn(self, settled: Settled) -> None:
        memory, seen = self.memory, settled.report.sightings
        self._retried = settled.report.retried
        memory.unknown.warn(seen.unknown)
        memory.outgrown.warn(seen.outgrown, self.run.settings.decode.max_fields)

    def _offsets(self, batch_id: int, last: Manifest | None) -> Offsets:
        """The batch's offsets, which go on where the batch before ended."""
        offsets = batch_offsets(self.run.checkpoint, batch_id)
        if last is not None and last.batch_id == batch_id - 1:
            ended = ends(last.offsets)
            begun = {
                topic: {p: o for p, o in ps.items() if p in ended.get(topic, {})}
                for topic, ps in starts(offsets).items()
            }
            if begun != ended:
                raise CheckpointMismatch(
                    f"batch {batch_id} begins at {begun}, but batch {last.batch_id} ended at {ended}: Spark's files in "
                    f"{self.run.checkpoint.offsets} were edited; restore them, or go on with a new checkpoint and "
                    "`start: from_tables`"
                )
        return offsets

    def _settle(self, records: DataFrame, batch_id: int, before: Before) -> Settled:
        run = self.run
        rules = TableRules(run.settings, run.tables, before.known)
        answers = SchemaAnswers(run.settings, before.known, self.schemas, self.keys)
        pins = self._first_pins(batch_id, before, rules.room())
        return Settling(records.sparkSession, run.tables, rules, answers, run.workers).settle(records, pins)

    def _first_pins(self, batch_id: int, before: Before, room: int = 0) -> Pins:
        run, settings = self.run, self.run.settings
        aside = str(run.checkpoint.aside / f"{batch_id}-{uuid.uuid4().hex}")
        return Pins(
            batch=BatchId(str(settings.sink.root), aside, run.generation.id, batch_id),
            rules=run.rules,
            schemas=PinnedSchemas(self.schemas.records, self.schemas.refused()),
            tables=PinnedTables(
                known=before.known,
                met=before.met,
                already=run.generation.start.already,
                grow=tables_grow(settings),
                widen=tables_widen(settings),
                admitted=frozenset(),
                denied=frozenset(),
                new_tables=room,
            ),
            keys=self._first_keys(),
            turn=FIRST_TURN,
        )

    def _first_keys(self) -> PinnedKeys | None:
        if self.keys is not None:
            return PinnedKeys(decoded=True, records=self.keys.records, refused=self.keys.refused())
        return None if self.run.settings.decode.key == "bytes" else PinnedKeys()

    def _evolve(
        self, records: DataFrame, batch_id: int, settled: Settled, planned: Sequence[PlannedChange]
    ) -> list[LoggedChange]:
        """Make the tables what the batch needs; what this and earlier attempts at it wrote down before."""
        run, log = self.run, ChangeLog(self.run.checkpoint)
        # Written down first, so that a change is on record even if we die in the middle of making it.
        log.write(batch_id, [one for change in planned for one in logged_changes(change)])
        settings, logged = run.settings, log.read(batch_id)
        threads = settings.limits.commit_threads
        changer = TableChanger(run.tables, records.sparkSession, settings.sink.columns, threads)
        changer.apply(planned, settled.layouts, {"distributary.pipeline": settings.name})
        return logged


def worker_rules(settings: Settings, expression: Node | None) -> WorkerRules:
    """What the settings say to workers; `expression` is what they route by, for `route.by: expression`."""
    decode = settings.decode
    return WorkerRules(
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
        policies=worker_policies(settings),
        worker_bytes=settings.limits.worker_bytes,
        expression=expression,
        max_questions=settings.registry.max_unknown_ids,
    )


def logged_changes(change: PlannedChange) -> list[TableChange]:
    """A planned change as the log keeps it, a line a column."""
    detail = "" if change.schema_id is None else f"schema {change.schema_id}"
    first = change.first or (None, None, None)
    return [
        TableChange(
            change.folder,
            "created" if change.new else column.kind,
            column.column,
            column.type,
            detail,
            change.schema_id,
            *first,
        )
        for column in change.added
    ]
