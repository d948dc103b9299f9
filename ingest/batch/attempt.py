"""An attempt at a batch that has no manifest yet: steps 2 to 6 of docs/explanation/how-a-batch-commits.md, one after the other."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone

from pyspark.sql import DataFrame

from distributary.errors import CheckpointMismatch
from distributary.ingest import failpoints
from distributary.ingest.batch.decide import Attempt, Before, Decision, decide
from distributary.ingest.batch.objections import Objections
from distributary.ingest.batch.passes import Settled, Settling, Workers, planned_changes
from distributary.ingest.batch.schema_answers import SchemaAnswers
from distributary.ingest.checkpoint.change_log import ChangeLog, LoggedChange, TableChange
from distributary.ingest.checkpoint.folder import Checkpoint
from distributary.ingest.checkpoint.generation import Generation
from distributary.ingest.checkpoint.lease import Lease
from distributary.ingest.checkpoint.manifest import Manifest
from distributary.ingest.checkpoint.manifest_file import ManifestStore
from distributary.ingest.checkpoint.spark_files import batch_offsets
from distributary.ingest.evolution.rules import RunRules
from distributary.ingest.kafka.offsets import Offsets, ends, starts
from distributary.ingest.pins import (
    FIRST_TURN,
    BatchId,
    PinnedKeys,
    PinnedSchemas,
    PinnedTables,
    Pins,
)
from distributary.ingest.schemas.known_schemas import SchemaBook
from distributary.ingest.tables.change import PlannedChange, TableChanger
from distributary.ingest.tables.known_tables import TableBook
from distributary.ingest.worker.fields_seen import GrowthWarnings, UnknownFieldWarnings


@dataclass(frozen=True)
class RunMemory:
    """What a run remembers from one query to the next: how often each batch was begun, and what it has warned of."""

    attempts: Counter[int] = field(default_factory=Counter)
    unknown: UnknownFieldWarnings = field(default_factory=UnknownFieldWarnings)
    outgrown: GrowthWarnings = field(default_factory=GrowthWarnings)


@dataclass(frozen=True)
class Run:
    """What the batches of one run share, whichever query they belong to.

    pipeline  the pipeline's name
    workers   Spark's, as every pass uses them
    """

    pipeline: str
    checkpoint: Checkpoint
    generation: Generation
    lease: Lease
    tables: TableBook
    rules: RunRules
    workers: Workers
    memory: RunMemory = field(default_factory=RunMemory)

    @property
    def root(self) -> str:
        """The folder of all tables."""
        return self.tables.root

    @property
    def manifests(self) -> ManifestStore:
        """The batches that are decided."""
        return ManifestStore(self.checkpoint)


@dataclass(frozen=True, slots=True)
class Decided:
    """A batch that has its manifest now.

    planned  the changes of tables known before
    retried  whether a task was done more than once, so that there may be files that nobody names
    """

    manifest: Manifest
    planned: Sequence[PlannedChange]
    retried: bool


@dataclass(frozen=True)
class Attempts:
    """Takes the batches of one query from their records to their manifests.

    schemas  of values
    keys     the schemas of keys, where those are decoded
    """

    run: Run
    schemas: SchemaBook
    keys: SchemaBook | None = None

    def decided(self, records: DataFrame, batch_id: int, last: Manifest | None) -> Decided:
        """The batch after `last`, decided; nothing of it is visible yet. Raises RestartToEvolve and PipelineErrors."""
        started, run = datetime.now(timezone.utc), self.run
        run.memory.attempts[batch_id] += 1
        number = run.memory.attempts[batch_id]
        offsets, before = self._offsets(batch_id, last), self._before(last)
        settled = self._settle(records, batch_id, before)
        self._warn(settled)
        planned = planned_changes(settled, before.known)
        decision = Decision(
            batch_id=batch_id,
            offsets=offsets,
            before=before,
            settled=settled,
            changes=planned,
            logged=self._evolve(records, batch_id, settled, planned),
            attempt=Attempt(started, number),
            rules=run.rules.changes,
        )
        manifest = decide(run.pipeline, run.generation, run.tables, decision)
        failpoints.reach(failpoints.BEFORE_MANIFEST, batch_id)
        run.lease.confirm()
        run.manifests.write(manifest)
        failpoints.reach(failpoints.AFTER_MANIFEST, batch_id)
        return Decided(manifest, planned, settled.report.retried or number > 1)

    def first_pins(self, batch_id: int, before: Before, room: int = 0) -> Pins:
        """The pins of a batch's first pass; `room` is how many tables there may be beside the known ones."""
        run = self.run
        aside = str(run.checkpoint.aside / f"{batch_id}-{uuid.uuid4().hex}")
        growth = run.rules.changes.growth
        return Pins(
            batch=BatchId(run.root, aside, run.generation.id, batch_id),
            rules=run.rules.workers,
            schemas=PinnedSchemas(self.schemas.records, self.schemas.refused()),
            tables=PinnedTables(
                known=before.known,
                met=before.met,
                already=run.generation.start.already,
                grow=growth.adds,
                widen=growth.widens,
                admitted=frozenset(),
                denied=frozenset(),
                new_tables=room,
            ),
            keys=self._first_keys(),
            turn=FIRST_TURN,
        )

    def _before(self, last: Manifest | None) -> Before:
        entities = dict(last.entities) if last else self.run.tables.entities_there()
        return Before(entities, self.run.tables.pinned(entities), last.met if last else {})

    def _warn(self, settled: Settled) -> None:
        memory, seen = self.run.memory, settled.report.sightings
        memory.unknown.warn(seen.unknown)
        memory.outgrown.warn(seen.outgrown, self.run.rules.decode.max_fields)

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
        objections = Objections(run.rules.changes, run.tables, before.known)
        answers = SchemaAnswers(run.rules, before.known, self.schemas, self.keys)
        pins = self.first_pins(batch_id, before, objections.new_tables.room())
        return Settling(records.sparkSession, run.tables, objections, answers, run.workers).settle(
            records, pins
        )

    def _first_keys(self) -> PinnedKeys | None:
        if self.keys is not None:
            return PinnedKeys(decoded=True, records=self.keys.records, refused=self.keys.refused())
        return None if self.run.rules.decode.key == "bytes" else PinnedKeys()

    def _evolve(
        self, records: DataFrame, batch_id: int, settled: Settled, planned: Sequence[PlannedChange]
    ) -> list[LoggedChange]:
        """Make the tables what the batch needs; what this and earlier attempts at it wrote down before."""
        run, log = self.run, ChangeLog(self.run.checkpoint)
        # Written down first, so that a change is on record even if we die in the middle of making it.
        log.write(batch_id, [one for change in planned for one in logged_changes(change)])
        logged = log.read(batch_id)
        changer = TableChanger(run.tables, records.sparkSession, run.rules.changes.columns)
        changer.apply(planned, settled.layouts, {"distributary.pipeline": run.pipeline})
        return logged


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
