"""One micro-batch from Kafka's records to commits in all its tables: what `foreachBatch` calls."""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone

from pyspark.sql import DataFrame

from distributary.errors import CheckpointMismatch
from distributary.ingest import failpoints
from distributary.ingest.batch.decide import Decision, decide
from distributary.ingest.batch.finish import Finisher
from distributary.ingest.batch.judge import Judge
from distributary.ingest.batch.passes import Settled, Settling, planned_changes
from distributary.ingest.batch.rewrite import Rewriter
from distributary.ingest.batch.sweep import sweep_batch
from distributary.ingest.checkpoint.change_log import ChangeLog, TableChange
from distributary.ingest.checkpoint.continuity import check_manifest
from distributary.ingest.checkpoint.folder import Checkpoint
from distributary.ingest.checkpoint.generation import Generation
from distributary.ingest.checkpoint.histories import Histories
from distributary.ingest.checkpoint.manifest import Manifest
from distributary.ingest.checkpoint.manifest_file import ManifestStore
from distributary.ingest.checkpoint.spark_files import batch_offsets
from distributary.ingest.evolution.rules import tables_grow, tables_widen, worker_policies
from distributary.ingest.kafka.offsets import Offsets, ends, starts
from distributary.ingest.kafka.records import record_headers
from distributary.ingest.pins import (
    FIRST_TURN,
    BatchId,
    Decoding,
    PinnedKeys,
    PinnedSchemas,
    PinnedTable,
    PinnedTables,
    Pins,
    WorkerRules,
)
from distributary.ingest.routing.ahead import ReadExpression
from distributary.ingest.routing.tree import Node
from distributary.ingest.schemas.book import SchemaBook
from distributary.ingest.settings.model import Settings
from distributary.ingest.tables.book import TableBook
from distributary.ingest.tables.change import PlannedChange, TableChanger
from distributary.ingest.tables.log_commit import NativeCommits
from distributary.ingest.worker.sightings import GrowthWarnings, UnknownFieldWarnings

# How many rows a Python worker is given at once.
ARROW_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"


@dataclass(frozen=True, slots=True)
class Done:
    """A finished batch. `resumed`: an earlier attempt had decided it. `changes` are those of tables known before."""

    manifest: Manifest
    seconds: float
    resumed: bool
    changes: Sequence[PlannedChange] = ()


@dataclass
class BatchRunner:
    """Everything that batches of one query share.

    slots     how many tasks run at once
    attempts  how often each batch was begun in this run, by earlier queries too
    warnings, growth_warnings  what this run has been warned of
    expression  what records are routed by, for `route.by: expression`
    keys      the schemas of keys, where those are decoded
    """

    settings: Settings
    checkpoint: Checkpoint
    generation: Generation
    schemas: SchemaBook
    tables: TableBook
    native: NativeCommits
    slots: int
    confirm_lease: Callable[[], None]
    on_start: Callable[[int], None]
    on_done: Callable[[Done], None]
    attempts: Counter[int] = field(default_factory=Counter)
    warnings: UnknownFieldWarnings = field(default_factory=UnknownFieldWarnings)
    expression: ReadExpression | None = None
    keys: SchemaBook | None = None
    growth_warnings: GrowthWarnings = field(default_factory=GrowthWarnings)

    def __post_init__(self) -> None:
        self.manifests = ManifestStore(self.checkpoint)
        self._last: Manifest | None = None
        self._retried = False
        self._change_log = ChangeLog(self.checkpoint)
        self._finisher = Finisher(
            self.settings, self.checkpoint, self.tables, self.native, self.generation.lineage
        )
        self._rewriter = Rewriter(
            self.checkpoint, record_headers(self.settings.source, self.settings.route), self.slots
        )

    def __call__(self, records: DataFrame, batch_id: int) -> None:
        """Bring a batch to its end, from the beginning or from where an earlier attempt left it."""
        self.on_start(batch_id)
        began = time.monotonic()
        # The query's own session, so that the settings hold in one that a caller brought, and nowhere else in it.
        records.sparkSession.conf.set(ARROW_ROWS, str(self.settings.limits.arrow_rows))
        manifest, planned = self.manifests.read(batch_id), list[PlannedChange]()
        resumed = manifest is not None
        if manifest is None:
            manifest, planned = self._decided(records, batch_id)
        else:
            check_manifest(self.checkpoint, self.generation, manifest)
            manifest = self._rewriter.restored(manifest, records, self._first_pins(batch_id, {}, {}))
        self._last = manifest
        self._finisher.finish(manifest, records)
        if resumed or self._retried or self.attempts[batch_id] > 1 or manifest.pins.decisions["guarded"]:
            # Whoever died on the way may have left files that the manifest does not name.
            sweep_batch(self.settings.sink.root, self.generation.id, batch_id, manifest.file_names())
        failpoints.reach(failpoints.BEFORE_SPARK_COMMIT, batch_id)
        self.on_done(Done(manifest, time.monotonic() - began, resumed, planned))

    def _decided(self, records: DataFrame, batch_id: int) -> tuple[Manifest, list[PlannedChange]]:
        started = datetime.now(timezone.utc)
        self.attempts[batch_id] += 1
        last = self._last or self.manifests.last()
        offsets = self._offsets(batch_id, last)
        entities = dict(last.entities) if last else self.tables.entities_there()
        known = self.tables.pinned(entities)
        met = last.met if last else {}
        settled = self._settle(records, batch_id, known, met)
        self._retried = settled.report.retried
        self.warnings.warn(settled.report.sightings.unknown)
        self.growth_warnings.warn(settled.report.sightings.outgrown, self.settings.decode.max_fields)
        planned = planned_changes(settled, known)
        self._evolve(records, batch_id, settled, planned)
        attempts, logged = self.attempts[batch_id], self._change_log.read(batch_id)
        decision = Decision(
            batch_id,
            offsets,
            settled,
            entities,
            planned,
            started,
            attempts,
            logged,
            known,
            met,
            self.expression,
        )
        manifest = decide(self.settings, self.generation, self.tables, decision)
        failpoints.reach(failpoints.BEFORE_MANIFEST, batch_id)
        self.confirm_lease()
        self.manifests.write(manifest)
        failpoints.reach(failpoints.AFTER_MANIFEST, batch_id)
        return manifest, planned

    def _offsets(self, batch_id: int, last: Manifest | None) -> Offsets:
        """The batch's offsets, which go on where the batch before ended."""
        offsets = batch_offsets(self.checkpoint, batch_id)
        if last is not None and last.batch_id == batch_id - 1:
            ended = ends(last.offsets)
            begun = {
                topic: {p: o for p, o in ps.items() if p in ended.get(topic, {})}
                for topic, ps in starts(offsets).items()
            }
            if begun != ended:
                raise CheckpointMismatch(
                    f"batch {batch_id} begins at {begun}, but batch {last.batch_id} ended at {ended}: Spark's files in "
                    f"{self.checkpoint.offsets} were edited; restore them, or go on with a new checkpoint and "
                    "`start: from_tables`"
                )
        return offsets

    def _settle(
        self, records: DataFrame, batch_id: int, known: Mapping[str, PinnedTable], met: Histories
    ) -> Settled:
        judge = Judge(self.settings, self.schemas, self.tables, known, self.keys)
        pins = self._first_pins(batch_id, known, met, judge.room())
        headers = record_headers(self.settings.source, self.settings.route)
        return Settling(records.sparkSession, judge, self.tables, headers, self.slots).settle(records, pins)

    def _first_pins(
        self, batch_id: int, known: Mapping[str, PinnedTable], met: Histories, room: int = 0
    ) -> Pins:
        settings = self.settings
        aside = str(self.checkpoint.aside / f"{batch_id}-{uuid.uuid4().hex}")
        return Pins(
            batch=BatchId(str(settings.sink.root), aside, self.generation.id, batch_id),
            rules=worker_rules(settings, self.expression.tree if self.expression else None),
            schemas=PinnedSchemas(self.schemas.records, self.schemas.refused()),
            tables=PinnedTables(
                known=known,
                met=met,
                already=self.generation.start.already,
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
        return None if self.settings.decode.key == "bytes" else PinnedKeys()

    def _evolve(
        self, records: DataFrame, batch_id: int, settled: Settled, planned: Sequence[PlannedChange]
    ) -> None:
        # Written down first, so that a change is on record even if we die in the middle of making it.
        self._change_log.write(batch_id, [one for change in planned for one in logged_changes(change)])
        threads = self.settings.limits.commit_threads
        changer = TableChanger(self.tables, records.sparkSession, self.settings.sink.columns, threads)
        changer.apply(planned, settled.layouts, {"distributary.pipeline": self.settings.name})


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
