"""Rows that are made of several of their key: of each column the newest value, where a record's own schema does not have all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from distributary.codecs.types.walk import children
from distributary.ingest.merge.columns import DataColumns, at_once, values_at_places
from distributary.ingest.merge.found import Numbers, open_together
from distributary.ingest.storage.contract import Files

Mask = npt.NDArray[np.bool_]

Present = frozenset[str] | None
"""The columns, as dotted paths, that rows of a file set; None: all."""


@dataclass(frozen=True, slots=True)
class Source:
    """A file that rows are made of.

    open     opens the file
    size     its bytes
    present  which columns its rows set
    fixed    columns that have one value in all of its rows
    """

    open: Callable[[], DataColumns]
    size: int
    present: Present
    fixed: Mapping[str, bool]


@dataclass(frozen=True, slots=True)
class Chains:
    """For each key its rows, one after the other as they were taken; the last one is the newest.

    starts  where each key's rows begin
    of      for each row the number of its source
    places  for each row its number in its file
    """

    starts: Numbers
    of: Numbers
    places: Numbers


class Folding:
    """Chains of rows made one row each, a column after the other: no more than one of the sources' columns is in memory."""

    def __init__(self, place: Files, chains: Chains, sources: Sequence[Source]) -> None:
        """Every row of every chain is in one of the sources, which are there or beside."""
        self._place = place
        self._chains, self._sources = chains, sources
        self._ends = np.append(chains.starts[1:], len(chains.of))
        self._places = np.arange(len(chains.of), dtype=np.int64)
        self._most_open, self._opened = 1, dict[int, DataColumns]()

    def rows(self, schema: pa.Schema) -> pa.Table:
        """A row for each chain."""
        with self._opening():
            columns = [pa.chunked_array(self._pieces(field), field.type) for field in schema]
        return pa.table(columns, schema=schema)

    def columns(self, schema: pa.Schema) -> Iterator[pa.Array]:
        """The same column by column. Raises pa.ArrowInvalid for more than one array can hold, which is 2 GiB of text."""
        with self._opening():
            for field in schema:
                yield self._folded(field.name, field.type, self._chains.starts)

    @contextmanager
    def _opening(self) -> Iterator[None]:
        """Inside, files may be opened, and stay so for the columns to come."""
        sizes = [self._sources[number].size for number in np.unique(self._chains.of).tolist()]
        with open_together(self._place, sizes) as self._most_open:
            try:
                yield
            finally:
                self._opened.clear()

    def _pieces(self, field: pa.Field) -> list[pa.Array]:
        """A column's values, in as many arrays as it takes to hold them."""
        try:
            return [self._folded(field.name, field.type, self._chains.starts)]
        except pa.ArrowInvalid:
            if len(self._chains.starts) < 2:
                raise
        # Not above: what failed would be held by its traceback meanwhile.
        half = len(self._chains.starts) // 2
        parts = (self._some(slice(half)), self._some(slice(half, None)))
        return [piece for part in parts for piece in part._pieces(field)]

    def _some(self, which: slice) -> Folding:
        """Some of the chains, of files that are opened once for all."""
        starts, ends = self._chains.starts[which], self._ends[which]
        rows = slice(starts[0], ends[-1])
        chains = Chains(starts - starts[0], self._chains.of[rows], self._chains.places[rows])
        part = Folding(self._place, chains, self._sources)
        part._most_open, part._opened = self._most_open, self._opened
        return part

    def _folded(self, path: str, dtype: pa.DataType, since: Numbers) -> pa.Array:
        """The column's values; of each chain the rows from `since` on count."""
        whole, partly = self._setting(path)
        if not pa.types.is_struct(dtype):
            return self._values(path, dtype, self._last(whole, since))
        told = self._last(whole | partly, since)
        there = self._valid(path, dtype, told)
        if partly.any():
            # What came before a row that sets all of it, or leaves all of it empty, is over.
            over = whole | (partly & ~self._valid(path, dtype, np.where(whole | partly, self._places, -1)))
            since = np.maximum(since, self._last(over, since))
        inside = [self._folded(f"{path}.{child.name}", child.type, since) for child in children(dtype)]
        return pa.StructArray.from_arrays(inside, fields=list(children(dtype)), mask=pa.array(~there))

    def _setting(self, path: str) -> tuple[Mask, Mask]:
        """Which rows set all of a column, and which a part of it."""
        above = {path[:at] for at in range(len(path) + 1) if at == len(path) or path[at] == "."}
        whole, partly = [], []
        for source in self._sources:
            present = source.present
            all_of_it = present is None or not above.isdisjoint(present) or path in source.fixed
            whole.append(all_of_it)
            partly.append(not all_of_it and any(one.startswith(f"{path}.") for one in present or ()))
        return np.array(whole, dtype=bool)[self._chains.of], np.array(partly, dtype=bool)[self._chains.of]

    def _last(self, mask: Mask, since: Numbers) -> Numbers:
        """For each chain the last row, from `since` on, for which the mask is true; -1 for none."""
        if not len(self._chains.starts):
            return self._chains.starts
        found = np.maximum.reduceat(np.where(mask, self._places, -1), self._chains.starts)
        return np.where(found >= since, found, -1)

    def _valid(self, path: str, dtype: pa.DataType, rows: Numbers) -> Mask:
        """Whether a struct is there in these rows."""
        # What is read for it is its first column, which comes with all that is above.
        found: Mask = self._values(path, dtype, rows).is_valid().to_numpy(zero_copy_only=False)
        return found

    def _values(self, path: str, dtype: pa.DataType, rows: Numbers) -> pa.Array:
        """A column's values in these rows of chains; null for -1."""
        of = np.where(rows >= 0, self._chains.of[rows], -1)
        mine = [(number, np.flatnonzero(of == number)) for number in np.unique(of[of >= 0]).tolist()]

        def values(one: tuple[int, Numbers]) -> pa.Array:
            number, chosen = one
            return self._of_source(number, path, dtype, self._chains.places[rows[chosen]])

        parts = [pa.nulls(1, dtype)]
        for first in range(0, len(mine), self._most_open):
            some = mine[first : first + self._most_open]
            self._make_room({number for number, _ in some})
            parts += at_once(self._place, values, some)
        at = np.zeros(len(rows), dtype=np.int64)
        at[np.concatenate([np.empty(0, dtype=np.int64), *(chosen for _, chosen in mine)])] = np.arange(
            1, 1 + sum(len(chosen) for _, chosen in mine)
        )
        return pa.concat_arrays(parts).take(pa.array(at))

    def _make_room(self, wanted: AbstractSet[int]) -> None:
        """Close files, the one first that was opened first, so that these can be open beside the others."""
        for number in [one for one in self._opened if one not in wanted]:
            if len(self._opened.keys() | wanted) <= self._most_open:
                break
            del self._opened[number]

    def _of_source(self, source: int, path: str, dtype: pa.DataType, places: Numbers) -> pa.Array:
        fixed = self._sources[source].fixed
        if path in fixed:
            return pa.array([fixed[path]] * len(places), dtype)
        order = np.argsort(places, kind="stable")
        wanted, column = places[order], pa.schema([(path, dtype)])
        parts = [pa.nulls(0, dtype)]
        opened = self._opened.get(source) or self._opened.setdefault(source, self._sources[source].open())
        for number, first, count in opened.groups():
            low, high = np.searchsorted(wanted, [first, first + count])
            if low < high:
                rows = opened.read(number, column).column(0)
                parts += values_at_places(rows, wanted[low:high] - first).chunks
        back = np.empty(len(order), dtype=np.int64)
        back[order] = np.arange(len(order))
        return pa.concat_arrays(parts).take(pa.array(back))
