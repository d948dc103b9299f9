"""Columns that become wider: which types Delta lets a column change to, and where a record's type asks for it.

https://github.com/delta-io/delta/blob/master/PROTOCOL.md#type-widening
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.types as kinds

from distributary.codecs.types.fit import is_list, stored_leaf
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
    columns = _columns(list(layout), list(record), fixed)
    return layout if columns == list(layout) else pa.schema(columns)


def widenings(table: pa.Schema, wanted: pa.Schema) -> list[Widening]:
    """Which columns of a table must become wider, and can, to have the types wanted; matched by columns' names."""
    return list(_between(list(table), list(wanted), ()))


def _fits_decimal(before: pa.DataType, after: pa.DataType) -> bool:
    whole = after.precision - after.scale
    if before in _INTEGERS:
        return bool(whole >= _DIGITS[before.bit_width])
    if not kinds.is_decimal(before) or before == after:
        return False
    return bool(before.scale <= after.scale and before.precision - before.scale <= whole)


def _columns(columns: list[pa.Field], fields: Sequence[pa.Field], fixed: frozenset[str]) -> list[pa.Field]:
    types = {source_of(field): field.type for field in fields}
    return [
        column.with_type(_wider(column.type, types[source_of(column)]))
        if source_of(column) in types and column.name not in fixed
        else column
        for column in columns
    ]


def _wider(column: pa.DataType, record: pa.DataType) -> pa.DataType:
    if kinds.is_struct(column) and kinds.is_struct(record):
        return pa.struct(_columns(list(column), list(record), frozenset()))
    if kinds.is_list(column) and is_list(record):
        return pa.list_(column.value_field.with_type(_wider(column.value_type, record.value_type)))
    if kinds.is_map(column) and kinds.is_map(record):
        key = column.key_field.with_type(_wider_key(column.key_type, record.key_type))
        return pa.map_(key, column.item_field.with_type(_wider(column.item_type, record.item_type)))
    if kinds.is_nested(column) or kinds.is_nested(record):
        return column
    stored = stored_leaf(record)
    return column if stored is None or not delta_widens(column, stored) else stored


def _wider_key(column: pa.DataType, record: pa.DataType) -> pa.DataType:
    """A key with fields of its own is taken whole or not at all, so it stays."""
    return column if kinds.is_nested(column) else _wider(column, record)


def _between(table: list[pa.Field], wanted: list[pa.Field], above: tuple[str, ...]) -> Iterator[Widening]:
    known = {column.name: column.type for column in table}
    for column in wanted:
        if column.name in known:
            yield from _within(known[column.name], column.type, (*above, column.name))


def _within(before: pa.DataType, after: pa.DataType, path: tuple[str, ...]) -> Iterator[Widening]:
    if kinds.is_struct(before) and kinds.is_struct(after):
        yield from _between(list(before), list(after), path)
    elif kinds.is_list(before) and kinds.is_list(after):
        yield from _within(before.value_type, after.value_type, (*path, "element"))
    elif kinds.is_map(before) and kinds.is_map(after):
        yield from _within(before.key_type, after.key_type, (*path, "key"))
        yield from _within(before.item_type, after.item_type, (*path, "value"))
    elif not kinds.is_nested(before) and not kinds.is_nested(after) and delta_widens(before, after):
        yield Widening(path, before, after)
