"""Delta's per-file statistics, taken from a Parquet file's footer.

They are never too tight, or readers would skip rows that are there: timestamps are rounded outwards to milliseconds,
long strings are cut so that they still enclose, and where a bound is not certain it is left out.
https://github.com/delta-io/delta/blob/master/PROTOCOL.md#per-file-statistics
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from json.encoder import encode_basestring
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as pat

from distributary.codecs.types.walk import children
from distributary.ingest.columns.layout import Layout, is_own, source_of

# As long as Spark's own.
_PREFIX = 32

INDEXED = "delta.dataSkippingNumIndexedCols"
"""The property that says of how many columns a table has statistics."""

# https://docs.delta.io/latest/optimizations-oss.html
_AS_DELTA = 32

_HIGHEST = "\U0010ffff"

_EPOCH = datetime(1970, 1, 1)

_EPOCH_DAY = date(1970, 1, 1)

Path = tuple[str, ...]

# A bound as JSON text, from Parquet's physical value and the column's type; None where it is not certain.
Bound = Callable[[Any, pa.DataType], str | None]


@dataclass(frozen=True, slots=True)
class _Range:
    """A column over all row groups: raw bounds are None where any row group lacks them."""

    nulls: int | None
    low: Any
    high: Any


@dataclass(frozen=True, slots=True)
class Indexed:
    """Which columns of a table have bounds in its log: each file's are read by all who open the table.

    first   so many, in their order, those in structs one by one; None: all
    always  others that do, by their paths in the payload's names, dotted, or by their own where no payload has them
    """

    first: int | None = None
    always: frozenset[str] = frozenset()

    @classmethod
    def told(cls, properties: Mapping[str, str | None], always: Iterable[str] = ()) -> Indexed:
        """As a table's properties say, and where they do not as Delta has it."""
        text = properties.get(INDEXED)
        told = int(text) if text is not None and re.fullmatch(r"-1|[0-9]{1,9}", text) else _AS_DELTA
        return cls(None if told < 0 else told, frozenset(always))

    def has(self, number: int, source: str) -> bool:
        """Whether a column does; `number` counts them from 0."""
        return self.first is None or number < self.first or source in self.always

    def has_column(self, columns: pa.Schema, path: Sequence[str]) -> bool:
        """Whether a table's column does, by the names that lead to it."""
        wanted = tuple(map(encode_basestring, path))
        return any(
            self.has(number, source)
            for number, (found, source, _) in enumerate(_columns(columns))
            if found == wanted
        )

    def has_more_than_first(self, columns: pa.Schema) -> bool:
        """Whether any of a table's columns does that is not among the first."""
        numbered = enumerate(_columns(columns))
        return self.first is not None and any(
            number >= self.first and source in self.always for number, (_, source, _) in numbered
        )


EACH_COLUMN = Indexed()


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A Parquet column with statistics: its place in the file, and its path as JSON keys."""

    place: int
    path: Path
    dtype: pa.DataType
    lowest: Bound
    highest: Bound


def statistics(
    metadata: pq.FileMetaData,
    layout: Layout,
    indexed: Indexed = EACH_COLUMN,
    without_nan: Collection[Path] = (),
) -> str:
    """The statistics of a file with this footer, written with these columns, as Delta's JSON text.

    Without what lists and maps hold, without bounds for binaries, and without the upper bound of floating-point columns, but for those, by the
    names that lead to them, of which it is known that they are `without_nan`: Parquet's footer hides NaN, which Spark holds to be greater
    than everything. Booleans have bounds for delta-rs, whose datasets take a column without for one in which nothing is found; Spark passes
    them by.
    """
    certain = _as_keys(frozenset(without_nan))
    columns, leaves = _plan(layout, indexed)
    if columns != metadata.num_columns:
        raise ValueError(f"the schema has {columns} columns and the Parquet file {metadata.num_columns}")
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    low: dict[str, Any] = {}
    high: dict[str, Any] = {}
    nulls: dict[str, Any] = {}
    for leaf in leaves:
        found = _range([group.column(leaf.place).statistics for group in groups], leaf.dtype)
        _put(nulls, leaf.path, None if found.nulls is None else str(found.nulls))
        _put(low, leaf.path, None if found.low is None else leaf.lowest(found.low, leaf.dtype))
        highest = _float if leaf.path in certain else leaf.highest
        _put(high, leaf.path, None if found.high is None else highest(found.high, leaf.dtype))
    rows = metadata.num_rows
    return f'{{"numRecords":{rows},"minValues":{_text(low)},"maxValues":{_text(high)},"nullCount":{_text(nulls)}}}'


class Fractions:
    """The floating-point columns of a file of which no value that was looked at is NaN.

    Of the others Parquet is to tell nothing: by its bounds, which leave NaN out, Spark passes by rows for which it is to find that NaN is the greatest.
    """

    def __init__(self, layout: Layout) -> None:
        """All of them; nothing was looked at."""
        self._layout, self.without_nan = layout, _floating(layout)

    def with_nan(self, rows: pa.Table) -> frozenset[Path]:
        """Those of them that have one in these rows, which have all columns of the file."""
        return frozenset(path for path in self.without_nan if _has_nan(rows, path))

    def take(self, paths: frozenset[Path]) -> None:
        """These are to be told of as such that have one."""
        self.without_nan -= paths

    @property
    def told(self) -> bool | list[str]:
        """Of which columns Parquet is to tell anything, as its writer takes it."""
        if len(self.without_nan) == len(_floating(self._layout)):
            return True
        found = (
            (path, dtype) for path, _, dtype in _columns(self._layout.columns) if not pat.is_nested(dtype)
        )
        names = ((tuple(map(json.loads, path)), dtype) for path, dtype in found)
        return [
            ".".join(path) for path, dtype in names if not pat.is_floating(dtype) or path in self.without_nan
        ]


def _has_nan(rows: pa.Table, path: Path) -> bool:
    values = rows.column(path[0])
    for name in path[1:]:
        values = pc.struct_field(values, name)
    # One call, and a fifth of the time that it takes to look at each. Of infinities of both signs there is no sum either.
    total = pc.sum(values).as_py()
    return total is not None and math.isnan(total) and bool(pc.any(pc.is_nan(values)).as_py())


@lru_cache(maxsize=256)
def _as_keys(paths: frozenset[Path]) -> frozenset[Path]:
    """Names that lead to columns as JSON has them; a thousand files have a few of such sets."""
    return frozenset(tuple(map(encode_basestring, path)) for path in paths)


@lru_cache(maxsize=256)
def _floating(layout: Layout) -> frozenset[Path]:
    leaves = (path for path, _, dtype in _columns(layout.columns) if pat.is_floating(dtype))
    return frozenset(tuple(map(json.loads, path)) for path in leaves)


@lru_cache(maxsize=256)
def _plan(layout: Layout, indexed: Indexed) -> tuple[int, Sequence[_Leaf]]:
    """How many columns the file has, and those with statistics; a thousand tables share a few layouts."""
    found, place = list[_Leaf](), 0
    for number, (path, source, dtype) in enumerate(_columns(layout.columns)):
        if not pat.is_nested(dtype) and indexed.has(number, source):
            found.append(_Leaf(place, path, dtype, *_bounds(dtype)))
        place += _width(dtype)
    return place, found


def _columns(
    fields: Iterable[pa.Field], path: Path = (), above: str = ""
) -> Iterator[tuple[Path, str, pa.DataType]]:
    """A table's columns in their order, those in structs one by one: path, path in the payload's names, and type."""
    for field in fields:
        inside, source = (*path, encode_basestring(field.name)), above + _named(field)
        if pat.is_struct(field.type):
            yield from _columns(field.type, inside, f"{source}.")
        else:
            yield inside, source, field.type


def _named(column: pa.Field) -> str:
    """As tables' rules call a column: by the payload's name, or by its own where no payload has it."""
    return str(column.name) if is_own(column) else source_of(column)


def _width(dtype: pa.DataType) -> int:
    """How many columns a file has for one of a table's."""
    return sum(_width(child.type) for child in children(dtype)) if pat.is_nested(dtype) else 1


def _range(groups: Sequence[Any], dtype: pa.DataType) -> _Range:
    if not groups or any(group is None for group in groups):
        return _Range(None, None, None)
    if len(groups) == 1:
        return _range_of(groups[0], dtype)
    counted = all(group.has_null_count for group in groups)
    # `num_values` counts what is not null: a row group of nulls alone has no bounds and needs none.
    filled = [group for group in groups if group.num_values or group.has_min_max]
    bounded = bool(filled) and all(group.has_min_max for group in filled)
    return _Range(
        sum(group.null_count for group in groups) if counted else None,
        min(_comparable(group.min_raw, dtype) for group in filled) if bounded else None,
        max(_comparable(group.max_raw, dtype) for group in filled) if bounded else None,
    )


def _range_of(group: Any, dtype: pa.DataType) -> _Range:
    """The same of a single one, which nearly each of a thousand small files has."""
    nulls = group.null_count if group.has_null_count else None
    if not group.has_min_max:
        return _Range(nulls, None, None)
    return _Range(nulls, _comparable(group.min_raw, dtype), _comparable(group.max_raw, dtype))


def _comparable(raw: Any, dtype: pa.DataType) -> Any:
    """Bytes of strings compare as their characters do; those of decimals are signed numbers."""
    return (
        int.from_bytes(raw, "big", signed=True) if isinstance(raw, bytes) and pat.is_decimal(dtype) else raw
    )


def _bounds(dtype: pa.DataType) -> tuple[Bound, Bound]:
    for fits, bounds in _BY_TYPE:
        if fits(dtype):
            return bounds
    return _nothing, _nothing


def _nothing(_raw: Any, _dtype: pa.DataType) -> None:
    return None


def _boolean(raw: Any, _dtype: pa.DataType) -> str:
    return "true" if raw else "false"


def _integer(raw: Any, _dtype: pa.DataType) -> str:
    return str(raw)


def _float(raw: Any, _dtype: pa.DataType) -> str | None:
    return float.__repr__(raw) if math.isfinite(raw) else None


def _decimal(unscaled: Any, dtype: pa.DataType) -> str:
    digits = tuple(map(int, str(abs(unscaled))))
    return f"{Decimal((int(unscaled < 0), digits, -dtype.scale)):f}"


def _day(raw: Any, _dtype: pa.DataType) -> str | None:
    try:
        return json.dumps((_EPOCH_DAY + timedelta(days=raw)).isoformat())
    except OverflowError:  # years that no reader agrees on how to write
        return None


def _instant(milliseconds: int, dtype: pa.DataType) -> str | None:
    try:
        moment = _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return None
    return f'"{moment.isoformat(timespec="milliseconds")}{"Z" if dtype.tz else ""}"'


def _instant_low(raw: Any, dtype: pa.DataType) -> str | None:
    return _instant(raw // _per_millisecond(dtype), dtype)


def _instant_high(raw: Any, dtype: pa.DataType) -> str | None:
    return _instant(-(-raw // _per_millisecond(dtype)), dtype)


def _per_millisecond(dtype: pa.DataType) -> int:
    return {"us": 1_000, "ns": 1_000_000}[dtype.unit]


def _string_low(raw: bytes, _dtype: pa.DataType) -> str | None:
    text = _decoded(raw)
    return None if text is None else encode_basestring(text[:_PREFIX])


def _string_high(raw: bytes, _dtype: pa.DataType) -> str | None:
    text = _decoded(raw)
    if text is None or text[_PREFIX : _PREFIX + 1] == _HIGHEST:
        return None
    # Whatever follows the prefix comes before the highest of all characters.
    return encode_basestring(text if len(text) <= _PREFIX else text[:_PREFIX] + _HIGHEST)


def _decoded(raw: bytes) -> str | None:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None


_BY_TYPE: Sequence[tuple[Callable[[pa.DataType], bool], tuple[Bound, Bound]]] = (
    (pat.is_string, (_string_low, _string_high)),
    (pat.is_signed_integer, (_integer, _integer)),
    (pat.is_boolean, (_boolean, _boolean)),
    (pat.is_timestamp, (_instant_low, _instant_high)),
    (pat.is_floating, (_float, _nothing)),
    (pat.is_date32, (_day, _day)),
    (pat.is_decimal128, (_decimal, _decimal)),
)


def _put(tree: dict[str, Any], path: Path, text: str | None) -> None:
    if text is None:
        return
    for name in path[:-1]:
        tree = tree.setdefault(name, {})
    tree[path[-1]] = text


def _text(tree: dict[str, Any]) -> str:
    """JSON of nested dictionaries whose keys and leaves are JSON already: a decimal must not pass through a float."""
    inner = [f"{k}:{v if isinstance(v, str) else _text(v)}" for k, v in tree.items()]
    return "{" + ",".join(inner) + "}"
