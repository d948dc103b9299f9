"""Rows of a table of which a few columns are read, as a sequence of them that stays in Arrow: there may be millions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, final, overload

import pyarrow as pa
import pyarrow.compute as pc

# So many are taken apart at a time, some ten megabytes.
_AT_ONCE = 10_000


@final
class LightRows(Sequence[Mapping[str, Any]]):
    """Rows, each a mapping from its columns' names."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table
        self._at, self._held = 0, list[dict[str, Any]]()

    @classmethod
    def by(cls, table: pa.Table, name: str, order: str) -> dict[str, LightRows]:
        """The rows of each value of a column, which is left out, in the order of another one."""
        ordered = table.sort_by(order)
        return {
            value: cls(ordered.filter(pc.equal(ordered[name], value)).drop_columns([name]))
            for value in sorted(ordered[name].unique().to_pylist())
        }

    def column(self, name: str) -> pa.ChunkedArray:
        """The values of a column, one a row."""
        return self._table[name]

    @property
    def names(self) -> list[str]:
        """The columns' names."""
        return list(self._table.column_names)

    def __len__(self) -> int:
        return int(self._table.num_rows)

    @overload
    def __getitem__(self, place: int) -> Mapping[str, Any]: ...
    @overload
    def __getitem__(self, place: slice) -> LightRows: ...

    def __getitem__(self, place: int | slice) -> Mapping[str, Any] | LightRows:
        if isinstance(place, slice):
            start, stop, _ = place.indices(len(self))
            return LightRows(self._table.slice(start, max(stop - start, 0)))
        wanted = place + len(self) if place < 0 else place
        if not 0 <= wanted < len(self):
            raise IndexError(place)
        # Who asks for one asks for the next one after it.
        if not self._at <= wanted < self._at + len(self._held):
            self._at, self._held = wanted, self._table.slice(wanted, _AT_ONCE).to_pylist()
        return self._held[wanted - self._at]

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        for start in range(0, len(self), _AT_ONCE):
            yield from self._table.slice(start, _AT_ONCE).to_pylist()
