"""Which data files may have any of a batch's keys, by the bounds that the log tells of their columns."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from distributary.ingest.merge.columns import NO_PARTITION

# Bounds of times are told in milliseconds, and some writers cut off what is behind.
_MILLISECOND = timedelta(milliseconds=1)

# delta-rs tells decimals as floating-point numbers, and of those that are too long for one anything.
_MOST_DIGITS = 15

# Up to so many values that are no integers are looked at one by one; of more the lowest and the highest are.
_MOST_LOOKED_AT = 10_000

Span = tuple[Any, Any]
"""The lowest and the highest value of a column of a file; None where that is not told."""

Parse = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Told:
    """What the log tells of a data file.

    rows   how many it has, marked ones among them; None where it does not say
    spans  by the columns' paths; one that is nowhere but null has none of any value
    empty  the columns of nulls alone
    whole  those without any
    """

    rows: int | None
    spans: Mapping[str, Span]
    empty: frozenset[str]
    whole: frozenset[str] = frozenset()


def told(
    statistics: str | None, columns: pa.Schema, partition: Mapping[str, str | None] = NO_PARTITION
) -> Told:
    """What statistics say of these columns, and `partition` of those that have one value in the whole file."""
    try:
        found = json.loads(statistics or "{}", parse_float=Decimal)
    except ValueError:
        found = {}
    rows = found.get("numRecords")
    low, high = found.get("minValues") or {}, found.get("maxValues") or {}
    nulls = found.get("nullCount") or {}
    # Written alike, but for numbers, which are texts here and no harm to who reads them.
    low, high = {**low, **partition}, {**high, **partition}
    spans = {field.name: _span(field, low, high) for field in columns}
    # Of a file with marked rows counts are those of all its rows.
    empty = frozenset(
        name
        for name in columns.names
        if (not partition[name] if name in partition else rows is not None and _dig(nulls, name) == rows)
    )
    whole = frozenset(name for name in columns.names if _dig(nulls, name) == 0)
    return Told(rows, spans, empty, whole)


class KeyBounds:
    """The values of a batch's keys, each column's by itself."""

    def __init__(self, paths: Sequence[str], values: Sequence[pa.Array]) -> None:
        """`values` are the distinct ones at each path."""
        self._of = {path: _values(column) for path, column in zip(paths, values, strict=True)}

    def may_be_in(self, file: Told) -> bool:
        """Whether a file may have a row of any of these keys."""
        return all(path not in file.empty and _meets(of, file.spans[path]) for path, of in self._of.items())


def _meets(values: Any, span: Span) -> bool:
    low, high = span
    if values is None or low is None or high is None:
        return True
    if isinstance(values, _Between):
        return bool(values.low <= high and low <= values.high)
    place = int(np.searchsorted(values, low)) if isinstance(values, np.ndarray) else bisect_left(values, low)
    return place < len(values) and bool(values[place] <= high)


def _values(column: pa.Array) -> Any:
    """The values in order, or what has all of them between it; None where bounds tell nothing."""
    if pat.is_integer(column.type):
        return np.sort(column.to_numpy(zero_copy_only=False))
    if _parse(column.type) is None or not len(column):
        return None
    try:
        if len(column) <= _MOST_LOOKED_AT:
            return sorted(_known(value) for value in column.to_pylist())
        ends = pc.min_max(column).as_py()
    except (ValueError, OverflowError):  # years that Python does not have
        return None
    return _Between(_known(ends["min"]), _known(ends["max"]))


@dataclass(frozen=True, slots=True)
class _Between:
    """Anything between two values."""

    low: Any
    high: Any


def _known(value: Any) -> Any:
    """A value of Arrow's as `_parse` makes one of a bound."""
    return value.replace(tzinfo=timezone.utc) if isinstance(value, datetime) else value


def _span(field: pa.Field, low: Mapping[str, Any], high: Mapping[str, Any]) -> Span:
    parse = _parse(field.type)
    lowest, highest = _dig(low, field.name), _dig(high, field.name)
    if parse is None or lowest is None or highest is None:
        return None, None
    try:
        found = parse(lowest), parse(highest)
        if pat.is_timestamp(field.type):
            return found[0], found[1] + _MILLISECOND
        if pat.is_decimal(field.type):
            unit = Decimal(1).scaleb(-field.type.scale)
            return found[0] - unit, found[1] + unit
        return found
    except (ValueError, TypeError, ArithmeticError):
        return None, None


def _parse(dtype: pa.DataType) -> Parse | None:
    return next((parse for fits, parse in _BY_TYPE if fits(dtype)), None)


def _moment(text: str) -> datetime:
    found = datetime.fromisoformat(text.replace("Z", "+00:00"))
    return found if found.tzinfo else found.replace(tzinfo=timezone.utc)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value


def _is_told_well(dtype: pa.DataType) -> bool:
    return bool(pat.is_decimal128(dtype) and dtype.precision <= _MOST_DIGITS)


_BY_TYPE: Sequence[tuple[Callable[[pa.DataType], bool], Parse]] = (
    (pat.is_integer, int),
    (pat.is_string, _text),
    (pat.is_timestamp, _moment),
    (pat.is_date32, date.fromisoformat),
    (_is_told_well, Decimal),
)


def _dig(tree: Any, path: str) -> Any:
    for name in path.split("."):
        tree = tree.get(name) if isinstance(tree, Mapping) else None
    return tree
