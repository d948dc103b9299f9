"""Step 6 of a batch: everything that was decided, put into its manifest and into the rows of the ledger."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version

import pyarrow as pa

from distributary.ingest import decisions
from distributary.ingest.changes import LoggedChange, TableChange
from distributary.ingest.data_file import DataFile
from distributary.ingest.generation import Generation
from distributary.ingest.ledger import (
    BATCHES_SCHEMA,
    BATCHES_TABLE,
    CHANGES_SCHEMA,
    CHANGES_TABLE,
    QUARANTINE_SCHEMA,
    QUARANTINE_TABLE,
    BatchRow,
    ChangeRow,
    batch_file,
    changes_file,
)
from distributary.ingest.manifest import BatchPins, Counts, Manifest, Role, SpanRead, TableFiles, check_sums
from distributary.ingest.offset_log import Offsets
from distributary.ingest.settings import Settings
from distributary.ingest.settle import Settled
from distributary.ingest.spans import Spans
from distributary.ingest.table_book import TableBook
from distributary.ingest.table_changes import PlannedChange
from distributary.ingest.tables import TableState


@dataclass(frozen=True, slots=True)
class Decision:
    """A settled batch and what is known about it, on its way to become a manifest.

    `logged` are the changes that attempts at this batch wrote down, the present one and those that died.
    """

    batch_id: int
    offsets: Offsets
    settled: Settled
    entities: Mapping[str, str]
    changes: Sequence[PlannedChange]
    started_at: datetime
    attempts: int
    logged: Sequence[LoggedChange] = ()


def decide(settings: Settings, generation: Generation, tables: TableBook, decision: Decision) -> Manifest:
    """The batch's manifest, its ledger files written. Raises SumsDisagree before anything is visible."""
    report = decision.settled.report
    events = _event_tables(generation, tables, decision)
    manifest = Manifest(
        batch_id=decision.batch_id,
        generation=generation.id,
        created_at=datetime.now(timezone.utc).isoformat(timespec="milliseconds"),
        code_version=_code_version(),
        offsets=decision.offsets,
        pins=_pins(settings, decision),
        entities=_entities(decision),
        tables=(*events, *_quarantine(generation, decision)),
        counts=Counts(
            read=_read(report.spans),
            rows=dict(report.rows),
            quarantined=dict(report.quarantined),
            dropped=dict(report.dropped),
            already=report.already,
        ),
    )
    check_sums(manifest)
    return _with_ledger(settings, tables, manifest, decision)


def _event_tables(generation: Generation, tables: TableBook, decision: Decision) -> list[TableFiles]:
    files: dict[str, list[DataFile]] = defaultdict(list)
    for written in decision.settled.report.files:
        if written.entity is not None:
            files[written.file.table].append(written.file)
    states = tables.states(files)
    return [
        TableFiles(
            folder,
            "events",
            generation.app_id("events"),
            decision.settled.layouts[folder],
            states[folder].native,
            tuple(sorted(files[folder], key=lambda file: file.name)),
        )
        for folder in sorted(files)
    ]


def _quarantine(generation: Generation, decision: Decision) -> list[TableFiles]:
    files = [written.file for written in decision.settled.report.files if written.entity is None]
    return [_own(generation, QUARANTINE_TABLE, "quarantine", QUARANTINE_SCHEMA, files)] if files else []


def _own(
    generation: Generation, folder: str, role: Role, schema: pa.Schema, files: Sequence[DataFile]
) -> TableFiles:
    return TableFiles(folder, role, generation.app_id(role), schema, True, tuple(files))


def _with_ledger(settings: Settings, tables: TableBook, manifest: Manifest, decision: Decision) -> Manifest:
    root = settings.sink.root
    rows = [*_change_rows(settings, manifest, decision), *_earlier_rows(settings, tables, manifest, decision)]
    own = [
        ("batches", BATCHES_TABLE, BATCHES_SCHEMA, batch_file(root, _batch_row(settings, manifest, decision)))
    ]
    if rows:
        own.insert(0, ("changes", CHANGES_TABLE, CHANGES_SCHEMA, changes_file(root, rows)))
    ledger = [
        TableFiles(folder, role, f"{manifest.generation}/{role}", schema, True, (file,))  # type: ignore[arg-type]
        for role, folder, schema, file in own
    ]
    return replace(manifest, tables=(*manifest.tables, *ledger))


def _batch_row(settings: Settings, manifest: Manifest, decision: Decision) -> BatchRow:
    counts, now = manifest.counts, datetime.now(timezone.utc)
    files = [file for table in manifest.tables for file in table.files]
    return BatchRow(
        pipeline=settings.name,
        generation=manifest.generation,
        batch_id=manifest.batch_id,
        started_at=decision.started_at,
        ended_at=now,
        seconds=(now - decision.started_at).total_seconds(),
        attempts=decision.attempts,
        rows_read=counts.total_read,
        rows_tables=sum(counts.rows.values()),
        rows_quarantined=sum(counts.quarantined.values()),
        rows_dropped=sum(counts.dropped.values()),
        rows_already=counts.already,
        rows_by_reason={**counts.quarantined, **counts.dropped},
        tables=len(counts.rows),
        files=len(files),
        bytes=sum(file.bytes for file in files),
        offsets=manifest.offsets,
        gaps=manifest.gaps,
        schema_ids=sorted(decision.settled.report.decoded),
    )


def _change_rows(settings: Settings, manifest: Manifest, decision: Decision) -> list[ChangeRow]:
    now = datetime.now(timezone.utc)
    rows = []
    for change in decision.changes:
        topic, partition, offset = change.first or (None, None, None)
        for column in change.added:
            rows.append(
                ChangeRow(
                    pipeline=settings.name,
                    generation=manifest.generation,
                    batch_id=manifest.batch_id,
                    at=now,
                    table=change.folder,
                    entity=change.entity,
                    schema_id=change.schema_id,
                    kind="created" if change.new else column.kind,
                    column=column.column,
                    type=column.type,
                    decision="add",
                    kafka_topic=topic,
                    kafka_partition=partition,
                    kafka_offset=offset,
                )
            )
    return rows


def _earlier_rows(
    settings: Settings, tables: TableBook, manifest: Manifest, decision: Decision
) -> list[ChangeRow]:
    """Changes that an attempt made before it died: to the present one these columns were there already."""
    planned = {(change.folder, column.column) for change in decision.changes for column in change.added}
    entities = {folder: entity for entity, folder in manifest.entities.items()}
    states = tables.states(logged.change.table for logged in decision.logged)
    return [
        ChangeRow(
            pipeline=settings.name,
            generation=manifest.generation,
            batch_id=manifest.batch_id,
            at=datetime.fromisoformat(logged.at),
            table=logged.change.table,
            entity=entities.get(logged.change.table),
            schema_id=logged.change.schema_id,
            kind=logged.change.kind,
            column=logged.change.column,
            type=logged.change.type,
            decision="add",
            kafka_topic=logged.change.kafka_topic,
            kafka_partition=logged.change.kafka_partition,
            kafka_offset=logged.change.kafka_offset,
        )
        for logged in decision.logged
        if (logged.change.table, logged.change.column) not in planned and _was_made(logged.change, states)
    ]


def _was_made(change: TableChange, states: Mapping[str, TableState]) -> bool:
    """Written down first, a change may have been left undone; an outer column tells for all within it."""
    outer = change.column.partition(".")[0]
    return change.table in states and outer in states[change.table].layout.names


def _entities(decision: Decision) -> dict[str, str]:
    known = dict(decision.entities)
    folders = set(known.values())
    for written in decision.settled.report.files:
        if written.entity is not None and written.file.table not in folders:
            known[written.entity] = written.file.table
            folders.add(written.file.table)
    return known


def _read(spans: Spans) -> dict[str, dict[int, SpanRead]]:
    read: dict[str, dict[int, SpanRead]] = defaultdict(dict)
    for (topic, partition), span in spans.items():
        read[topic][partition] = SpanRead(span.count, span.first, span.last)
    return dict(read)


def _pins(settings: Settings, decision: Decision) -> BatchPins:
    pins = decision.settled.pins
    return BatchPins(
        schemas={
            pinned.key[0]: hashlib.sha256(pinned.schema.text.encode()).hexdigest() for pinned in pins.records
        },
        settings=hashlib.sha256(repr(sorted(settings.fingerprint().items())).encode()).hexdigest(),
        decisions=decisions.to_json(pins),
    )


def _code_version() -> str:
    try:
        return version("distributary")
    except PackageNotFoundError:
        return "not installed"
