"""Rows of a table written as files of some size, which are in no version yet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from distributary.ingest.columns.clustering import Path
from distributary.ingest.columns.layout import Layout
from distributary.ingest.parquet.data_file import rewritten_name
from distributary.ingest.parquet.statistics import Fractions, Indexed, statistics
from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.stream import Upload

# Readers pass by parts of a file by what it says of them.
ROWS_IN_A_GROUP = 2**17

# So many bytes of rows make one however few they are: they are held until then.
_BYTES_IN_A_GROUP = 2**26


@dataclass(frozen=True, slots=True)
class Made:
    """A file that was written, and is in no version yet."""

    name: str
    bytes: int
    rows: int
    statistics: str


@dataclass(frozen=True, slots=True)
class Target:
    """What is written.

    columns     all of the table
    by          those that make the curve; none: rows stay in the order that they come in
    indexed     those that have bounds in the log
    file_bytes  about how large a file is to be
    """

    columns: pa.Schema
    by: Sequence[Path]
    indexed: Indexed
    file_bytes: int


def value_at(rows: pa.Table, path: Path) -> pa.Array:
    """The values at a path."""
    found = rows.column(path[0])
    for name in path[1:]:
        found = pc.struct_field(found, name)
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found


class Written:
    """Files of as many rows each, written one after the other."""

    def __init__(
        self, place: Files, target: Target, most_rows: int, with_nan: frozenset[Path] = frozenset()
    ) -> None:
        """In a place, `most_rows` in a file; `with_nan` are floating-point columns of which it is known that they have such."""
        self._place, self._target, self._most_rows = place, target, most_rows
        self._open: tuple[str, Upload, pq.ParquetWriter] | None = None
        self._rows = 0
        self._layout, self._with_nan = Layout(target.columns), with_nan
        self._fractions = self._unknown()
        self._made: list[Made] = []
        self._held, self._held_rows, self._held_bytes = list[pa.Table](), 0, 0

    def add(self, rows: pa.Table) -> None:
        """Write rows behind those before: with others, where they are few."""
        self._held.append(rows)
        self._held_rows += rows.num_rows
        self._held_bytes += rows.nbytes
        if self._held_rows >= ROWS_IN_A_GROUP or self._held_bytes >= _BYTES_IN_A_GROUP:
            self._write_held()

    def _write_held(self) -> None:
        if not self._held:
            return
        rows = pa.concat_tables(self._held)
        self._held, self._held_rows, self._held_bytes = [], 0, 0
        while rows.num_rows:
            piece = rows.slice(0, self._most_rows - self._rows)
            with_nan = self._fractions.with_nan(piece)
            if with_nan and self._open is not None:
                # Its file says that it has none.
                self._finish()
                continue
            self._fractions.take(with_nan)
            rows = rows.slice(piece.num_rows)
            _, _, writer = self._open = self._open or self._begun()
            writer.write_table(piece, row_group_size=ROWS_IN_A_GROUP)
            self._rows += piece.num_rows
            if self._rows == self._most_rows:
                self._finish()

    def close(self) -> list[Made]:
        """The files, all whole."""
        self._write_held()
        self._finish()
        return self._made

    def give_up(self) -> None:
        """Leave nothing of it."""
        if self._open is not None:
            self._open[2].close()
            self._open[1].abandon()
        self._place.delete([one.name for one in self._made])

    def _begun(self) -> tuple[str, Upload, pq.ParquetWriter]:
        name = rewritten_name()
        stream = self._place.writer(name, named_later=True)
        writer = pq.ParquetWriter(
            stream.sink,
            self._target.columns,
            compression="zstd",
            store_schema=False,
            write_statistics=self._fractions.told,
        )
        return name, stream, writer

    def _finish(self) -> None:
        if self._open is None:
            return
        (name, stream, writer), rows = self._open, self._rows
        writer.close()
        size = stream.tell()
        stream.close()
        self._open, self._rows = None, 0
        indexed = self._target.indexed
        told = statistics(writer.writer.metadata, self._layout, indexed, self._fractions.without_nan)
        self._made.append(Made(name, size, rows, told))
        self._fractions = self._unknown()

    def _unknown(self) -> Fractions:
        """Those of a file of which nothing was looked at yet."""
        found = Fractions(self._layout)
        found.take(self._with_nan)
        return found
