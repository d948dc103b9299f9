"""Rows of many tables held in a worker's memory, written as few, large Parquet files.

Memory is bounded: when all tables together hold more than the limit, each writes what it has as one row group and
forgets it. A table's file stays open for its next row group while tables are few, and is closed while they are many. To
another machine small files go as they are, by other threads, and large ones as streams.
Rows of many entities are collected into chunks before they are split by table, and columns whose values repeat get a dictionary.
What the schema of rows says in its metadata, their file says in its footer; rows of which something else is said go in another file.
Of a table in partitions each has files of its own. Its rows are held together, and told apart when they are written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from distributary.codecs.types.walk import children, held
from distributary.ingest import failpoints
from distributary.ingest.columns.layout import NO_COLUMNS, Layout
from distributary.ingest.columns.partitions import PartitionValues
from distributary.ingest.conform.nested import fill
from distributary.ingest.parquet.data_file import DataFile, file_name
from distributary.ingest.parquet.split import split
from distributary.ingest.parquet.statistics import EACH_COLUMN, Fractions, Indexed, statistics
from distributary.ingest.parquet.uploads import Uploads, give_up
from distributary.ingest.storage.opening import At, files_at
from distributary.ingest.storage.stream import Upload

# More open files than this come too near to what a process may have open by default (1,024).
MOST_OPEN_FILES = 200

# A stream to another machine holds 24 MiB: a part that is not full, and those under way.
MOST_OPEN_STREAMS = 8

# Up to this, what goes to another machine is encoded in memory.
_IN_MEMORY_BYTES = 32 * 2**20

# Below this, setting zstd up for every column costs more than the compression itself.
_SMALL_BYTES = 2**20


Said: TypeAlias = tuple[tuple[bytes, bytes], ...]
"""What the metadata of a schema says, as a value."""


def said_of(rows: pa.RecordBatch) -> Said:
    """What is said of rows."""
    return tuple(sorted((rows.schema.metadata or {}).items()))


# Rows of a table in partitions are of none as long as they are held together.
_Key = tuple[str, Said, PartitionValues]


@dataclass
class _Held:
    """One table's rows in memory and its open file, if it has one: a stream or memory, the columns that it has, and which of them have no NaN."""

    parts: list[pa.RecordBatch] = field(default_factory=list)
    layout: Layout = NO_COLUMNS
    fractions: Fractions | None = None
    writer: pq.ParquetWriter | None = None
    into: Any = None
    name: str = ""
    rows: int = 0


class TableBuffers:
    """Buffers by table folder; every finished file is in `files`, in the order it was finished.

    After `close` they all are where they belong; before, some may be on their way.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - one value each of what it knows
        self,
        root: At,
        generation: str,
        batch_id: int,
        limit_bytes: int,
        layout_of: Callable[[str], Layout],
        most_rows_of: Callable[[str], int | None] = lambda _: None,
        partitions_of: Callable[[str], tuple[str, ...]] = lambda _: (),
        indexed_of: Callable[[str], Indexed] = lambda _: EACH_COLUMN,
    ) -> None:
        """`layout_of` answers which columns a table's rows have if they are written now, Kafka's among them; they only ever grow.

        most_rows_of   how many rows a file of a table has at most
        partitions_of  the columns that a table is in partitions by, by then
        indexed_of     the columns of a table that have bounds in its log
        """
        self._root, self._generation, self._batch_id = files_at(root), generation, batch_id
        self._limit, self._uploads = limit_bytes, Uploads(self._root)
        self._most_open = MOST_OPEN_STREAMS if self._root.remote else MOST_OPEN_FILES
        self._in_memory = _IN_MEMORY_BYTES if self._root.remote else _SMALL_BYTES
        self._layout_of, self._most_rows_of = layout_of, most_rows_of
        self._partitions_of, self._indexed_of = partitions_of, indexed_of
        # Of tables in partitions the columns that their files have.
        self._rest: dict[tuple[Layout, tuple[str, ...]], Layout] = {}
        self._held: dict[_Key, _Held] = {}
        self._dictionaries: dict[Layout, list[str]] = {}
        self._bytes = 0
        self.files: list[DataFile] = []

    def add(self, table: str, rows: pa.RecordBatch) -> None:
        """Hold these rows for a table; their schema may be any part of what the table will have."""
        self._held.setdefault((table, said_of(rows), ()), _Held()).parts.append(rows)

    def grew(self, added_bytes: int) -> None:
        """Note that memory grew by this much, and write everything out if it is over the limit."""
        self._bytes += added_bytes
        if self._bytes > self._limit:
            self._spill()

    def close(self) -> None:
        """Write what is left and finish all files. Raises the OSError of one that cannot be put where it belongs."""
        self._tell_apart()
        for key in list(self._held):
            self._write(key, last=True)
            self._finish(key)
        self._uploads.finish()

    def abandon(self) -> None:
        """Give up: open files are not to be."""
        self._uploads.abandon()
        for one in self._held.values():
            if isinstance(one.into, Upload):
                give_up(one.writer, one.into)

    def _spill(self) -> None:
        self._tell_apart()
        many = len(self._held) > self._most_open
        for key in list(self._held):
            self._write(key, last=many)
            if many:
                self._finish(key)
        self._bytes = 0

    def _tell_apart(self) -> None:
        """Rows of tables in partitions become those of their partitions, one table after the other: each is held twice meanwhile."""
        for key in [key for key in self._held if not key[2] and self._partitions_of(key[0])]:
            table, said, _ = key
            schema = self._layout_of(table).columns
            rows = pa.concat_batches([fill(part, schema) for part in self._held.pop(key).parts])
            for values, piece in split(rows, self._partitions_of(table)):
                self._held.setdefault((table, said, values), _Held()).parts.append(piece)

    def _columns_of(self, table: str, values: PartitionValues) -> Layout:
        """The columns that a file has."""
        layout = self._layout_of(table)
        if not values:
            return layout
        by = tuple(name for name, _ in values)
        if (layout, by) not in self._rest:
            rest = [column for column in layout.columns if column.name not in by]
            self._rest[layout, by] = Layout(pa.schema(rest))
        return self._rest[layout, by]

    def _write(self, key: _Key, *, last: bool) -> None:
        table, held = key[0], self._held[key]
        if not held.parts:
            return
        layout = self._columns_of(table, key[2])
        if held.writer is not None and held.layout != layout:
            self._finish(key)
            held = self._held[key] = _Held(held.parts)
        schema = layout.columns
        rows = pa.Table.from_batches([fill(part, schema) for part in held.parts], schema)
        held.parts = []
        most = self._most_rows_of(table)
        while True:
            held = self._held[key]
            piece = rows if most is None else rows.slice(0, most - held.rows)
            held.layout, held.fractions = layout, held.fractions or Fractions(layout)
            with_nan = held.fractions.with_nan(piece)
            if with_nan and held.writer is not None:
                # Its file says that it has none.
                self._finish(key)
                self._held[key] = _Held()
                continue
            held.fractions.take(with_nan)
            rows = rows.slice(piece.num_rows)
            writer = held.writer or self._opened(key, held, piece, last)
            writer.write_table(piece, row_group_size=max(piece.num_rows, 1))
            held.rows += piece.num_rows
            failpoints.reach(failpoints.AMID_FILE, self._batch_id)
            if held.rows == most:
                self._finish(key)
                self._held[key] = _Held()
            if not rows.num_rows:
                return

    def _opened(self, key: _Key, held: _Held, rows: pa.Table, last: bool) -> pq.ParquetWriter:
        table, said, _ = key
        # To sum its columns up takes as long as to open it, where a thousand are small.
        size = rows.nbytes
        held.name = file_name(self._generation, self._batch_id)
        held.writer = pq.ParquetWriter(
            self._into(table, held, in_memory=last and size <= self._in_memory),
            rows.schema,
            compression="snappy" if size <= _SMALL_BYTES else "zstd",
            use_dictionary=self._dictionary(held.layout, rows),
            store_schema=False,
            write_statistics=True if held.fractions is None else held.fractions.told,
        )
        if said:
            held.writer.add_key_value_metadata(dict(said))
        return held.writer

    def _dictionary(self, layout: Layout, rows: pa.Table) -> list[str]:
        # Tables of the same columns are alike enough: a thousand of them are sampled once.
        if layout not in self._dictionaries:
            self._dictionaries[layout] = dictionary_columns(rows)
        return self._dictionaries[layout]

    def _into(self, table: str, held: _Held, *, in_memory: bool) -> Any:
        """What the writer writes into, where it makes a call for each column: a small file takes one for all of them."""
        if in_memory:
            held.into = pa.BufferOutputStream()
            return held.into
        held.into = self._root.writer(f"{table}/{held.name}", named_later=True)
        return held.into.sink

    def _finish(self, key: _Key) -> None:
        table, held, values = key[0], self._held.pop(key), key[2]
        if held.writer is None:
            return
        held.writer.close()
        without_nan = () if held.fractions is None else held.fractions.without_nan
        stats = statistics(held.writer.writer.metadata, held.layout, self._indexed_of(table), without_nan)
        self.files.append(
            DataFile(table, held.name, held.rows, self._handed_over(table, held), stats, values)
        )

    def _handed_over(self, table: str, held: _Held) -> int:
        """How many bytes the file has, which is now on its way."""
        if isinstance(held.into, Upload):
            size = held.into.tell()
            self._uploads.close(held.into)
            return size
        data = held.into.getvalue()
        self._uploads.put(f"{table}/{held.name}", data)
        return int(data.size)


_SHORT = 2**15

_Part = tuple[pa.RecordBatch, npt.NDArray[np.int32]]


class Holding(Protocol):
    """What takes a chunk's rows, by their tables."""

    def add(self, table: str, rows: pa.RecordBatch) -> None:
        """Hold these rows for a table."""
        ...

    def grew(self, added_bytes: int) -> None:
        """Note that memory grew by this much."""
        ...


class Chunk:
    """Rows with their entities' numbers; `folders[number]` is the table they go to."""

    def __init__(self, buffers: Holding, folders: Sequence[str], limit_bytes: int) -> None:
        self._buffers, self._folders, self._limit = buffers, folders, limit_bytes
        # To Arrow schemas are equal whatever is said of them.
        self._parts: dict[tuple[pa.Schema, Said], list[_Part]] = {}
        self._bytes = 0

    def add(self, rows: pa.RecordBatch, codes: npt.NDArray[np.int32]) -> None:
        """Collect rows of one schema; hands everything on when it is enough."""
        if not len(codes):
            return
        self._parts.setdefault((rows.schema, said_of(rows)), []).append((rows, codes))
        self._bytes += rows.nbytes
        if self._bytes > self._limit:
            self.flush()

    def flush(self) -> None:
        """Hand everything on, each entity's rows in the order they came."""
        for parts in self._parts.values():
            self._split(parts)
        self._parts.clear()
        added, self._bytes = self._bytes, 0
        self._buffers.grew(added)

    def _split(self, parts: list[_Part]) -> None:
        rows = pa.concat_batches([rows for rows, _ in parts])
        codes = np.concatenate([codes for _, codes in parts])
        parts.clear()  # before sorting makes another copy
        if codes[0] != codes[-1] or (codes != codes[0]).any():
            # Of such small numbers numpy sorts a tenth as long.
            short = codes.astype(np.int16) if len(self._folders) <= _SHORT else codes
            order = np.argsort(short, kind="stable")
            rows, codes = rows.take(pa.array(order)), codes[order]
        edges = [0, *(np.flatnonzero(np.diff(codes)) + 1).tolist(), len(codes)]
        for start, end in pairwise(edges):
            self._buffers.add(self._folders[codes[start]], rows.slice(start, end - start))


SAMPLE_ROWS = 2_000

# Distinct values among the sample above which a column gets no dictionary.
MOST_DISTINCT = 0.5


def dictionary_columns(rows: pa.Table) -> list[str]:
    """The Parquet paths, such as `position.x` and `tags.list.element`, that get a dictionary."""
    sample = rows.slice(0, SAMPLE_ROWS).combine_chunks()
    return [
        path
        for field, column in zip(sample.schema, sample.columns, strict=True)
        for path, values in _leaves(
            field.name, column.chunk(0) if column.num_chunks else pa.array([], field.type)
        )
        if _repeats(values)
    ]


def _repeats(values: pa.Array) -> bool:
    if pa.types.is_boolean(values.type):
        return False  # a bit a value already
    return not len(values) or pc.count_distinct(values).as_py() <= len(values) * MOST_DISTINCT


def _leaves(path: str, values: pa.Array) -> Iterator[tuple[str, pa.Array]]:
    """https://github.com/apache/parquet-format/blob/master/LogicalTypes.md#nested-types"""
    inside = held(values)
    if not inside:
        yield path, values
    between = (
        "key_value." if pa.types.is_map(values.type) else "" if pa.types.is_struct(values.type) else "list."
    )
    for below, child in zip(children(values.type), inside, strict=True):
        yield from _leaves(f"{path}.{between}{below.name}", child)
