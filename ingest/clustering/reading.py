"""Rows of data files as their table has them: without those that are marked as gone, with the values of their partition."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa

from distributary.ingest.merge import vectors
from distributary.ingest.merge.columns import DataColumns, at_once, at_places
from distributary.ingest.merge.found import partition_of
from distributary.ingest.merge.live_files import Action
from distributary.ingest.storage.contract import Files

# In a store each is waited for: so many are opened at the same time. A small one comes whole with that.
_AHEAD = 16


def rows_in(place: Files, files: Sequence[tuple[str, Action]], columns: pa.Schema) -> Iterator[pa.Table]:
    """The rows of files of a table, some of a row group at a time, without what is marked; `files` by their names, with the actions that add them.

    Raises FileNotFoundError where one is gone, Unreadable where one is damaged, WrongVector where what marks its rows is.
    """
    for opened_file, marked in opened_in(place, files):
        for number, first, count in opened_file.groups():
            if len(alive(marked, first, count)):
                yield from staying_in(opened_file, (number, first), columns, marked)


def opened_in(
    place: Files, files: Iterable[tuple[str, Action]]
) -> Iterator[tuple[DataColumns, vectors.Positions]]:
    """Files of a table, open, each with the places of its rows that are marked as gone. Raises as `rows_in`."""
    known, each = dict[str, bytes](), iter(files)

    def opened_one(one: tuple[str, Action]) -> tuple[DataColumns, vectors.Positions]:
        name, add = one
        vector = add.get("deletionVector")
        marked = np.empty(0, np.uint32) if vector is None else vectors.read(place, vector, known)
        return DataColumns(place, name, add["size"], partition_of(add)), marked

    while some := list(islice(each, _AHEAD if place.remote else 1)):
        waiting = deque(at_once(place, opened_one, some))
        while waiting:
            # Nobody holds it behind its turn: of a store's file what was read stays in memory for as long.
            yield waiting.popleft()


def staying_in(
    opened_file: DataColumns, group: tuple[int, int], columns: pa.Schema, marked: vectors.Positions
) -> Iterator[pa.Table]:
    """The rows of a row group, by its number and that of its first row, that are not marked: some at a time."""
    number, first = group
    for rows in opened_file.parts(number, columns):
        yield staying(rows, marked, first)
        first += rows.num_rows


def staying(rows: pa.Table, marked: vectors.Positions, first: int) -> pa.Table:
    """Rows of a file, from one on, without those that are marked."""
    kept = alive(marked, first, rows.num_rows)
    return rows if len(kept) == rows.num_rows else at_places(rows, kept)


def alive(marked: vectors.Positions, first: int, count: int) -> Any:
    """Which of so many rows of a file, from one on, are not marked: their places from there."""
    there = np.ones(count, np.bool_)
    gone = marked.astype(np.int64) - first
    there[gone[(gone >= 0) & (gone < count)]] = False
    return np.flatnonzero(there)
