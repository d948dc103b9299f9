"""Rows of one schema version brought into the columns of another: by name, without ever changing a value.

A column that the rows lack is null. One whose type is another is taken where every value of its type fits (a
wider number, a struct with more fields); otherwise the rows that have a value there do not fit.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from distributary.codecs.types import fit as type_fit
from distributary.codecs.types.fit import Fit

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Fitted:
    """Rows in other columns. `misfits` are the rows with a value that no column takes, and the column of each."""

    rows: pa.RecordBatch
    misfits: tuple[tuple[int, str], ...]


def fit(rows: pa.RecordBatch, columns: pa.Schema) -> Fitted:
    """The rows in these columns."""
    if rows.schema.equals(columns):
        return Fitted(rows, ())
    own = {name: rows.column(index) for index, name in enumerate(rows.schema.names)}
    misfits: dict[int, str] = {}
    arrays = []
    for field in columns:
        array = own.get(field.name, pa.nulls(rows.num_rows))
        if not fits(array.type, field.type):
            misfits |= dict.fromkeys(np.flatnonzero(valid(array)).tolist(), field.name)
            array = pa.nulls(rows.num_rows)
        arrays.append(_as(array, field.type))
    if not arrays:
        return Fitted(empty_rows(columns, rows.num_rows), ())
    return Fitted(pa.RecordBatch.from_arrays(arrays, schema=columns), tuple(sorted(misfits.items())))


def empty_rows(columns: pa.Schema, count: int) -> pa.RecordBatch:
    """So many rows of nulls; a batch without columns keeps its count too."""
    if not len(columns):
        return pa.RecordBatch.from_struct_array(pa.Array.from_buffers(pa.struct([]), count, [None]))
    return pa.RecordBatch.from_arrays([pa.nulls(count, field.type) for field in columns], schema=columns)


def valid(array: pa.Array) -> Mask:
    """Which rows of an array are not null."""
    found: Mask = array.is_valid().to_numpy(zero_copy_only=False)
    return found


def union(versions: Iterable[pa.Schema]) -> pa.Schema:
    """The columns of all versions, oldest first; of two types the one that holds both, or else the later one."""
    whole: dict[str, pa.DataType] = {}
    for version in versions:
        for field in version:
            whole[field.name] = _both(whole.get(field.name, field.type), field.type)
    return pa.schema([pa.field(name, kind) for name, kind in whole.items()])


def fits(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether every value of the one type is one of the other."""
    if source.equals(target) or pa.types.is_null(source):
        return True
    if pa.types.is_struct(source) and pa.types.is_struct(target):
        own = {field.name: field.type for field in source}
        return all(fits(own[field.name], field.type) for field in target if field.name in own)
    if pa.types.is_list(source) and pa.types.is_list(target):
        return fits(source.value_type, target.value_type)
    if pa.types.is_map(source) and pa.types.is_map(target):
        return fits(source.key_type, target.key_type) and fits(source.item_type, target.item_type)
    return type_fit.fit(source, target) in (Fit.SAME, Fit.EXACT)


def _as(array: pa.Array, target: pa.DataType) -> pa.Array:
    """The array as that type, which must fit."""
    if array.type.equals(target):
        return array
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), target)
    if pa.types.is_struct(target):
        own = {field.name: array.field(index) for index, field in enumerate(array.type)}
        children = [_as(own.get(field.name, pa.nulls(len(array))), field.type) for field in target]
        return pa.StructArray.from_arrays(children, fields=list(target), mask=array.is_null())
    if pa.types.is_list(target):
        return _around(array, target, _as(array.values, target.value_type))
    if pa.types.is_map(target):
        entries = [_as(array.keys, target.key_type), _as(array.items, target.item_type)]
        return _around(
            array, target, pa.StructArray.from_arrays(entries, fields=[target.key_field, target.item_field])
        )
    return array.cast(target)


def _around(array: pa.Array, target: pa.DataType, values: pa.Array) -> pa.Array:
    """A list or map of the same lengths around other values."""
    return pa.Array.from_buffers(
        target, len(array), array.buffers()[:2], array.null_count, array.offset, [values]
    )


def _both(first: pa.DataType, second: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(first) and pa.types.is_struct(second):
        return pa.struct(list(union([pa.schema(list(first)), pa.schema(list(second))])))
    if pa.types.is_list(first) and pa.types.is_list(second):
        return pa.list_(pa.field("element", _both(first.value_type, second.value_type)))
    if pa.types.is_map(first) and pa.types.is_map(second) and first.key_type.equals(second.key_type):
        return pa.map_(first.key_type, _both(first.item_type, second.item_type))
    return first if fits(second, first) else second
