"""Columns that become wider: which types Delta lets a column change to, and where a record's type asks for it.

https://github.com/delta-io/delta/blob/master/PROTOCOL.md#type-widening
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.types as kinds

from distributary.codecs.types.fit import stored_leaf
from distributary.codecs.types.walk import alike, children, pairs, rebuilt
from distributary.ingest.columns.layout import source_of

_INTEGERS = (pa.int8(), pa.int16(), pa.int32(), pa.int64())

_TO_DOUBLE = frozenset({pa.float32(), *_INTEGERS[:3]})

# Digits before the point that a decimal needs to take every value of an integer, by its bits.
_DIGITS = {8: 10, 16: 10, 32: 10, 64: 20}


@dataclass(frozen=True, slots=True)
class Widening:
    """A column that is to become wider; the path is by columns' names, with `element`, `key` and `value` within."""

    path: tuple[str, ...]
    before: pa.DataType
    after: pa.DataType


def delta_widens(before: pa.DataType, after: pa.DataType) -> bool:
    """Whether Delta can change a column from one type to the other, both without children, and keep its files."""
    if before in _INTEGERS and after in _INTEGERS:
        return bool(before.bit_width < after.bit_width)
    if kinds.is_decimal(after):
        return _fits_decimal(before, after)
    if kinds.is_date32(before):
        return bool(after.equals(pa.timestamp("us")))
    return bool(after.equals(pa.float64()) and before in _TO_DOUBLE)


def widened(layout: pa.Schema, record: pa.Schema, fixed: frozenset[str] = frozenset()) -> pa.Schema:
    """The layout with the columns wider whose fields in the record are; the very same layout where none is.

    Nothing is added. `fixed` names top-level columns that keep their types.
    """
    wide = _wider(pa.struct(list(layout)), pa.struct(list(record)))
    columns = [old if old.name in fixed else new for old, new in zip(layout, wide, strict=True)]
    return layout if columns == list(layout) else pa.schema(columns)


def widenings(table: pa.Schema, wanted: pa.Schema) -> list[Widening]:
    """Which columns of a table must become wider, and can, to have the types wanted; matched by columns' names."""
    return list(_between(pa.struct(list(table)), pa.struct(list(wanted)), ()))


def _fits_decimal(before: pa.DataType, after: pa.DataType) -> bool:
    whole = after.precision - after.scale
    if before in _INTEGERS:
        return bool(whole >= _DIGITS[before.bit_width])
    if not kinds.is_decimal(before) or before == after:
        return False
    return bool(before.scale <= after.scale and before.precision - before.scale <= whole)


def _wider(column: pa.DataType, record: pa.DataType) -> pa.DataType:
    if not alike(column, record):
        return _wider_leaf(column, record)
    inside = [
        own if other is None else own.with_type(_wider(own.type, other.type))
        for other, own in pairs(record, column, source_of)
    ]
    if kinds.is_map(column) and kinds.is_nested(column.key_type):
        # A key with fields of its own is taken whole or not at all, so it stays.
        inside[0] = children(column)[0]
    return rebuilt(column, inside)


def _wider_leaf(column: pa.DataType, record: pa.DataType) -> pa.DataType:
    if kinds.is_nested(column) or kinds.is_nested(record):
        return column
    stored = stored_leaf(record)
    return column if stored is None or not delta_widens(column, stored) else stored


def _between(before: pa.DataType, after: pa.DataType, above: tuple[str, ...]) -> Iterator[Widening]:
    for old, new in pairs(before, after):
        if old is None:
            continue
        if alike(old.type, new.type):
            yield from _between(old.type, new.type, (*above, new.name))
        elif delta_widens(old.type, new.type):
            yield Widening((*above, new.name), old.type, new.type)
