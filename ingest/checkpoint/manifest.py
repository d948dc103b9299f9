"""A batch's manifest: everything it read, was decided by, wrote and will commit. Once written there is no way back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from distributary.errors import SumsDisagree
from distributary.ingest.checkpoint.histories import Histories
from distributary.ingest.columns.layout import Layout
from distributary.ingest.kafka.offsets import Offsets
from distributary.ingest.parquet.data_file import DataFile
from distributary.registry.base import SchemaRef

Role = Literal["events", "quarantine", "batches", "changes"]

ROLES: tuple[Role, ...] = get_args(Role)


@dataclass(frozen=True, slots=True)
class SpanRead:
    """What was read of a partition: how many records, and the first and last offset among them (none of none)."""

    count: int
    first: int | None
    last: int | None


@dataclass(frozen=True, slots=True)
class BatchPins:
    """What the batch was decided by, so that its files can be written again just the same.

    schemas    every schema that could be decoded with, by its reference: the SHA-256 of its text
    settings   the hash of the settings
    decisions  whatever else was decided (types refused, entities admitted, records rejected), as JSON values
    """

    schemas: Mapping[SchemaRef, str] = field(default_factory=dict)
    settings: str = ""
    decisions: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TableFiles:
    """One table's part of the batch.

    folder  the table's folder, relative to the sink's root
    app_id  the transaction's application id; its version is the batch id
    layout  the table's payload columns once this batch is in (for a table of ours: all its columns)
    native  whether delta-rs commits the files, and not Spark's writer
    """

    folder: str
    role: Role
    app_id: str
    layout: Layout
    native: bool
    files: tuple[DataFile, ...] = ()

    @property
    def rows(self) -> int:
        """Rows in its files."""
        return sum(file.rows for file in self.files)


@dataclass(frozen=True, slots=True)
class Counts:
    """What the workers counted.

    read         per topic and partition
    rows         rows reported for each entity's table, by its folder
    quarantined  rows sent to quarantine, by reason
    dropped      rows dropped because the settings say so, by reason
    already      rows left out because an earlier checkpoint committed them
    """

    read: Mapping[str, Mapping[int, SpanRead]]
    rows: Mapping[str, int] = field(default_factory=dict)
    quarantined: Mapping[str, int] = field(default_factory=dict)
    dropped: Mapping[str, int] = field(default_factory=dict)
    already: int = 0

    @property
    def total_read(self) -> int:
        """Records read from Kafka."""
        return sum(span.count for spans in self.read.values() for span in spans.values())


@dataclass(frozen=True, slots=True)
class Manifest:
    """One batch, decided.

    entities  complete: each value of the routing field ever seen and its table's folder
    met       the record types that each table has met up to here, by its folder; none of a table of which that is not known
    """

    batch_id: int
    generation: str
    created_at: str
    code_version: str
    offsets: Offsets
    pins: BatchPins
    entities: Mapping[str, str]
    tables: tuple[TableFiles, ...]
    counts: Counts
    met: Histories = field(default_factory=dict)

    def file_names(self) -> frozenset[str]:
        """The names of all its files; no two files of ours share one."""
        return frozenset(file.name for table in self.tables for file in table.files)

    @property
    def gaps(self) -> dict[str, dict[int, int]]:
        """Offsets without a record, where there are any: compaction and transactions leave them."""
        found: dict[str, dict[int, int]] = {}
        for topic, number, missing in _missing(self):
            if missing > 0:
                found.setdefault(topic, {})[number] = missing
        return found


def check_sums(manifest: Manifest) -> None:
    """Raises SumsDisagree, with the numbers, unless every record read is in exactly one place."""
    found = [*_spans_out_of_range(manifest), *_tables_out_of_step(manifest), *_rows_astray(manifest)]
    if found:
        raise SumsDisagree(
            f"batch {manifest.batch_id}: the sums do not agree, so nothing of it was made visible:\n"
            + "\n".join(f"- {line}" for line in found)
            + "\nRun it again; if it happens again, this is a defect of distributary: keep the checkpoint and report it"
        )


def _missing(manifest: Manifest) -> Iterator[tuple[str, int, int]]:
    for topic, ranges in manifest.offsets.items():
        for number, (start, end) in ranges.items():
            span = manifest.counts.read.get(topic, {}).get(number)
            yield topic, number, end - start - (span.count if span else 0)


def _spans_out_of_range(manifest: Manifest) -> Iterator[str]:
    for topic, spans in manifest.counts.read.items():
        for number, span in spans.items():
            planned = manifest.offsets.get(topic, {}).get(number)
            if planned is None:
                yield f"{topic}/{number}: {span.count} records were read, though the batch has no such partition"
            elif not _fits(span, *planned):
                yield (
                    f"{topic}/{number}: {span.count} records were read, the first at {span.first} and the last at "
                    f"{span.last}, though Spark planned the offsets from {planned[0]} to before {planned[1]}"
                )


def _fits(span: SpanRead, start: int, end: int) -> bool:
    if span.first is None or span.last is None:
        return span.count == 0 and span.first is span.last
    return start <= span.first <= span.last < end and 0 < span.count <= span.last - span.first + 1


def _tables_out_of_step(manifest: Manifest) -> Iterator[str]:
    counts = manifest.counts
    written: dict[str, int] = {}
    for table in manifest.tables:
        if table.role == "events":
            written[table.folder] = written.get(table.folder, 0) + table.rows
    for folder in sorted({*written, *counts.rows}):
        if written.get(folder, 0) != counts.rows.get(folder, 0):
            yield (
                f"table {folder}: its files hold {written.get(folder, 0)} rows, "
                f"the workers reported {counts.rows.get(folder, 0)}"
            )
    kept, said = _quarantine_rows(manifest), sum(counts.quarantined.values())
    if kept != said:
        yield f"the quarantine's files hold {kept} rows, the workers reported {said}"


def _quarantine_rows(manifest: Manifest) -> int:
    return sum(table.rows for table in manifest.tables if table.role == "quarantine")


def _rows_astray(manifest: Manifest) -> Iterator[str]:
    counts = manifest.counts
    places = {
        "in tables": sum(counts.rows.values()),
        "in quarantine": sum(counts.quarantined.values()),
        "dropped": sum(counts.dropped.values()),
        "there already": counts.already,
    }
    if counts.total_read != sum(places.values()):
        account = ", ".join(f"{rows} {place}" for place, rows in places.items())
        yield f"{counts.total_read} records were read, {sum(places.values())} are accounted for: {account}"
    negative = [place for place, rows in places.items() if rows < 0]
    if negative:
        yield f"a count is negative: {', '.join(negative)}"
