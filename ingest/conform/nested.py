"""Rows in the order of a table's columns, with nulls for what they lack."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from distributary.codecs.types.walk import around, children, held


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
    if values.type.id != to.id or not children(to):
        raise ValueError(
            f"column {path} is {values.type}, not {to}; rows are conformed before they are filled"
        )
    own = {field.name: inside for field, inside in zip(children(values.type), held(values), strict=True)}
    _refuse_others(own, [field.name for field in children(to)], path)
    inside = [
        _filled(own[field.name], field.type, f"{path}.{field.name}")
        if field.name in own
        else pa.nulls(len(values), field.type)
        for field in children(to)
    ]
    return around(values, to, inside)


def _refuse_others(given: Iterable[str], wanted: Iterable[str], where: str) -> None:
    others = sorted(set(given) - set(wanted))
    if others:
        raise ValueError(f"{where}: no place for {', '.join(others)}; extend the layout first")
