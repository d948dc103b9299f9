"""Step 6 of docs/explanation/how-a-batch-commits.md: everything that was decided, put into its manifest and into the rows of the ledger."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version

import pyarrow as pa

from distributary.codecs.base import load_codec
from distributary.errors import PolicyStopped
from distributary.ingest.batch.passes import Settled
from distributary.ingest.bronze import rows as bronze
from distributary.ingest.bronze.rule import ALREADY
from distributary.ingest.checkpoint import manifest_pins as decisions
from distributary.ingest.checkpoint.change_log import LoggedChange
from distributary.ingest.checkpoint.generation import Generation
from distributary.ingest.checkpoint.histories import Histories, carried_on
from distributary.ingest.checkpoint.manifest import (
    BatchPins,
    Counts,
    Manifest,
    Merging,
    Remembering,
    Role,
    SpanRead,
    TableFiles,
)
from distributary.ingest.checkpoint.sums import check_sums
from distributary.ingest.columns.layout import Layout
from distributary.ingest.columns.safe_names import BATCHES_TABLE, CHANGES_TABLE, QUARANTINE_TABLE
from distributary.ingest.evolution.change_rows import ChangeRows, Origin, made_before, planned
from distributary.ingest.evolution.meetings import Meetings
from distributary.ingest.evolution.rules import Rules
from distributary.ingest.evolution.transitions import Transitions
from distributary.ingest.kafka.offset_spans import Spans
from distributary.ingest.kafka.offsets import Offsets
from distributary.ingest.parquet.data_file import DataFile
from distributary.ingest.pins import DATA_LOST, PinnedTable, for_workers
from distributary.ingest.tables.change import PlannedChange
from distributary.ingest.tables.known import TableBook
from distributary.ingest.tables.ledger import (
    BATCHES_SCHEMA,
    CHANGES_SCHEMA,
    MERGED_ROWS,
    QUARANTINE_SCHEMA,
    BatchRow,
    ChangeRow,
    batch_file,
    changes_file,
    later,
)
from distributary.ingest.tables.properties import Retelling
from distributary.ingest.worker.fields_seen import by_schema
from distributary.ingest.worker.keyed import named_by_text, rule_of, wrong_mark


@dataclass(frozen=True, slots=True)
class Before:
    """What there was before a batch.

    entities  each value of the routing field ever seen and its table's folder
    known     the tables, by folder
    met       the record types that each of them had met
    """

    entities: Mapping[str, str]
    known: Mapping[str, PinnedTable]
    met: Histories


@dataclass(frozen=True, slots=True)
class Attempt:
    """When the attempt that decides a batch began, and how many there were in this run with it.

    sent  requests to object stores that the driver sent since the batch before was decided
    lost  how many of the batch's offsets are those of records that Kafka has no more
    """

    started_at: datetime
    number: int
    sent: int = 0
    lost: int = 0


@dataclass(frozen=True, slots=True)
class Decision:
    """A settled batch and what is known about it, on its way to become a manifest.

    changes  of tables, made by this attempt
    logged   the changes that attempts at this batch wrote down, the present one and those that died
    rules    what the settings say of changes
    """

    batch_id: int
    offsets: Offsets
    before: Before
    settled: Settled
    changes: Sequence[PlannedChange | Retelling]
    logged: Sequence[LoggedChange]
    attempt: Attempt
    rules: Rules


def decide(pipeline: str, generation: Generation, tables: TableBook, decision: Decision) -> Manifest:
    """The manifest of a batch of the pipeline of this name, its ledger files written.

    Raises SumsDisagree before anything is visible.
    """
    manifest = draft(generation, tables, decision)
    whole = _with_ledger(pipeline, generation, tables, manifest, decision)
    # A manifest that is there has all its files.
    tables.root.sync(
        f"{folder}/{file.name}"
        for table in whole.tables
        if table.role != "batches" or whole.late_row is None
        for folder, files in table.parts.items()
        for file in files
    )
    return whole


def draft(generation: Generation, tables: TableBook, decision: Decision) -> Manifest:
    """The manifest without what the ledger gets. Raises SumsDisagree."""
    report = decision.settled.report
    events, entities = _event_tables(generation, tables, decision), _entities(decision)
    manifest = Manifest(
        batch_id=decision.batch_id,
        generation=generation.id,
        created_at=datetime.now(timezone.utc).isoformat(timespec="milliseconds"),
        code_version=code_version(),
        offsets=decision.offsets,
        pins=_pins(generation, decision),
        entities=entities,
        tables=(*events, *_bronze(generation, tables, decision), *_quarantine(generation, decision)),
        counts=Counts(
            read=_read(report.counts.spans),
            rows=dict(report.counts.rows),
            quarantined=dict(report.counts.quarantined),
            dropped=dict(report.counts.dropped),
            already=report.counts.already,
            expected=_expected(report.sightings.expected),
            kept=dict(report.files.kept),
        ),
        met=carried_on(
            decision.before.met,
            report.sightings.met,
            set(entities.values()),
            decision.settled.pins.schemas.records,
        ),
    )
    check_sums(manifest)
    return manifest


def _event_tables(generation: Generation, tables: TableBook, decision: Decision) -> list[TableFiles]:
    files: dict[str, list[DataFile]] = defaultdict(list)
    deletes: dict[str, list[DataFile]] = defaultdict(list)
    entities: dict[str, str] = {}
    for written in decision.settled.report.files.written:
        if written.entity is not None:
            (deletes if written.remembers else files)[written.table].append(written.file)
            entities[written.table] = written.entity
    states = tables.states(entities)
    return [
        TableFiles(
            folder,
            "events",
            generation.app_id("events"),
            decision.settled.layouts[folder],
            # Of a parked one nobody knows what it will be by the time that it takes them.
            folder not in states or states[folder].native,
            tuple(sorted(files[folder], key=lambda file: file.name)),
            _merging(decision.settled, entities[folder], folder),
            tuple(sorted(deletes[folder], key=lambda file: file.name)),
        )
        for folder in sorted(entities)
    ]


def _merging(settled: Settled, entity: str, folder: str) -> Merging | None:
    """By which columns rows of an entity's table take the place of earlier ones; None where each is added."""
    upsert = settled.pins.rules.tables.upsert(entity)
    if upsert is None:
        return None
    pins = settled.pins
    rule = rule_of(upsert, settled.layouts[folder], pins.rules.columns, by_text=named_by_text(pins))
    deletes = None
    if upsert.remembers:
        _require_mark(upsert.mark, settled.layouts[folder], folder)
        deletes = Remembering(upsert.remember_days, mark=upsert.mark)
    return Merging(rule.keys, rule.order.sequence, upsert.moved, upsert.update, deletes, rule.history)


def _require_mark(mark: str | None, layout: Layout, folder: str) -> None:
    """Raises PolicyStopped where the column that is to mark deleted rows holds something else."""
    if wrong := wrong_mark(mark, layout):
        raise PolicyStopped(f"table {folder}: {wrong}")
    if mark is not None and layout.columns.field(mark).type != pa.bool_():
        raise PolicyStopped(
            f"table {folder}: column {mark}, by which deleted rows are to be marked, is {layout.columns.field(mark).type}, not boolean; "
            "have `deletes.mark` name another"
        )


def _bronze(generation: Generation, tables: TableBook, decision: Decision) -> list[TableFiles]:
    states, found = tables.states(decision.settled.kept), list[TableFiles]()
    for folder in decision.settled.kept:
        files = [one.file for one in decision.settled.report.files.written if one.file.table == folder]
        own = TableFiles(
            folder,
            "bronze",
            # Whose name it is nobody knows but the settings, who may say another one by tomorrow.
            generation.app_id("events"),
            bronze.LAYOUT,
            folder not in states or states[folder].native,
            tuple(sorted(files, key=lambda file: file.name)),
        )
        found.append(own)
    return found


def _quarantine(generation: Generation, decision: Decision) -> list[TableFiles]:
    written = decision.settled.report.files.written
    files = [one.file for one in written if one.file.table == QUARANTINE_TABLE]
    return [_own(generation, QUARANTINE_TABLE, "quarantine", QUARANTINE_SCHEMA, files)] if files else []


def _own(
    generation: Generation, folder: str, role: Role, schema: pa.Schema, files: Sequence[DataFile]
) -> TableFiles:
    return TableFiles(folder, role, generation.app_id(role), Layout(schema), True, tuple(files))


def _with_ledger(
    pipeline: str, generation: Generation, tables: TableBook, manifest: Manifest, decision: Decision
) -> Manifest:
    root = decision.settled.pins.batch.root
    row = _batch_row(pipeline, manifest, decision)
    late = None
    if any(table.merging for table in manifest.tables):
        file, late = later(row)
    else:
        file = batch_file(root, row)
    ledger = [_own(generation, BATCHES_TABLE, "batches", BATCHES_SCHEMA, [file])]
    rows = _change_rows(pipeline, tables, manifest, decision)
    if rows:
        file = changes_file(root, rows)
        ledger = [_own(generation, CHANGES_TABLE, "changes", CHANGES_SCHEMA, [file]), *ledger]
    return replace(manifest, tables=(*manifest.tables, *ledger), late_row=late)


def _batch_row(pipeline: str, manifest: Manifest, decision: Decision) -> BatchRow:
    counts, now = manifest.counts, datetime.now(timezone.utc)
    files = [file for table in manifest.tables for part in table.parts.values() for file in part]
    return BatchRow(
        pipeline=pipeline,
        generation=manifest.generation,
        batch_id=manifest.batch_id,
        started_at=decision.attempt.started_at,
        ended_at=now,
        seconds=(now - decision.attempt.started_at).total_seconds(),
        attempts=decision.attempt.number,
        rows_read=counts.total_read,
        rows_tables=sum(counts.rows.values()),
        rows_quarantined=sum(counts.quarantined.values()),
        rows_dropped=sum(counts.dropped.values()),
        rows_already=counts.already,
        rows_kept=_kept(counts) if decision.settled.pins.rules.tables.kept else None,
        rows_added=_added(manifest) if decision.settled.pins.rules.tables.upserts else None,
        rows_by_reason={**counts.quarantined, **counts.dropped, **_lost(decision.attempt)},
        tables=len(counts.rows),
        files=len(files),
        bytes=sum(file.bytes for file in files),
        offsets=manifest.offsets,
        gaps=manifest.gaps,
        schema_ids=sorted(decision.settled.report.counts.decoded),
        unknown_fields=by_schema(decision.settled.report.sightings.unknown),
        requests=_requests(decision),
        expectations=counts.expected or None,
        # Of the others their commits tell.
        **(dict.fromkeys(MERGED_ROWS, 0) if decision.settled.pins.rules.tables.upserts else {}),
    )


def _kept(counts: Counts) -> int:
    return sum(rows for folder, rows in counts.kept.items() if folder != ALREADY)


def _added(manifest: Manifest) -> int:
    merged = {table.folder for table in manifest.tables if table.merging is not None}
    return sum(rows for folder, rows in manifest.counts.rows.items() if folder not in merged)


def _lost(attempt: Attempt) -> dict[str, int]:
    return {DATA_LOST: attempt.lost} if attempt.lost else {}


def _requests(decision: Decision) -> int | None:
    settled = decision.settled
    return decision.attempt.sent + settled.report.files.requests if settled.pins.batch.root.remote else None


def _change_rows(pipeline: str, tables: TableBook, manifest: Manifest, decision: Decision) -> list[ChangeRow]:
    settled = decision.settled
    if not (decision.changes or decision.logged or settled.report.sightings.met):
        return []
    transitions = Transitions(load_codec(settled.pins.rules.decoding.codec), settled.pins.schemas.records)
    layouts = settled.layouts
    entities = {folder: entity for entity, folder in manifest.entities.items()}
    meetings = Meetings(transitions, decision.rules, decision.before.known, layouts, entities).of(
        settled.report.sightings.met, decision.before.met
    )
    origin = Origin(pipeline, manifest.generation, manifest.batch_id)
    rows = ChangeRows(origin, transitions, whole_histories(decision, manifest), meetings)
    now = planned(decision.changes)
    states = tables.states(logged.change.table for logged in decision.logged)
    came = [*now, *made_before(decision.logged, now, entities, states)]
    told = [rows.of_column(one) for one in came]
    return [*told, *rows.others(entities, told)]


def whole_histories(decision: Decision, manifest: Manifest) -> Histories:
    """What tables have met with this batch, also what its manifest has no more: a column may have come by that."""
    met = decision.settled.report.sightings.met
    return carried_on(decision.before.met, met, set(manifest.entities.values()))


def _entities(decision: Decision) -> dict[str, str]:
    known = dict(decision.before.entities)
    folders = set(known.values())
    for written in decision.settled.report.files.written:
        if written.entity is not None and written.table not in folders:
            known[written.entity] = written.table
            folders.add(written.table)
    return known


def _expected(counted: Mapping[tuple[str, str, bool], int]) -> dict[str, dict[str, tuple[int, int]]]:
    found: dict[str, dict[str, tuple[int, int]]] = defaultdict(dict)
    for table, name in sorted({(table, name) for table, name, _ in counted}):
        found[table][name] = (counted.get((table, name, True), 0), counted.get((table, name, False), 0))
    return dict(found)


def _read(spans: Spans) -> dict[str, dict[int, SpanRead]]:
    read: dict[str, dict[int, SpanRead]] = defaultdict(dict)
    for (topic, partition), span in spans.items():
        read[topic][partition] = SpanRead(span.count, span.first, span.last)
    return dict(read)


def _pins(generation: Generation, decision: Decision) -> BatchPins:
    # Nothing that was written needs those that no record comes with, of which there are more with every year.
    pins, told = for_workers(decision.settled.pins), generation.world.fingerprint
    return BatchPins(
        schemas={
            pinned.key[0]: hashlib.sha256(pinned.schema.text.encode("utf-8", "surrogatepass")).hexdigest()
            for pinned in pins.schemas.records
        },
        settings=hashlib.sha256(repr(sorted(told.items())).encode()).hexdigest(),
        decisions={**decisions.to_json(pins), **_admitted(decision)},
    )


def _admitted(decision: Decision) -> dict[str, list[str]]:
    """The tables that there may be, and are not, since all their records went to quarantine: to be refused for the same reason again."""
    met = decision.settled.report.sightings.met.values()
    found = {folder for folders in met for folder in folders} - set(_entities(decision).values())
    return {"admitted": sorted(found)} if found else {}


def code_version() -> str:
    """The version of distributary that is installed."""
    try:
        return version("distributary")
    except PackageNotFoundError:
        return "not installed"
