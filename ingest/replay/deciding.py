"""Steps 2 to 6 of docs/explanation/how-a-batch-commits.md for the records of a replay: the passes are a batch's, and so is what they are held to."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timezone
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from distributary.codecs.base import load_codec
from distributary.errors import CommitImpossible
from distributary.ingest import failpoints
from distributary.ingest.batch.attempt import Attempts, logged_changes
from distributary.ingest.batch.decide import Attempt, Before, Decision, code_version, draft, whole_histories
from distributary.ingest.batch.new_tables import memories
from distributary.ingest.batch.objections import Objections
from distributary.ingest.batch.passes import Records, Settled, Settling, Workers, discard, planned_changes
from distributary.ingest.batch.schema_answers import SchemaAnswers
from distributary.ingest.batch.sweep import sweep
from distributary.ingest.batch.waiting_records import waiting_records
from distributary.ingest.bronze.rule import AsTheyCame
from distributary.ingest.checkpoint.change_log import ChangeLog, LoggedChange
from distributary.ingest.checkpoint.manifest import BatchPins, Counts, Manifest, TableFiles
from distributary.ingest.columns.layout import Layout
from distributary.ingest.columns.safe_names import CHANGES_TABLE, QUARANTINE_TABLE, RESOLVED_TABLE
from distributary.ingest.evolution.change_rows import ChangeRows, Origin, made_before, planned
from distributary.ingest.evolution.transitions import Transitions
from distributary.ingest.kafka.offsets import Offsets, Stretches
from distributary.ingest.kafka.records import RAW
from distributary.ingest.merge.columns import DataColumns
from distributary.ingest.parquet.data_file import DataFile, file_name
from distributary.ingest.parquet.statistics import statistics
from distributary.ingest.pins import Pins
from distributary.ingest.quarantine.resolved import ALREADY, DROPPED, IDENTITY, RESOLVED_SCHEMA
from distributary.ingest.replay.kept import NUMBER, Kept
from distributary.ingest.replay.places import Places
from distributary.ingest.replay.staging import rows_staged
from distributary.ingest.settings.groups import Columns
from distributary.ingest.storage.contract import Files
from distributary.ingest.tables.change import TableChanger, create
from distributary.ingest.tables.known import PIPELINE_PROPERTY
from distributary.ingest.tables.ledger import CHANGES_SCHEMA, QUARANTINE_SCHEMA, changes_file
from distributary.ingest.tables.transaction import app_of_replays
from distributary.ingest.upkeep.resolved import TO_TABLE
from distributary.ingest.worker.report import WrittenFile

_WHY = pa.schema([QUARANTINE_SCHEMA.field(name) for name in (*IDENTITY[2:], "reason")])


NO_STRETCHES: Stretches = {}


class _Staged(Workers):
    """Workers that are handed records as they were set aside, whole."""

    __slots__ = ()

    def run_small(self, records: Records, pins: Pins) -> None:
        """Their sizes are bounded by the files that they are in."""

    def columns(self, records: Records, pins: Pins) -> Records:
        """They have the columns that workers need."""
        return records


@dataclass(frozen=True, slots=True)
class Became:
    """What became of the records of a replay, once it is decided.

    tables   rows by their table's folder
    already  records that a table had
    dropped  records that the settings let go, and deletes
    refused  records that stay in quarantine, by the reason why they would go there now
    left     rows that left tables for that, by the tables' folders
    kept     records that would go to quarantine now and keep the row that they have, by the reason
    """

    tables: Mapping[str, int] = field(default_factory=dict)
    already: int = 0
    dropped: int = 0
    refused: Mapping[str, int] = field(default_factory=dict)
    left: Mapping[str, int] = field(default_factory=dict)
    kept: Mapping[str, int] = field(default_factory=dict)

    @property
    def resolved(self) -> int:
        """Records that are open no more."""
        return sum(self.tables.values()) + self.already + self.dropped

    def and_(self, more: Became) -> Became:
        """Both together."""
        return Became(
            _sums(self.tables, more.tables),
            self.already + more.already,
            self.dropped + more.dropped,
            _sums(self.refused, more.refused),
            _sums(self.left, more.left),
            _sums(self.kept, more.kept),
        )

    def as_dict(self) -> dict[str, Any]:
        """The same as JSON values; what only a replay that replaces rows has is not told of others, which earlier versions go on with."""
        told = asdict(self)
        return {name: value for name, value in told.items() if value or name not in {"left", "kept"}}


def _sums(some: Mapping[str, int], more: Mapping[str, int]) -> dict[str, int]:
    return {name: some.get(name, 0) + more.get(name, 0) for name in {**some, **more}}


@dataclass(frozen=True, slots=True)
class Decided:
    """What each table gets; None where nothing is for any.

    leaving  where the records are from whose rows leave tables then, by the tables' folders
    """

    manifest: Manifest | None
    became: Became
    leaving: Mapping[str, Places] = field(default_factory=dict)


@dataclass(frozen=True)
class Deciding:
    """Decides one replay, as a batch behind the newest one of its pipeline would be.

    last   the manifest of that; None before the first
    let    raises where tables, by their folders, whose rows take the place of others may not get any now
    """

    attempts: Attempts
    kept: Kept
    last: Manifest | None
    spark: SparkSession
    let: Callable[[Sequence[str]], None]

    def _begin(self) -> None:
        run = self.attempts.run
        run.parked.leave_alone()
        self._sweep()
        run.workers.prepare(self.spark)

    def _sweep(self) -> None:
        """Delete what attempts before wrote and nothing names."""
        sweep(self.attempts.run.root, self.kept.id, [range(NUMBER, NUMBER + 1)], (), many=True)

    def _settled(
        self, records: Records, offsets: Offsets, workers: Workers, placed: Stretches = NO_STRETCHES
    ) -> tuple[Settled, Before]:
        """Every record in its place, but for those that `placed` has; and what there was before."""
        run, before = self.attempts.run, self._before()
        rules = run.rules
        if rules.decode.evolution in ("auto", "restart"):
            # There is no query that could be started again.
            rules = replace(rules, decode=rules.decode.model_copy(update={"evolution": "inline"}))
        objections = Objections(rules.changes, run.tables, before.known)
        answers = SchemaAnswers(rules, before.known, self.attempts.schemas, self.attempts.keys)
        pins = self.attempts.first_pins(NUMBER, offsets, before, objections.new_tables.room())
        pins = replace(
            pins,
            batch=replace(
                pins.batch,
                generation=self.kept.id,
                made_for=NUMBER,
                aside=self.kept.records.below(f"waiting-{uuid.uuid4().hex}"),
            ),
            # They were kept as they came when they were read.
            rules=replace(
                pins.rules,
                tables=replace(pins.rules.tables, kept=AsTheyCame(headers=pins.rules.tables.kept.headers)),
                # Of a single topic workers take all records for its own, and these may be of one that is read no more.
                topics=tuple({**dict.fromkeys(pins.rules.topics), **dict.fromkeys(offsets)}),
            ),
            # Which of the records a table has was looked up one by one.
            tables=replace(pins.tables, already={}),
            placed=placed,
        )
        settling = Settling(records.sparkSession, run.tables, objections, answers, workers)
        return settling.settle(records, pins), before

    def _before(self) -> Before:
        """What there is behind the newest batch, with tables that replays have made since: their columns are told of once."""
        run, before = self.attempts.run, self.attempts.before(self.last)
        there = run.tables.entities_there(run.pipeline, run.owners.pipelines())
        made = {entity: folder for entity, folder in there.items() if entity not in before.entities}
        if not made:
            return before
        known = {**before.known, **run.tables.pinned(made)}
        return replace(before, entities={**before.entities, **made}, known=known)

    def _decision(self, settled: Settled, before: Before, offsets: Offsets) -> Decision:
        """The tables made what the records need."""
        run = self.attempts.run
        parked = sorted(run.parked.folders & set(settled.layouts))
        if parked:
            raise CommitImpossible(
                f"records of this replay are for {', '.join(parked)}, which is parked: nothing of it became visible. Let `distributary resolve` "
                "decide about that table, run the pipeline, and say this again; or choose others, as by --entity",
                tuple(parked),
            )
        book, written = run.rules.workers.tables, settled.report.files.written
        self.let(sorted({one.table for one in written if one.entity is not None and book.upsert(one.entity)}))
        run.owners.claim(settled.layouts)
        changes = planned_changes(settled, before.known)
        logged = self._evolved(settled, changes)
        number = 0 if self.last is None else self.last.batch_id
        attempt = Attempt(datetime.now(timezone.utc), 1)
        return Decision(number, offsets, before, settled, changes, logged, attempt, run.rules.changes)

    def _evolved(self, settled: Settled, changes: Sequence[Any]) -> list[LoggedChange]:
        run, log = self.attempts.run, ChangeLog(self.kept.checkpoint)
        amid = partial(failpoints.reach, failpoints.AMID_SCHEMA_CHANGE, NUMBER)
        changer = TableChanger(run.tables, run.tables.spark, run.rules.changes.columns, run.log.confirm, amid)
        remembering = changer.lacking(memories(settled.pins, settled.report, settled.layouts))
        # Written down first, so that a change is on record even if we die in the middle of making it.
        log.write(NUMBER, [one for change in changes for one in logged_changes(change)])
        logged = log.read()
        changer.apply(changes, settled.layouts, {PIPELINE_PROPERTY: run.pipeline}, (), remembering)
        return logged

    def _manifest(self, decision: Decision) -> Manifest:
        """That of a batch, held to the same sums, with this replay's transactions, and without what quarantine and ledger would get of it."""
        run = self.attempts.run
        whole = draft(run.generation, run.tables, decision)
        app = app_of_replays(run.generation.id)
        events = [replace(table, app_id=app) for table in whole.tables if table.role == "events"]
        return replace(whole, batch_id=NUMBER, tables=(*events, *self._changes(app, whole, decision)))

    def _changes(self, app: str, manifest: Manifest, decision: Decision) -> list[TableFiles]:
        """The rows of the ledger of changes: columns that came, as if with the newest batch."""
        run = self.attempts.run
        codec = load_codec(decision.settled.pins.rules.decoding.codec)
        transitions = Transitions(codec, decision.settled.pins.schemas.records)
        entities = {folder: entity for entity, folder in manifest.entities.items()}
        origin = Origin(run.pipeline, run.generation.id, decision.batch_id)
        rows = ChangeRows(origin, transitions, whole_histories(decision, manifest), ())
        now = planned(decision.changes)
        states = run.tables.states(logged.change.table for logged in decision.logged)
        came = [*now, *made_before(decision.logged, now, entities, states)]
        if not came:
            return []
        found = [replace(rows.of_column(one), generation=run.generation.id) for one in came]
        file = changes_file(run.root, found, file_name(self.kept.id, NUMBER))
        return [TableFiles(CHANGES_TABLE, "changes", app, Layout(CHANGES_SCHEMA), True, (file,))]

    def _with_resolved(
        self,
        manifest: Manifest | None,
        rows: pa.Table,
        placed: Mapping[str, pa.Array],
        refused: Mapping[str, pa.Array],
    ) -> Decided:
        """With the rows of `quarantine_resolved`; `placed` has where records are from that a table gets, `refused` those that fail again, as texts.

        Raises OSError.
        """
        run = self.attempts.run
        where, already = _texts(rows), rows["already"]
        stays = pc.is_in(where, _joined(refused))
        done = rows.filter(pc.invert(stays))
        where, already = _texts(done), done["already"]
        table: Any = already
        for folder, texts in placed.items():
            table = pc.if_else(pc.is_in(where, texts), folder, table)
        outcome = pc.if_else(pc.is_valid(already), ALREADY, pc.if_else(pc.is_valid(table), TO_TABLE, DROPPED))
        became = Became(
            {folder: len(texts) for folder, texts in placed.items()},
            done.num_rows - already.null_count,
            _count(outcome, DROPPED),
            {reason: len(texts) for reason, texts in refused.items()},
        )
        if not done.num_rows:
            return Decided(None, became)
        count, now = done.num_rows, pa.scalar(datetime.now(timezone.utc), pa.timestamp("us", "UTC"))
        own = {
            **{name: done[name] for name in IDENTITY},
            "pipeline": pa.repeat(pa.scalar(run.pipeline), count),
            "replay": pa.repeat(pa.scalar(self.kept.id), count),
            "at": pa.repeat(now, count),
            "outcome": outcome,
            "table": table,
        }
        resolved = pa.table([own[name] for name in RESOLVED_SCHEMA.names], schema=RESOLVED_SCHEMA)
        create(run.tables.place(RESOLVED_TABLE), RESOLVED_SCHEMA, run.tables.made_with.properties)
        run.tables.changed(RESOLVED_TABLE)
        app = app_of_replays(run.generation.id)
        file = self._resolved_file(resolved)
        last = TableFiles(RESOLVED_TABLE, "quarantine", app, Layout(RESOLVED_SCHEMA), True, (file,))
        manifest = manifest or self._of_nothing()
        whole = replace(manifest, tables=(*manifest.tables, last))
        # A manifest that is there has all its files.
        run.root.sync(
            f"{folder}/{one.name}"
            for part in whole.tables
            for folder, files in part.parts.items()
            for one in files
        )
        return Decided(whole, became)

    def _of_nothing(self) -> Manifest:
        """Of records that all were in their tables before."""
        run, entities = self.attempts.run, {} if self.last is None else self.last.entities
        now = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
        return Manifest(
            NUMBER, run.generation.id, now, code_version(), {}, BatchPins(), entities, (), Counts({})
        )

    def _resolved_file(self, rows: pa.Table) -> DataFile:
        memory = pa.BufferOutputStream()
        with pq.ParquetWriter(memory, RESOLVED_SCHEMA, compression="zstd") as writer:
            writer.write_table(rows)
        data, name = memory.getvalue(), file_name(self.kept.id, NUMBER)
        self.attempts.run.root.put(f"{RESOLVED_TABLE}/{name}", data, named_later=True)
        told = statistics(writer.writer.metadata, Layout(RESOLVED_SCHEMA))
        return DataFile(RESOLVED_TABLE, name, rows.num_rows, data.size, told)


@dataclass(frozen=True)
class OfQuarantine(Deciding):
    """Decides what becomes of records that were taken out of quarantine.

    files  the names of those with them
    """

    files: Sequence[str]

    def decided(self) -> Decided:
        """Nothing of it is visible yet. Raises PipelineErrors for what stands in its way."""
        self._begin()
        run, rows = self.attempts.run, rows_staged(self.kept.records)
        if not self.files:
            return self._with_resolved(None, rows, {}, {})
        records = waiting_records(self.spark, self.kept.records, self.files).select(*RAW)
        known = run.workers
        workers = _Staged(known.slots, known.headers, known.arrow_rows, known.most_files)
        settled, before = self._settled(records, _span(rows), workers)
        try:
            files = settled.report.files.written
            placed = _placed(run.root, files, run.rules.workers.columns)
            refused = _refused(run.root, files)
            manifest = self._manifest(self._decision(settled, before, _span(rows)))
        except BaseException:
            discard(run.root, settled.report)
            raise
        # Of those that fail again quarantine has the rows already.
        discard(
            run.root, settled.report, {one.file.table for one in files if one.entity is not None}.__contains__
        )
        return self._with_resolved(manifest, rows, placed, refused)


def _span(rows: pa.Table) -> Offsets:
    """Between which offsets the records of a replay stand."""
    wanted = [("kafka_offset", "min"), ("kafka_offset", "max")]
    mine = rows.filter(pc.is_null(rows["already"]))
    found: dict[str, dict[int, tuple[int, int]]] = {}
    for one in mine.group_by(["kafka_topic", "kafka_partition"]).aggregate(wanted).to_pylist():
        span = (one["kafka_offset_min"], one["kafka_offset_max"] + 1)
        found.setdefault(one["kafka_topic"], {})[one["kafka_partition"]] = span
    return found


def _texts(rows: pa.Table, names: Sequence[str] = IDENTITY[2:]) -> pa.ChunkedArray:
    """Where records are from, each as one text."""
    return pc.binary_join_element_wise(*(rows[name].cast(pa.string()) for name in names), "/")


def _joined(texts: Mapping[str, pa.Array]) -> pa.Array:
    return pa.concat_arrays([pa.array([], pa.string()), *texts.values()])


def _count(values: pa.ChunkedArray, wanted: str) -> int:
    return int(pc.sum(pc.equal(values, wanted)).as_py() or 0)


def _placed(root: Files, files: Sequence[WrittenFile], columns: Columns) -> dict[str, pa.Array]:
    """Where the records are from that each table gets, as far as its files say so: of deletes it remembers where they stood in the order."""
    names = (columns.kafka_topic, columns.kafka_partition, columns.kafka_offset)
    kinds = [QUARANTINE_SCHEMA.field(name).type for name in IDENTITY[2:]]
    wanted, found = pa.schema(list(zip(names, kinds, strict=True))), dict[str, list[pa.Array]]()
    for written in files:
        if written.entity is not None:
            texts = [
                _texts(part, names).combine_chunks()
                for part in _parts(root, written.file, wanted)
                if not any(part[name].null_count for name in names)
            ]
            found.setdefault(written.table, []).extend(texts)
    whole = {folder: pa.concat_arrays(texts) for folder, texts in found.items() if texts}
    return {folder: texts.unique() for folder, texts in whole.items()}


def _refused(root: Files, files: Sequence[WrittenFile]) -> dict[str, pa.Array]:
    """Where the records are from that would go to quarantine again, by the reason."""
    found: dict[str, list[pa.Array]] = {}
    for written in files:
        if written.file.table != QUARANTINE_TABLE:
            continue
        for part in _parts(root, written.file, _WHY):
            for reason in part["reason"].unique().to_pylist():
                mine = part.filter(pc.equal(part["reason"], reason))
                found.setdefault(reason, []).append(_texts(mine).combine_chunks())
    return {reason: pa.concat_arrays(texts) for reason, texts in found.items()}


def _parts(root: Files, file: DataFile, columns: pa.Schema) -> Iterator[pa.Table]:
    data = DataColumns(root.below(file.table), file.name, file.bytes, dict(file.partition))
    for number, _, _ in data.groups():
        yield data.read(number, columns)
