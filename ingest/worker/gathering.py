"""Rows on their way from the tasks that decode to those that write, so that a table's come together in few files.

Otherwise each task writes a file for each table: with two hundred tasks and a thousand tables two hundred thousand a batch. Rows go
as Arrow's own bytes; a table of which one task holds much is written by that task, since nothing is gained there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

import pyarrow as pa
from pyspark import TaskContext

from distributary.files import machine
from distributary.ingest.bronze import rows as bronze
from distributary.ingest.columns.growth import GrowthRules, grown, holds
from distributary.ingest.columns.layout import NO_COLUMNS, Layout
from distributary.ingest.columns.safe_names import QUARANTINE_TABLE
from distributary.ingest.conform.nested import fill
from distributary.ingest.parquet.buffers import Holding, Said, TableBuffers, said_of
from distributary.ingest.parquet.data_file import DataFile
from distributary.ingest.parquet.statistics import EACH_COLUMN, Indexed
from distributary.ingest.partitioned import partitions_of
from distributary.ingest.pins import Pins
from distributary.ingest.storage.clients import sent
from distributary.ingest.tables.ledger import QUARANTINE_SCHEMA
from distributary.ingest.worker.keyed import table_of, whole_layout
from distributary.ingest.worker.report import Files, TaskReport, WrittenFile, to_batch

# What a task yields where rows are gathered: rows of one table, or its report at the end. The layout is left out where it is the pinned one.
SHIPPED_DDL = "folder string, entity string, layout binary, rows binary, said binary, report binary"

_SHIPPED = pa.schema(
    [
        ("folder", pa.string()),
        ("entity", pa.string()),
        ("layout", pa.binary()),
        ("rows", pa.binary()),
        ("said", pa.binary()),
        ("report", pa.binary()),
    ]
)

# As much of one table in one task makes a file that nobody minds.
_LARGE_BYTES = 8 * 2**20

_PORTION_BYTES = 4 * 2**20

QUARANTINE = Layout(QUARANTINE_SCHEMA)

Row = tuple[str | None, str | None, bytes | None, bytes | None, bytes | None, bytes | None]


class Buffers(Holding, Protocol):
    """Where the rows of a task go, by their table's folder: into files, or on their way to who writes them."""

    @property
    def files(self) -> Sequence[DataFile]:
        """The files that were finished."""
        ...

    def close(self) -> None:
        """Let go of what is left."""
        ...

    def abandon(self) -> None:
        """Give up: nothing is wanted any more."""
        ...


class Shipping:
    """Rows that wait to be shipped; what is large goes into a file of this task's own."""

    def __init__(self, own: TableBuffers, limit_bytes: int) -> None:
        self._own, self._limit, self._bytes = own, limit_bytes, 0
        self._parts: dict[tuple[str, Said], list[pa.RecordBatch]] = {}
        self._ready: list[tuple[str, list[pa.RecordBatch]]] = []

    @property
    def files(self) -> Sequence[DataFile]:
        """The files that were written all the same."""
        return self._own.files

    def add(self, table: str, rows: pa.RecordBatch) -> None:
        """Hold these rows for a table."""
        self._parts.setdefault((table, said_of(rows)), []).append(rows)

    def grew(self, added_bytes: int) -> None:
        """Note that memory grew by this much, and let go of everything if it is over the limit."""
        self._bytes += added_bytes
        if self._bytes > self._limit:
            self._let_go()

    def close(self) -> None:
        """Let go of what is left. Raises the OSError of a file that cannot be put where it belongs."""
        self._let_go()
        self._own.close()

    def abandon(self) -> None:
        """Give up: nothing is wanted any more."""
        self._own.abandon()

    def shipped(self) -> Iterator[tuple[str, list[pa.RecordBatch]]]:
        """What is ready to go, by tables, once."""
        # One by one: what has gone is not held beside what it became.
        self._ready.reverse()
        while self._ready:
            yield self._ready.pop()

    def _let_go(self) -> None:
        for (table, _), parts in self._parts.items():
            size = sum(part.nbytes for part in parts)
            if size < _LARGE_BYTES:
                self._ready.append((table, parts))
                continue
            for part in parts:
                self._own.add(table, part)
            self._own.grew(size)
        self._parts, self._bytes = {}, 0


def sync_elsewhere(pins: Pins, files: Sequence[DataFile]) -> None:
    """Sync files that a task has written, unless that is on the driver's machine, which syncs all of a batch together."""
    if pins.batch.machine != machine():
        # Here may be the power that fails.
        pins.batch.root.sync(f"{file.table}/{file.name}" for file in files)


def row_of(
    pins: Pins, folder: str, entity: str | None, layout: Layout, parts: Sequence[pa.RecordBatch]
) -> Row:
    """A table's rows as they are shipped; `layout` are its payload columns as of now, which the rows have or lack."""
    schema = _columns(pins, folder, entity, layout).columns
    rows = pa.concat_batches([fill(part, schema) for part in parts])
    known = pins.tables.known.get(table_of(pins, folder))
    is_known = folder == QUARANTINE_TABLE or (known is not None and known.layout == layout)
    said = parts[0].schema.metadata
    told = pa.schema([], said).serialize().to_pybytes() if said else None
    return folder, entity, None if is_known else layout.serialized, rows.serialize().to_pybytes(), told, None


def nobodys(pins: Pins, folder: str) -> Layout | None:
    """The columns of a table that is no entity's; None for one that is."""
    if folder == QUARANTINE_TABLE:
        return QUARANTINE
    return bronze.LAYOUT if folder in pins.rules.tables.kept.folders else None


def most_rows(pins: Pins, entity: str | None) -> int | None:
    """How many rows a file of an entity's table has at most; None for any number, as in the quarantine's."""
    return None if entity is None else pins.rules.tables.of(entity).most_rows


def indexed(pins: Pins, folder: str, entity: str | None) -> Indexed:
    """Which columns of an entity's table have bounds in its log; all of the quarantine's."""
    if entity is None:
        return EACH_COLUMN
    rule = pins.rules.tables.of(entity)
    named = () if rule.upsert is None else (*rule.upsert.fields, *rule.upsert.bounds)
    known = pins.tables.known.get(table_of(pins, folder))
    by_rule = () if rule.cluster_by is None else rule.cluster_by.fields
    return Indexed.told(rule.properties, (*named, *by_rule, *(() if known is None else known.clustered)))


def shipments(rows: Iterable[Row]) -> Iterator[pa.RecordBatch]:
    """Rows as Spark takes them, in portions: a task's memory holds them as they were already."""
    portion, size = list[Row](), 0
    for row in rows:
        portion.append(row)
        size += len(row[3] or b"")
        if size > _PORTION_BYTES:
            yield shipment(portion)
            portion, size = [], 0
    if portion:
        yield shipment(portion)


def shipment(rows: Iterable[Row]) -> pa.RecordBatch:
    """Rows as Spark takes them."""
    columns = list(zip(*rows, strict=True))
    arrays = [pa.array(column, field.type) for column, field in zip(columns, _SHIPPED, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=_SHIPPED)


def report_row(report: TaskReport) -> pa.RecordBatch:
    """A report on its way along with the rows."""
    return shipment([(None, None, None, None, None, to_batch(report)["report"][0].as_py())])


def gather(pins: Pins) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function that Spark's `mapInArrow` runs on what was shipped: rows in, reports out, those of who shipped among them."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        gathered = Gathered(pins)
        try:
            for batch in batches:
                for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                    yield from gathered.take(row)
            report = gathered.finish()
        except BaseException:
            gathered.abandon()
            raise
        context = TaskContext.get()
        report.retried = context is not None and context.attemptNumber() > 0
        yield to_batch(report)

    return run


class Gathered:
    """Writes rows that many tasks have shipped, a table's together."""

    def __init__(self, pins: Pins) -> None:
        self._pins, self._sent_before = pins, sent()
        self._layouts: dict[str, Layout] = {QUARANTINE_TABLE: QUARANTINE}
        self._entities: dict[str, str | None] = {}
        self._whole: dict[tuple[str, Layout], Layout] = {}
        self._merged: dict[tuple[Layout, Layout], Layout] = {}
        self._together = self._buffers(lambda folder: self._columns(folder, self._layouts[folder]))
        # Tasks may have given a new table columns that do not go together: the driver has to see that, file by file.
        self._at_odds: dict[Layout, TableBuffers] = {}

    def take(self, row: Row) -> Iterator[pa.RecordBatch]:
        """Take up a table's rows, or hand on a report."""
        folder, entity, told, rows, said, report = row
        if report is not None:
            yield pa.RecordBatch.from_arrays([pa.array([report], pa.binary())], ["report"])
        if folder is None or rows is None:
            return
        layout = self._layout(folder, told)
        self._entities[folder] = entity
        found = pa.ipc.read_record_batch(pa.py_buffer(rows), self._columns(folder, layout).columns)
        if said is not None:
            metadata = pa.ipc.read_schema(pa.py_buffer(said)).metadata
            found = found.replace_schema_metadata(metadata)
        buffers = self._buffers_for(folder, layout)
        buffers.add(folder, found)
        buffers.grew(found.nbytes)

    def finish(self) -> TaskReport:
        """Write what is still in memory, and tell of the files."""
        written: list[WrittenFile] = []
        for layout, buffers in [(None, self._together), *self._at_odds.items()]:
            buffers.close()
            sync_elsewhere(self._pins, buffers.files)
            for file in buffers.files:
                columns = layout or self._layouts[file.table]
                remembers = table_of(self._pins, file.table) != file.table
                written.append(WrittenFile(self._entities[file.table], file, columns, remembers))
        return TaskReport(files=Files(written=written, requests=sent() - self._sent_before))

    def abandon(self) -> None:
        """Give up: nothing of this task is wanted any more."""
        for buffers in (self._together, *self._at_odds.values()):
            buffers.abandon()

    def _layout(self, folder: str, told: bytes | None) -> Layout:
        if told is not None:
            return Layout.read(told)
        return (
            QUARANTINE
            if folder == QUARANTINE_TABLE
            else self._pins.tables.known[table_of(self._pins, folder)].layout
        )

    def _buffers_for(self, folder: str, layout: Layout) -> TableBuffers:
        # Of a new table that has no columns but Kafka's there is nothing to merge.
        before = self._layouts.setdefault(folder, NO_COLUMNS)
        if before != layout:
            if (before, layout) not in self._merged:
                self._merged[before, layout] = grown(before, layout.columns, GrowthRules())
            merged = self._merged[before, layout]
            if not holds(merged, layout):
                if layout not in self._at_odds:
                    self._at_odds[layout] = self._buffers(lambda folder: self._columns(folder, layout))
                return self._at_odds[layout]
            self._layouts[folder] = merged
        return self._together

    def _buffers(self, layout_of: Callable[[str], Layout]) -> TableBuffers:
        batch, rules = self._pins.batch, self._pins.rules
        return TableBuffers(
            batch.root,
            batch.generation,
            batch.made_for,
            rules.worker_bytes,
            layout_of,
            lambda folder: most_rows(self._pins, self._entities[folder]),
            lambda folder: partitions_of(self._pins, folder, self._entities[folder], layout_of(folder)),
            lambda folder: indexed(self._pins, folder, self._entities[folder]),
        )

    def _columns(self, folder: str, layout: Layout) -> Layout:
        # Tables share a few, and each of what remembers deletes has its own.
        shared = "" if table_of(self._pins, folder) == folder else folder
        key = (shared, layout if folder != QUARANTINE_TABLE else QUARANTINE)
        if key not in self._whole:
            self._whole[key] = _columns(self._pins, folder, self._entities.get(folder), layout)
        return self._whole[key]


def _columns(pins: Pins, folder: str, entity: str | None, layout: Layout) -> Layout:
    """All columns of a table's file."""
    return QUARANTINE if folder == QUARANTINE_TABLE else whole_layout(pins, folder, entity, layout)
