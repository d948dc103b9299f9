"""A batch's manifest: everything it read, was decided by, wrote and will commit. Once written there is no way back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from distributary.ingest.checkpoint.histories import Histories
from distributary.ingest.columns.layout import Layout
from distributary.ingest.columns.safe_names import BATCHES_TABLE, CHANGES_TABLE, QUARANTINE_TABLE
from distributary.ingest.kafka.offsets import Offsets
from distributary.ingest.merge.rule import Validity, memory_folder
from distributary.ingest.parquet.data_file import DataFile, partitions_of
from distributary.ingest.settings.upserts import Moved, Update
from distributary.registry.base import SchemaRef

Role = Literal["events", "quarantine", "batches", "changes", "bronze"]

ROLES: tuple[Role, ...] = get_args(Role)

# The tables that are no entity's.
_OWN: Mapping[str, Role] = {
    QUARANTINE_TABLE: "quarantine",
    CHANGES_TABLE: "changes",
    BATCHES_TABLE: "batches",
}


def role_of(folder: str) -> Role:
    """As what a pipeline commits to a table, by its folder: to those that keep records as they came as to those of entities."""
    return _OWN.get(folder, "events")


@dataclass(frozen=True, slots=True)
class SpanRead:
    """What was read of a partition: how many records, and the first and last offset among them (none of none)."""

    count: int
    first: int | None
    last: int | None


@dataclass(frozen=True, slots=True)
class BatchPins:
    """What the batch was decided by, so that its files can be written again just the same.

    schemas    every schema that a record could be decoded with, by its reference: the SHA-256 of its text
    settings   the hash of the settings
    decisions  whatever else was decided (types refused, entities admitted, records rejected), as JSON values
    """

    schemas: Mapping[SchemaRef, str] = field(default_factory=dict)
    settings: str = ""
    decisions: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Remembering:
    """How a table's deletes are remembered.

    days   for how long, by the records' times
    again  whether the batch's records were read before
    mark   the column that becomes true where a row stays; None: it goes
    """

    days: float
    again: bool = False
    mark: str | None = None


@dataclass(frozen=True, slots=True)
class Merging:
    """By which of a table's columns, as dotted paths, its rows take the place of earlier ones.

    keys      those that name a row
    sequence  those that say which of two is newer; none: where they stand in Kafka does
    moved     what becomes of a known key in another partition then
    update    whether a row sets all columns, or those that its file says are its schema's
    deletes   how those are remembered; None where there are none
    history   the columns that say when a row was true, where it stays; all records are remembered then
    """

    keys: tuple[str, ...]
    sequence: tuple[str, ...] = ()
    moved: Moved = "stop"
    update: Update = "all"
    deletes: Remembering | None = None
    history: Validity | None = None


@dataclass(frozen=True, slots=True)
class TableFiles:
    """One table's part of the batch.

    folder  the table's folder, relative to the sink's root
    app_id  the transaction's application id; its version is the batch id
    layout  the table's payload columns once this batch is in (for a table of ours: all its columns)
    native  whether a log entry of ours commits the files, and not Spark's writer
    merging by what its rows take the place of earlier ones; None where each is added
    deletes  files of its rows that take a key's row away, in what remembers them
    """

    folder: str
    role: Role
    app_id: str
    layout: Layout
    native: bool
    files: tuple[DataFile, ...] = ()
    merging: Merging | None = None
    deletes: tuple[DataFile, ...] = ()

    @property
    def parts(self) -> dict[str, tuple[DataFile, ...]]:
        """Its files by the folders that they are in: its own, and before it that of what remembers its deletes."""
        before = {memory_folder(self.folder): self.deletes} if self.deletes else {}
        return {**before, self.folder: self.files}

    def with_parts(self, files: Mapping[str, tuple[DataFile, ...]]) -> TableFiles:
        """The same with other files in those of its folders that are named."""
        memory = files.get(memory_folder(self.folder), self.deletes) if self.deletes else ()
        return replace(self, files=files.get(self.folder, self.files), deletes=memory)

    @property
    def partitions(self) -> tuple[str, ...]:
        """The columns that its files are told apart by."""
        return partitions_of(self.files)

    @property
    def rows(self) -> int:
        """Rows in its files, each record's once: where all are remembered, there."""
        kept = self.merging is not None and self.merging.history is not None
        parts = [self.deletes] if kept else self.parts.values()
        return sum(file.rows for files in parts for file in files)


@dataclass(frozen=True, slots=True)
class Counts:
    """What the workers counted.

    read         per topic and partition
    rows         rows reported for each entity's table, by its folder
    quarantined  rows sent to quarantine, by reason
    dropped      rows dropped because the settings say so, by reason
    already      rows left out because an earlier checkpoint committed them
    expected     per table's folder and expectation, how many records met it, and how many did not
    kept         records as they came, by the folder of the table that keeps them; those that an earlier checkpoint kept by `ALREADY`
    """

    read: Mapping[str, Mapping[int, SpanRead]]
    rows: Mapping[str, int] = field(default_factory=dict)
    quarantined: Mapping[str, int] = field(default_factory=dict)
    dropped: Mapping[str, int] = field(default_factory=dict)
    already: int = 0
    expected: Mapping[str, Mapping[str, Sequence[int]]] = field(default_factory=dict)
    kept: Mapping[str, int] = field(default_factory=dict)

    @property
    def total_read(self) -> int:
        """Records read from Kafka."""
        return sum(span.count for spans in self.read.values() for span in spans.values())


@dataclass(frozen=True, slots=True)
class Manifest:
    """One batch, decided.

    entities  complete: each value of the routing field ever seen and its table's folder
    met       the record types that each table has met up to here, by its folder; none of a table of which that is not known
    late_row  the batch's row of the ledger as JSON values, where its file is written when all tables have the batch, since their
              commits say what it has yet to tell; None where the file is there
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
    late_row: Mapping[str, Any] | None = None

    def table(self, folder: str) -> TableFiles:
        """What it has for a table that it has something for, by its folder."""
        (found,) = (table for table in self.tables if table.folder == folder)
        return found

    def file_names(self) -> frozenset[str]:
        """The names of all its files; no two files of ours share one."""
        parts = (files for table in self.tables for files in table.parts.values())
        return frozenset(file.name for files in parts for file in files)

    @property
    def keeping(self) -> frozenset[str]:
        """The folders of the tables that it has records as they came for."""
        return frozenset(table.folder for table in self.tables if table.role == "bronze")

    @property
    def gaps(self) -> dict[str, dict[int, int]]:
        """Offsets without a record, where there are any: compaction and transactions leave them."""
        found: dict[str, dict[int, int]] = {}
        for topic, number, missing in _missing(self):
            if missing > 0:
                found.setdefault(topic, {})[number] = missing
        return found


def _missing(manifest: Manifest) -> Iterator[tuple[str, int, int]]:
    for topic, ranges in manifest.offsets.items():
        for number, (start, end) in ranges.items():
            span = manifest.counts.read.get(topic, {}).get(number)
            yield topic, number, end - start - (span.count if span else 0)
