"""Rows in the order of a table's columns, with nulls for what they lack."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.types as kinds

from distributary.ingest.nested_arrays import list_like, map_like, runs_of, struct_like


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
