"""Columns of data files by their dotted paths, a row group at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import date, datetime
from threading import Lock
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from distributary.codecs.types.walk import around, children, held
from distributary.ingest.columns.partitions import partition_value
from distributary.ingest.storage.contract import Files

Places = npt.NDArray[np.integer[Any]]
"""Of rows, by their numbers."""

_Item = TypeVar("_Item")
_Done = TypeVar("_Done")

NO_PARTITION: Mapping[str, str | None] = MappingProxyType({})
"""Of a file of a table that is whole."""

# By which Spark tells that days and times are those of the calendar that changed in 1582, and which of its versions wrote no others:
# https://spark.apache.org/docs/latest/sql-data-sources-parquet.html#configuration
_LEGACY = frozenset({b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96"})
_SPARK = b"org.apache.spark.version"

# Since when days, and since when times wherever they are local, are the same in both.
_SAME_DAYS, _SAME_TIMES = date(1582, 10, 15), datetime(1900, 1, 1)

# A thousand files at 30 ms each are two seconds then.
_THREADS = 16

# Others write a million rows as one row group, however large they are. What a row has often takes no room in its file.
_BYTES_AT_ONCE, _ROWS_AT_ONCE = 2**26, 2**17


class Unreadable(ValueError):
    """A data file that is no Parquet, or not all of one: trying again does not help."""


class DataColumns:
    """One data file, open: what it has at some paths, with the types that its table has there."""

    def __init__(
        self, place: Files, name: str, size: int, partition: Mapping[str, str | None] = NO_PARTITION
    ) -> None:
        """`partition` has the values that all rows have in columns which the file has not, as the table's log writes them.

        Raises Unreadable, and FileNotFoundError, if not now then with the first rows.
        """
        self._name, self._partition = name, partition
        # Arrow keeps what it has read ahead of a file in one place: two threads that read of it ended the process.
        self._one = Lock()
        with self._read():
            self._file = pq.ParquetFile(
                place.reader(name, size), pre_buffer=place.remote, coerce_int96_timestamp_unit="us"
            )
        self._has = self._file.schema_arrow
        told = self.metadata
        self._by_old_calendar = told.get(_SPARK, b"").startswith(b"2.") or not _LEGACY.isdisjoint(told)

    @property
    def rows(self) -> int:
        """How many there are, marked ones among them."""
        return int(self._file.metadata.num_rows)

    @property
    def metadata(self) -> dict[bytes, bytes]:
        """What its footer says beside."""
        return dict(self._file.metadata.metadata or {})

    def groups(self) -> Iterator[tuple[int, int, int]]:
        """Of each row group its number, that of its first row, and how many rows it has."""
        first = 0
        for number in range(self._file.metadata.num_row_groups):
            count = self._file.metadata.row_group(number).num_rows
            yield number, first, count
            first += count

    def read(self, group: int, columns: pa.Schema) -> pa.Table:
        """A row group's values at paths, by names that are those, or the file's own; nulls where it does not have one."""
        there = [
            path for path in columns.names if path in self._has.names or type_at(self._has, path) is not None
        ]
        return self._of(group, columns, there, _at_path)

    def table(self, group: int, columns: pa.Schema) -> pa.Table:
        """A row group's values of a table's columns, whose names may have dots as well; nulls where the file does not have one.

        Raises Unreadable where its footer has to be known to tell what they mean.
        """
        return self._told(self._of(group, columns, self._there(columns), _by_name))

    def parts(self, group: int, columns: pa.Schema) -> Iterator[pa.Table]:
        """The same, so many rows at a time as memory is for. Raises as `table`."""
        told, there = self._file.metadata.row_group(group), self._there(columns)
        most = min(_ROWS_AT_ONCE, max(1, told.num_rows * _BYTES_AT_ONCE // max(told.total_byte_size, 1)))
        if most >= told.num_rows or not there:
            yield self.table(group, columns)
            return
        batches = self._file.iter_batches(most, row_groups=[group], columns=there)
        while True:
            with self._read():
                batch = next(batches, None)
            if batch is None:
                return
            found = pa.Table.from_batches([batch])
            yield self._told(self._with(found, columns, len(batch), _by_name))

    def _there(self, columns: pa.Schema) -> list[str]:
        return [one for one in columns.names if one in self._has.names]

    def _told(self, rows: pa.Table) -> pa.Table:
        if self._by_old_calendar and any(_is_old(one) for column in rows.columns for one in column.chunks):
            raise Unreadable(
                f"its file {self._name} has days or times of before 1900 by the calendar of Spark 2: rewritten by another than Spark they would be others"
            )
        return rows

    def _of(
        self,
        group: int,
        columns: pa.Schema,
        there: Sequence[str],
        values: Callable[[pa.Table, str], pa.ChunkedArray | None],
    ) -> pa.Table:
        with self._read():
            found = self._file.read_row_group(group, columns=there)
        return self._with(found, columns, self._file.metadata.row_group(group).num_rows, values)

    def _with(
        self,
        found: pa.Table,
        columns: pa.Schema,
        count: int,
        values: Callable[[pa.Table, str], pa.ChunkedArray | None],
    ) -> pa.Table:
        return pa.table([self._column(found, field, count, values) for field in columns], schema=columns)

    def whole(self, group: int, columns: Sequence[str]) -> pa.Table:
        """A row group's columns, as they are in the file."""
        with self._read():
            return self._file.read_row_group(
                group, columns=[one for one in columns if one in self._has.names]
            )

    def _column(
        self,
        found: pa.Table,
        field: pa.Field,
        count: int,
        values: Callable[[pa.Table, str], pa.ChunkedArray | None],
    ) -> Any:
        if field.name in self._partition:
            return pa.repeat(partition_value(self._partition[field.name], field.type), count)
        return _brought(values(found, field.name), field.type, count)

    @contextmanager
    def _read(self) -> Iterator[None]:
        try:
            with self._one:
                yield
        except pa.ArrowInvalid as error:
            why = str(error).partition("\n")[0]
            raise Unreadable(f"its file {self._name} is damaged ({why})") from None


def at_once(place: Files, work: Callable[[_Item], _Done], items: Sequence[_Item]) -> list[_Done]:
    """The work done for each item, in their order: where each waits for another machine, for several side by side."""
    if not place.remote or len(items) < 2:
        return [work(item) for item in items]
    with ThreadPoolExecutor(min(_THREADS, len(items)), "merge") as pool:
        return list(pool.map(work, items))


def at_places(rows: pa.Table, places: Places) -> pa.Table:
    """The rows at these places, which ascend."""
    return pa.table([values_at_places(one, places) for one in rows.columns], schema=rows.schema)


def values_at_places(values: pa.ChunkedArray, places: Places) -> pa.ChunkedArray:
    """A column's values at these places, which ascend.

    Each array's by themselves: Arrow brings all of them together first, and there is no room for more than 2 GiB of text. Of arrays
    without any nothing stays: whoever takes rows of what was taken would have more of them each time.
    """
    # Numbers without a sign make fractions of what is taken from them.
    places, edges = places.astype(np.int64), np.cumsum([0, *map(len, values.chunks)])
    cuts = np.searchsorted(places, edges)
    parts = zip(values.chunks, edges, cuts, cuts[1:], strict=False)
    taken = [
        chunk.take(pa.array(places[low:high] - first)) for chunk, first, low, high in parts if low < high
    ]
    return pa.chunked_array(taken, values.type)


def at_paths(schema: pa.Schema, paths: Sequence[str]) -> pa.Schema:
    """What a table has at these paths, as columns of that name. Raises KeyError for one that it does not have."""
    found = [(path, type_at(schema, path)) for path in paths]
    for path, dtype in found:
        if dtype is None:
            raise KeyError(path)
    return pa.schema(found)


def type_at(schema: pa.Schema, path: str) -> pa.DataType | None:
    """The type at a path; None where there is nothing."""
    fields: Sequence[pa.Field] = list(schema)
    dtype: pa.DataType | None = None
    for name in path.split("."):
        dtype = next((field.type for field in fields if field.name == name), None)
        if dtype is None:
            return None
        fields = children(dtype) if pa.types.is_struct(dtype) else ()
    return dtype


def value_at(table: pa.Table, path: str) -> Any:
    """What is at a path: null where any struct above it is."""
    first, *rest = path.split(".")
    found = table.column(first)
    for name in rest:
        found = pc.struct_field(found, name)
    return found


def _is_old(values: pa.Array) -> bool:
    """Whether any of these means another day or time in the old calendar."""
    kind = values.type
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        since = _SAME_DAYS if pa.types.is_date(kind) else _SAME_TIMES
        ends = pa.scalar(since, pa.date32() if pa.types.is_date(kind) else pa.timestamp(kind.unit))
        return bool(pc.any(pc.less(values, ends.cast(kind))).as_py())
    return bool(children(kind)) and any(map(_is_old, held(values)))


def _at_path(table: pa.Table, path: str) -> pa.ChunkedArray | None:
    """What a path leads to, or else the column of that very name, such as one that somebody gave the table."""
    return value_at(table, path) if type_at(table.schema, path) is not None else _by_name(table, path)


def _by_name(table: pa.Table, name: str) -> pa.ChunkedArray | None:
    return table.column(name) if name in table.column_names else None


def _brought(found: pa.ChunkedArray | None, to: pa.DataType, count: int) -> Any:
    if found is None:
        return pa.nulls(count, to)
    if found.type == to:
        return found
    return pa.chunked_array([brought(chunk, to) for chunk in found.chunks], to)


def brought(values: pa.Array, to: pa.DataType) -> pa.Array:
    """Values of a column that grew since, became wider, or were written as another unit of time."""
    if values.type == to:
        return values
    if not children(to):
        return values.cast(to, safe=False)
    if pa.types.is_struct(to):
        own = {one.name: inside for one, inside in zip(children(values.type), held(values), strict=True)}
        inside = [
            brought(own[one.name], one.type) if one.name in own else pa.nulls(len(values), one.type)
            for one in children(to)
        ]
    else:
        pairs = zip(held(values), children(to), strict=True)
        inside = [brought(inner, one.type) for inner, one in pairs]
    return around(values, to, inside)
