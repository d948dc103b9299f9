"""Where a payload's field with one value a row is in a table: what names a row, or orders rows, has to be one."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from distributary.ingest.columns.layout import source_of


def value_path(columns: pa.Schema, field: str, *, whole: bool = False) -> tuple[str, ...] | None:
    """The names of the columns that lead to a field, which is dotted where it is nested in structs.

    None where there is no column of it, or one that holds more than a value, unless it is meant with all that it holds (`whole`).
    """
    path, fields = [], list(columns)
    found: pa.Field | None = None
    for part in field.split("."):
        found = next((column for column in fields if source_of(column) == part), None)
        if found is None:
            return None
        path.append(str(found.name))
        fields = list(found.type) if kinds.is_struct(found.type) else []
    if found is None or (kinds.is_nested(found.type) and not whole):
        return None
    return tuple(path)


def value_at(rows: pa.RecordBatch, path: tuple[str, ...]) -> pa.Array:
    """A value a row, null where a struct around it is."""
    values = rows.column(path[0])
    for name in path[1:]:
        values = pc.struct_field(values, name)
    return values


def comparable(values: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Values that are alike, and come one before another, as those of a column do: times as numbers of their unit, since Python lacks most of their years; and one NaN for all."""
    if kinds.is_floating(values.type):
        return [math.nan if one is not None and math.isnan(one) else one for one in values.to_pylist()]
    if kinds.is_timestamp(values.type):
        return list(values.cast(pa.int64()).to_pylist())
    return list((values.cast(pa.int32()) if kinds.is_date32(values.type) else values).to_pylist())
