"""Rows in the order of a table's columns, with nulls for what they lack."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds


def fill(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The rows with the columns of `schema`; what they lack, nested too, is null.

    Columns are matched by name. Raises ValueError rather than losing a column or changing a type.
    """
    if rows.schema.equals(schema, check_metadata=True):
        return rows
    _refuse_others(rows.schema.names, schema.names, "the rows")
    columns = [
        _filled(rows.column(field.name), field.type, field.name)
        if field.name in rows.schema.names
        else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    if not columns:
        return rows
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _filled(values: pa.Array, to: pa.DataType, path: str) -> pa.Array:
    if values.type == to:
        return values
    if kinds.is_struct(to) and kinds.is_struct(values.type):
        return _filled_struct(values, to, path)
    if kinds.is_list(to) and kinds.is_list(values.type):
        runs = runs_of(values)
        elements = _filled(runs.elements(values.values), to.value_type, f"{path}.element")
        return list_like(values, runs, elements, to)
    if kinds.is_map(to) and kinds.is_map(values.type):
        runs = runs_of(values)
        keys = _filled(runs.elements(values.keys), to.key_type, f"{path}.key")
        items = _filled(runs.elements(values.items), to.item_type, f"{path}.value")
        return map_like(values, runs, keys, items, to)
    raise ValueError(f"column {path} is {values.type}, not {to}; rows are conformed before they are filled")


def _filled_struct(values: pa.StructArray, to: pa.StructType, path: str) -> pa.StructArray:
    places = {field.name: place for place, field in enumerate(values.type)}
    _refuse_others(places, [field.name for field in to], path)
    children = [
        _filled(values.field(places[field.name]), field.type, f"{path}.{field.name}")
        if field.name in places
        else pa.nulls(len(values), field.type)
        for field in to
    ]
    return struct_like(values, children, to)


def _refuse_others(given: Iterable[str], wanted: Iterable[str], where: str) -> None:
    others = sorted(set(given) - set(wanted))
    if others:
        raise ValueError(f"{where}: no place for {', '.join(others)}; extend the layout first")


@dataclass(frozen=True, slots=True)
class Runs:
    """Where the elements of each list or map of an array lie: from `offsets[i]` to `offsets[i + 1]`, from 0 on."""

    offsets: pa.Int32Array
    first: int
    count: int

    def elements(self, child: pa.Array) -> pa.Array:
        """The part of a child array that the runs speak of."""
        return child.slice(self.first, self.count)

    def parents(self, elements: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The list or map that each of these elements is in."""
        return np.searchsorted(self.offsets.to_numpy(), elements, side="right").astype(np.int64) - 1


def runs_of(values: pa.ListArray) -> Runs:
    """Where an array's elements lie, the array being a list's or a map's."""
    offsets = values.offsets
    first, last = (offsets[0].as_py(), offsets[-1].as_py()) if len(offsets) else (0, 0)
    if values.offset or first:
        offsets = pc.subtract(offsets, pa.scalar(first, pa.int32()))
    return Runs(offsets, first, last - first)


def plain_list(values: pa.Array) -> pa.ListArray:
    """Any of Arrow's lists as an ordinary one."""
    return values if kinds.is_list(values.type) else values.cast(pa.list_(values.type.value_field))


def struct_like(values: pa.StructArray, children: Sequence[pa.Array], to: pa.StructType) -> pa.StructArray:
    """Structs of these children, null where `values` is."""
    return pa.StructArray.from_arrays(children, fields=list(to), mask=_nulls(values))


def list_like(values: pa.ListArray, runs: Runs, elements: pa.Array, to: pa.ListType) -> pa.ListArray:
    """Lists of these elements, null where `values` is."""
    return pa.ListArray.from_arrays(runs.offsets, elements, type=to, mask=_nulls(values))


def map_like(values: pa.MapArray, runs: Runs, keys: pa.Array, items: pa.Array, to: pa.MapType) -> pa.MapArray:
    """Maps of these keys and items, null where `values` is."""
    return pa.MapArray.from_arrays(runs.offsets, keys, items, type=to, mask=_nulls(values))


def _nulls(values: pa.Array) -> pa.BooleanArray | None:
    return values.is_null() if values.null_count else None
