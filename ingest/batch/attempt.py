"""An attempt at a batch that has no manifest yet: steps 2 to 6 of docs/explanation/how-a-batch-commits.md, one after the other."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import cached_property, partial

from pyspark.sql import DataFrame

from distributary.codecs.base import load_codec
from distributary.files import machine
from distributary.ingest import failpoints
from distributary.ingest.batch.decide import Attempt, Before, Decision, decide
from distributary.ingest.batch.new_tables import memories
from distributary.ingest.batch.objections import Objections, with_vetoes
from distributary.ingest.batch.parking import RunsParkedTables
from distributary.ingest.batch.passes import Settled, Settling, Workers, planned_changes
from distributary.ingest.batch.schema_answers import SchemaAnswers
from distributary.ingest.batch.waiting_records import place_aside
from distributary.ingest.bronze import rows as bronze
from distributary.ingest.bronze.rule import ALREADY
from distributary.ingest.checkpoint.change_log import ChangeLog, LoggedChange, TableChange
from distributary.ingest.checkpoint.folder import Checkpoint
from distributary.ingest.checkpoint.generation import Generation
from distributary.ingest.checkpoint.manifest import Manifest
from distributary.ingest.checkpoint.manifest_json import to_json
from distributary.ingest.checkpoint.sums import check_sums
from distributary.ingest.commit_log.entries import NONE
from distributary.ingest.commit_log.followed import Followed
from distributary.ingest.commit_log.owners import Owners
from distributary.ingest.commit_log.writing import written
from distributary.ingest.evolution.rules import RunRules
from distributary.ingest.evolution.vetoes import Veto, Vetoes
from distributary.ingest.kafka.offset_spans import join_spans, spans_of
from distributary.ingest.kafka.offsets import Offsets, stretches_within
from distributary.ingest.merge.rule import memory_folder
from distributary.ingest.pins import (
    COLUMNS,
    FIRST_TURN,
    BatchId,
    Coordinates,
    PinnedKeys,
    PinnedSchemas,
    PinnedTables,
    Pins,
    RecordKey,
    Verdict,
)
from distributary.ingest.schemas.known import SchemaBook
from distributary.ingest.storage.clients import sent
from distributary.ingest.storage.contract import Files
from distributary.ingest.tables.change import PlannedChange, TableChanger
from distributary.ingest.tables.commit import OF_ONE_TABLE
from distributary.ingest.tables.known import PIPELINE_PROPERTY, TableBook
from distributary.ingest.tables.properties import Retelling, Retellings
from distributary.ingest.worker.fields_seen import GrowthWarnings, RouteWarnings, UnknownFieldWarnings

_log = logging.getLogger(__name__)

_ANY: Coordinates = ("", 0, 0)

# Of tables that are never made there may be as many as records have texts for their names.
_MOST_NEW = 1_000


@dataclass
class RunMemory:
    """What a run remembers from one query to the next: how often the newest batch was begun, and what it has warned of.

    remade  the tables that were gone and were made anew
    vetoed  record types that tables did not take in the newest batch, or would not have, which will come again, and why
    """

    attempts: dict[int, int] = field(default_factory=dict)
    sent_before: int = field(default_factory=sent)
    unknown: UnknownFieldWarnings = field(default_factory=UnknownFieldWarnings)
    outgrown: GrowthWarnings = field(default_factory=GrowthWarnings)
    unrouted: RouteWarnings = field(default_factory=RouteWarnings)
    remade: dict[str, None] = field(default_factory=dict)
    vetoed: dict[RecordKey, dict[str, Verdict]] = field(default_factory=dict)

    def note_remade(self, folders: Iterable[str]) -> None:
        """Tell of tables that the pipeline had and that are to be made anew: somebody took them away."""
        for folder in folders:
            self.remade[folder] = None
            _log.warning(
                "table %s is gone, and is made anew with the rows that come from here on: those that it had are not brought back. If that was not "
                "meant, stop this run and put its folder back",
                folder,
            )

    def note_vetoed(self, pins: Pins) -> None:
        """Take note of what tables did not take in a batch, so that the next one need not be read twice to find out."""
        self.vetoed = {}
        for folder, keys in pins.turn.vetoed.items():
            for key, verdict in keys.items():
                self.vetoed.setdefault(key, {})[folder] = verdict

    def vetoed_by_new(self, known: Container[str]) -> list[Veto]:
        """Of that what is of tables that are still not there, in which nothing but their rule had a say."""
        found = [
            Veto(folder, key, stops=False, why=verdict.detail, first=_ANY, reason=verdict.reason)
            for key, folders in self.vetoed.items()
            for folder, verdict in folders.items()
            if folder not in known and verdict.reason == COLUMNS
        ]
        return found[-_MOST_NEW:]

    def sent(self) -> int:
        """How many requests to object stores the driver has sent since this was asked last."""
        before, self.sent_before = self.sent_before, sent()
        return self.sent_before - before

    def begun(self, batch_id: int) -> int:
        """How often this batch was begun, with this time. Those before it are done, and a run may bring millions to their end."""
        count = self.attempts.get(batch_id, 0) + 1
        self.attempts.clear()
        self.attempts[batch_id] = count
        return count

    def is_first(self, batch_id: int) -> bool:
        """Whether this batch was begun once."""
        return self.attempts.get(batch_id) == 1


@dataclass(frozen=True)
class Run:
    """What the batches of one run share, whichever query they belong to.

    owners   whose the tables are, as this run asks and answers
    log      its checkpoint's, which this run writes unless it is beside another one
    workers  Spark's, as every pass uses them
    """

    owners: Owners
    checkpoint: Checkpoint
    generation: Generation
    log: Followed
    tables: TableBook
    rules: RunRules
    workers: Workers
    memory: RunMemory = field(default_factory=RunMemory)

    @cached_property
    def parked(self) -> RunsParkedTables:
        """The tables that are parked."""
        return RunsParkedTables(self.checkpoint, self.log, self.tables, self.rules.parking)

    @cached_property
    def retellings(self) -> Retellings:
        """The tables that are to say something else of themselves."""
        return Retellings(self.tables)

    @property
    def pipeline(self) -> str:
        """The pipeline's name."""
        return self.owners.me.pipeline

    @property
    def root(self) -> Files:
        """The folder of all tables."""
        return self.tables.root


@dataclass(frozen=True, slots=True)
class Decided:
    """A batch that has its manifest now.

    before   the newest batch that the log had before it
    planned  the changes of tables known before
    retried  whether a task was done more than once, so that there may be files that nobody names
    resumed  whether it was decided before this query began, and so may lack files that were there then
    touched  the folders in which such files may be; None where nobody knows
    """

    manifest: Manifest
    before: int
    planned: Sequence[PlannedChange]
    retried: bool
    resumed: bool = False
    touched: frozenset[str] | None = None


@dataclass(frozen=True)
class Attempts:
    """Takes the batches of one query from their records to their manifests.

    schemas        of values
    still_as_read  raises CheckpointMismatch where a topic was made anew, so that offsets count other records
    keys           the schemas of keys, where those are decoded
    """

    run: Run
    schemas: SchemaBook
    still_as_read: Callable[[], None]
    keys: SchemaBook | None = None

    def decided(
        self, records: DataFrame, offsets: Offsets, last: Manifest | None, *, gone: bool = False
    ) -> Decided:
        """The batch after `last`, decided; nothing of it is visible yet. Raises RestartToEvolve and PipelineErrors.

        `gone` says that Kafka has no more any of the records at these offsets.
        """
        started, run = datetime.now(timezone.utc), self.run
        run.parked.leave_alone()
        before = self.before(last)
        run.parked.require_room()
        # A table that was parked by looking at it has the number that was next before.
        batch_id = run.log.next
        number = run.memory.begun(batch_id)
        settled = self._settle(records, batch_id, offsets, before)
        run.parked.require_columns(settled.layouts)
        lost = self._lost(settled, offsets) if gone else 0
        self._warn(settled)
        run.memory.note_vetoed(settled.pins)
        # All records were read by now: those of a topic that is made anew from here on are in a later batch.
        self.still_as_read()
        # Of tables that this run has not written to, so that none is made, or changed, that is another's.
        run.owners.claim([*settled.layouts, *settled.kept])
        planned = planned_changes(settled, before.known)
        told = run.retellings.wanted(
            {folder: before.known[folder].entity for folder in settled.layouts if folder in before.known}
        )
        run.memory.note_remade(
            [one.folder for one in planned if one.new and one.folder in before.entities.values()]
        )
        decision = Decision(
            batch_id=batch_id,
            offsets=offsets,
            before=before,
            settled=settled,
            changes=[*planned, *told],
            logged=self._evolve(records, batch_id, settled, planned, told),
            attempt=Attempt(started, number, run.memory.sent(), lost),
            rules=run.rules.changes,
        )
        manifest = decide(run.pipeline, run.generation, run.tables, decision)
        failpoints.reach(failpoints.BEFORE_MANIFEST, batch_id)
        check_sums(manifest)
        entry = written(run.log).append(
            offsets, to_json(manifest), (table.folder for table in manifest.tables)
        )
        failpoints.reach(failpoints.AFTER_MANIFEST, batch_id)
        return Decided(
            manifest,
            entry.before,
            planned,
            retried=settled.report.retried or number > 1,
            # An attempt that came to nothing told of no file.
            touched=None if number > 1 or settled.pins.turn.guarded else settled.touched,
        )

    def _lost(self, settled: Settled, offsets: Offsets) -> int:
        """How many of these offsets nobody has the records of; those that an earlier generation brought to tables are counted there."""
        had = spans_of(stretches_within(self.run.generation.start.placed, offsets))
        counts = settled.report.counts
        join_spans(counts.spans, had)
        found = sum(span.count for span in had.values())
        counts.already += found
        if settled.pins.rules.tables.kept:
            settled.report.files.kept[ALREADY] += found
        return sum(end - first for ranges in offsets.values() for first, end in ranges.values()) - found

    def first_pins(self, batch_id: int, offsets: Offsets, before: Before, room: int = 0) -> Pins:
        """The pins of a batch's first pass; `room` is how many tables there may be beside the known ones."""
        run = self.run
        aside = place_aside(run.checkpoint.files, run.root, run.generation.id)
        growth = run.rules.changes.growth
        pins = Pins(
            batch=BatchId(
                run.root,
                aside.below(f"{batch_id}-{uuid.uuid4().hex}"),
                run.generation.id,
                batch_id,
                run.log.next,
                run.pipeline,
                machine(),
            ),
            rules=run.rules.workers,
            schemas=PinnedSchemas(self.schemas.records, self.schemas.refused()),
            tables=PinnedTables(
                known=before.known,
                met=before.met,
                already=run.generation.start.already,
                grow=growth.adds,
                widen=growth.widens,
                admitted=frozenset(),
                denied=run.rules.workers.tables.kept.folders,
                new_tables=room,
            ),
            keys=self._first_keys(),
            placed=stretches_within(run.generation.start.placed, offsets),
            turn=FIRST_TURN,
        )
        return with_vetoes(pins, self._vetoes(before)) if run.memory.vetoed else pins

    def _vetoes(self, before: Before) -> list[Veto]:
        """Of what tables did not take in this run, that which they do not take now, either."""
        rules, records = self.run.rules, self.schemas.records
        vetoes = Vetoes(load_codec(rules.decode.codec), records, rules.changes, before.known)
        known = {one.key for one in records}
        there = {key: folders for key, folders in self.run.memory.vetoed.items() if key in known}
        met = {key: dict.fromkeys(folders, _ANY) for key, folders in there.items()}
        again = [one for one in self.run.memory.vetoed_by_new(before.known) if one.key in known]
        return [*(one for one in vetoes.of(met, before.met) if not one.stops), *again]

    def before(self, last: Manifest | None) -> Before:
        """What there is before the batch after `last`."""
        run = self.run
        entities = (
            dict(last.entities) if last else run.tables.entities_there(run.pipeline, run.owners.pipelines())
        )
        try:
            there = run.tables.pinned(entities)
        except OF_ONE_TABLE as error:
            run.parked.pass_over(entities.values(), error)
            run.parked.leave_alone()
            there = run.tables.pinned(entities)
        known = {**there, **run.parked.pinned(entities)}
        run.parked.remember(known)
        return Before(entities, known, last.met if last else {})

    def _warn(self, settled: Settled) -> None:
        memory, seen = self.run.memory, settled.report.sightings
        memory.unknown.warn(seen.unknown)
        memory.outgrown.warn(seen.outgrown, self.run.rules.decode.max_fields)
        memory.unrouted.warn(seen.unrouted)

    def _settle(self, records: DataFrame, batch_id: int, offsets: Offsets, before: Before) -> Settled:
        run = self.run
        objections = Objections(run.rules.changes, run.tables, before.known)
        answers = SchemaAnswers(run.rules, before.known, self.schemas, self.keys)
        pins = self.first_pins(batch_id, offsets, before, objections.new_tables.room())
        return Settling(records.sparkSession, run.tables, objections, answers, run.workers).settle(
            records, pins
        )

    def _first_keys(self) -> PinnedKeys | None:
        if self.keys is not None:
            return PinnedKeys(decoded=True, records=self.keys.records, refused=self.keys.refused())
        return None if self.run.rules.decode.key == "bytes" else PinnedKeys()

    def _evolve(
        self,
        records: DataFrame,
        batch_id: int,
        settled: Settled,
        planned: Sequence[PlannedChange],
        told: Sequence[Retelling],
    ) -> list[LoggedChange]:
        """Make the tables what the batch needs; what this and earlier attempts at it wrote down before.

        Those are all behind the newest batch: an attempt that dies leaves its number to a start.
        """
        run, log, newest = self.run, ChangeLog(self.run.checkpoint), self.run.log.so_far.last
        amid = partial(failpoints.reach, failpoints.AMID_SCHEMA_CHANGE, batch_id)
        changer = TableChanger(
            run.tables, records.sparkSession, run.rules.changes.columns, run.log.confirm, amid
        )
        kept = memories(settled.pins, settled.report, settled.layouts)
        # A parked table gets its columns with the rows, once it takes them, and so does what remembers its deletes.
        parked = {name for folder in run.parked.folders for name in (folder, memory_folder(folder))}
        kept = changer.lacking({name: layout for name, layout in kept.items() if name not in parked})
        new = {memory_folder(change.folder) for change in planned if change.new}
        for name in sorted(kept.keys() - run.tables.states(kept).keys() - new):
            _log.warning(
                "table %s is not there, and is made: no delete of before this batch is remembered", name
            )
        kept |= changer.lacking(dict.fromkeys(settled.kept, bronze.LAYOUT))
        if not (planned or told or kept) and newest == batch_id - 1 and run.memory.is_first(batch_id):
            return []  # no attempt before this one had records from here on
        after = NONE if newest is None else newest
        # Written down first, so that a change is on record even if we die in the middle of making it.
        columns = [one for change in planned for one in logged_changes(change)]
        log.write(batch_id, [*columns, *(one for table in told for one in logged_settings(table))], after)
        logged = log.read(after)
        now = [change for change in planned if change.folder not in parked]
        changer.apply(now, settled.layouts, {PIPELINE_PROPERTY: run.pipeline}, told, kept)
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


def logged_settings(table: Retelling) -> list[TableChange]:
    """What a table is to say otherwise of itself as the log keeps it."""
    return [
        TableChange(table.folder, "property", one.name, one.after or "", table.spec.setting)
        for one in table.settings
    ]
