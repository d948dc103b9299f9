"""The rows that a table has for a batch's keys: looked for in the files that may have any, a few at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from threading import Condition
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from distributary.ingest.merge import vectors
from distributary.ingest.merge.bounds import KeyBounds, Told, told
from distributary.ingest.merge.columns import NO_PARTITION, DataColumns, at_once
from distributary.ingest.merge.key_index import Codes, KeyIndex
from distributary.ingest.merge.live_files import Action, LiveFiles
from distributary.ingest.storage.contract import Files

# Keys of small files are looked for together, as far as that is so many rows: each time the batch's keys are hashed anew.
_ROWS_AT_ONCE = 500_000

# Each of them is open until then, in each of the threads that commit.
_MOST_OPEN = 32

# Of a file in a store that is open: a small one comes whole, and of others the columns that are asked for.
_MOST_HELD = 2**20

# One of all that look at the same time takes no more than this part of the room, so that others get in beside it.
_SHARES = 4

Numbers = npt.NDArray[np.int64]


class Room:
    """So many bytes for all threads together that look into files; who wants more than is left waits for others to be done."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._taken, self._changed = 0, Condition()

    @contextmanager
    def taken(self, wanted: int) -> Iterator[None]:
        """Inside, so much of it is taken; whoever takes some takes no more until that is given back."""
        wanted = min(wanted, self.most)
        with self._changed:
            self._changed.wait_for(lambda: self._taken + wanted <= self.most)
            self._taken += wanted
        try:
            yield
        finally:
            with self._changed:
                self._taken -= wanted
                self._changed.notify_all()


# As many tables as are committed side by side in a store would hold gigabytes.
_ROOM = Room(2**28)


@contextmanager
def open_together(place: Files, sizes: Iterable[int]) -> Iterator[int]:
    """Inside, so many files at a time, of which these are the sizes of all, may be open for as long as they are needed."""
    if not place.remote:
        yield _MOST_OPEN
        return
    count, size = 0, 0
    # Any of them may be open together.
    for held in sorted((min(one, _MOST_HELD) for one in sizes), reverse=True)[:_MOST_OPEN]:
        if count and size + held > _ROOM.most // _SHARES:
            break
        count, size = count + 1, size + held
    with _ROOM.taken(size):
        yield max(count, 1)


@dataclass(frozen=True, slots=True)
class LiveFile:
    """A data file in force that has rows of a batch's keys.

    name     its own
    add      what the log says of it
    marked   the rows of it that are none of the table's
    rows     how many it has, these among them
    """

    name: str
    add: Action
    marked: vectors.Positions
    rows: int

    def opener(self, place: Files) -> Callable[[], DataColumns]:
        """What opens it, in its table's place."""
        return partial(DataColumns, place, self.name, self.add["size"], partition_of(self.add))


@dataclass(slots=True)
class Found:
    """Rows of a batch's keys.

    files    those that have any
    of       for each row the number of its file among them
    places   for each row its number in its file
    codes    for each row the number of its key
    columns  what was read of the rows
    """

    files: list[LiveFile] = field(default_factory=list)
    of: list[Numbers] = field(default_factory=list)
    places: list[Numbers] = field(default_factory=list)
    codes: list[Codes] = field(default_factory=list)
    columns: list[pa.Table] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is looked for.

    index   a batch's keys
    bounds  what lies between them
    keys    the columns that make a key, by their paths
    others  those that are read of the rows that have one
    """

    index: KeyIndex
    bounds: KeyBounds
    keys: pa.Schema
    others: pa.Schema

    @property
    def told(self) -> pa.Schema:
        """The columns of which the log's statistics are asked."""
        return pa.schema([*self.keys, *(one for one in self.others if one.name not in self.keys.names)])


@dataclass(frozen=True, slots=True)
class _Group:
    """A row group: where its rows begin, and how many there are."""

    file: LiveFile
    opened: DataColumns
    number: int
    first: int
    count: int


def partition_of(add: Action) -> Mapping[str, str | None]:
    """The values that all rows of a file have in the columns that its table is in partitions by."""
    found: Mapping[str, str | None] = add.get("partitionValues") or NO_PARTITION
    return found


def told_of(live: LiveFiles, name: str, add: Action, columns: pa.Schema) -> Told:
    """What the log tells of a file, worked out once."""
    kept: Told | None = live.kept.get(name)
    if kept is None or not kept.spans.keys() >= set(columns.names):
        kept = live.kept[name] = told(add.get("stats"), columns, partition_of(add))
    return kept


def look_up(place: Files, live: LiveFiles, wanted: Wanted, but: frozenset[str] = frozenset()) -> Found:
    """The rows of the table that have any of the keys; those of the files `but` are passed by."""
    found, known = Found(), dict[str, bytes]()
    names = [
        (name, add)
        for name, add in live
        if name not in but and wanted.bounds.may_be_in(told_of(live, name, add, wanted.told))
    ]

    def groups_of(one: tuple[str, Action]) -> list[_Group]:
        name, add = one
        columns = DataColumns(place, name, add["size"], partition_of(add))
        file = LiveFile(name, add, _marked(place, add, known), columns.rows)
        return [_Group(file, columns, *group) for group in columns.groups()]

    def look_into(some: Sequence[tuple[str, Action]]) -> None:
        groups = [group for of in at_once(place, groups_of, some) for group in of]
        for portion in _portions(groups):
            _take(place, portion, wanted, found)

    for some, size in _together(names, remote=place.remote):
        with _ROOM.taken(size):
            look_into(some)
    return found


_Named = Sequence[tuple[str, Action]]


def _together(names: _Named, *, remote: bool) -> Iterator[tuple[_Named, int]]:
    """The files that are opened together, and what is held of them: of those in a folder nothing that is not asked for."""
    waiting, size = list[tuple[str, Action]](), 0
    for one in names:
        held = min(one[1]["size"], _MOST_HELD) if remote else 0
        if waiting and (len(waiting) == _MOST_OPEN or size + held > _ROOM.most // _SHARES):
            yield waiting, size
            waiting, size = [], 0
        waiting.append(one)
        size += held
    if waiting:
        yield waiting, size


def _portions(groups: Sequence[_Group]) -> Iterator[Sequence[_Group]]:
    waiting, rows = list[_Group](), 0
    for group in groups:
        waiting.append(group)
        rows += group.count
        if rows >= _ROWS_AT_ONCE:
            yield waiting
            waiting, rows = [], 0
    if waiting:
        yield waiting


def _marked(place: Files, add: Action, known: dict[str, bytes]) -> vectors.Positions:
    vector: Mapping[str, Any] | None = add.get("deletionVector")
    return np.empty(0, dtype=np.uint32) if vector is None else vectors.read(place, vector, known)


def _take(place: Files, groups: Sequence[_Group], wanted: Wanted, found: Found) -> None:
    keys = at_once(place, lambda group: group.opened.read(group.number, wanted.keys), groups)
    codes = wanted.index.codes(pa.concat_tables(keys).columns)
    ends = np.cumsum([group.count for group in groups])
    with_rows = [
        (group, rows, its[rows])
        for group, its in zip(groups, np.split(codes, ends[:-1]), strict=True)
        if len(rows := _alive(group, its))
    ]

    def others(one: tuple[_Group, Numbers, Codes]) -> pa.Table:
        group, rows, _ = one
        return group.opened.read(group.number, wanted.others).take(pa.array(rows))

    # Read where a row of them is wanted, and only there.
    for (group, rows, its), columns in zip(with_rows, at_once(place, others, with_rows), strict=True):
        if not found.files or found.files[-1] is not group.file:
            found.files.append(group.file)
        found.of.append(np.full(len(rows), len(found.files) - 1, dtype=np.int64))
        found.places.append(rows + group.first)
        found.codes.append(its)
        found.columns.append(columns)


def _alive(group: _Group, codes: Codes) -> Numbers:
    """The rows of a row group that have one of the keys, and are not marked."""
    there = codes >= 0
    marked = group.file.marked.astype(np.int64) - group.first
    there[marked[(marked >= 0) & (marked < group.count)]] = False
    return np.flatnonzero(there)
