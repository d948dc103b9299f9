"""Rows of one schema version brought into the columns of another: by name, without ever changing a value.

A column that the rows lack is null. One whose type is another is taken where every value of its type fits (a
wider number, a struct with more fields); otherwise the rows that have a value there do not fit.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from distributary.codecs.types import fit as type_fit
from distributary.codecs.types.fit import Fit
from distributary.codecs.types.masks import is_valid
from distributary.codecs.types.walk import alike, around, children, held, pairs


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
            misfits |= dict.fromkeys(np.flatnonzero(is_valid(array)).tolist(), field.name)
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
    if alike(source, target):
        return all(own is None or fits(own.type, field.type) for own, field in pairs(source, target))
    return type_fit.fit(source, target) in (Fit.SAME, Fit.EXACT)


def _as(array: pa.Array, target: pa.DataType) -> pa.Array:
    """The array as that type, which must fit."""
    if array.type.equals(target):
        return array
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), target)
    if not alike(array.type, target):
        return array.cast(target)
    own = {field.name: values for field, values in zip(children(array.type), held(array), strict=True)}
    inside = [_as(own.get(field.name, pa.nulls(len(array))), field.type) for field in children(target)]
    return around(array, target, inside)


def _both(first: pa.DataType, second: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(first) and pa.types.is_struct(second):
        return pa.struct(list(union([pa.schema(list(first)), pa.schema(list(second))])))
    if pa.types.is_list(first) and pa.types.is_list(second):
        return pa.list_(pa.field("element", _both(first.value_type, second.value_type)))
    if pa.types.is_map(first) and pa.types.is_map(second) and first.key_type.equals(second.key_type):
        return pa.map_(first.key_type, _both(first.item_type, second.item_type))
    return first if fits(second, first) else second


def with_beside(rows: pa.RecordBatch, beside: pa.RecordBatch | None) -> pa.RecordBatch:
    """The rows with other columns behind their own, which are called otherwise; the rows themselves where there are none."""
    if beside is None:
        return rows
    return pa.RecordBatch.from_arrays(
        [*rows.columns, *beside.columns], schema=pa.schema([*rows.schema, *beside.schema])
    )
