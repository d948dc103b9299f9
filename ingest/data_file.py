"""One Parquet file written for a table and not yet committed to it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file in a table's folder, invisible to readers until a commit names it.

    table       the table's folder, relative to the sink's root
    name        the file's name inside that folder; carries generation and batch
    rows        number of rows
    bytes       size of the file, checked again before it is committed
    statistics  Delta's per-file statistics as JSON (numRecords, minValues, maxValues, nullCount)
    """

    table: str
    name: str
    rows: int
    bytes: int
    statistics: str
