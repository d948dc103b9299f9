"""Rows of a table that keeps what was, as a worker writes them: each as if it were true for ever."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as kinds

from distributary.ingest.columns.layout import Layout, is_own, own_column
from distributary.ingest.columns.single_values import value_at, value_path
from distributary.ingest.settings.upserts import BOUNDS, Upsert


def with_bounds(upsert: Upsert | None, layout: Layout) -> Layout:
    """The payload columns of a table, with those that say when a row was true; as it is where it has them, and where nothing says of which type they are."""
    if upsert is None or upsert.history is None or any(map(is_own, layout.columns)):
        return layout
    path = value_path(layout.columns, upsert.sequence_by[0])
    if path is None or not is_time(dtype := _type_at(layout.columns, path)):
        return layout
    since, until, current = upsert.history.columns
    told = zip((since, until, current), (dtype, dtype, pa.bool_()), BOUNDS, strict=True)
    return Layout(pa.schema([*layout.columns, *(own_column(*one) for one in told)]))


def wrong_time(upsert: Upsert | None, layout: Layout) -> str:
    """Why rows of a table with these columns cannot say when they were true; empty where they can."""
    if upsert is None or upsert.history is None:
        return ""
    field = upsert.sequence_by[0]
    path = value_path(layout.columns, field)
    if path is None or is_time(dtype := _type_at(layout.columns, path)):
        return ""
    return (
        f"{field} is {dtype}, which is neither a time nor a day, so that it says nothing of when a row is true: name a field "
        "that has one as the first of sequence_by, or give it such a type by decode.schema_hints where types are inferred"
    )


def is_time(dtype: pa.DataType) -> bool:
    """Whether values of a type say when something is true."""
    return bool(kinds.is_timestamp(dtype) or kinds.is_date32(dtype))


def bounded(upsert: Upsert, layout: Layout, rows: pa.RecordBatch) -> pa.RecordBatch:
    """The rows with the columns that say when they are true: from their own moment on."""
    if upsert.history is None:
        return rows
    path = value_path(layout.columns, upsert.sequence_by[0])
    own = [column for column in layout.columns if is_own(column)]
    if path is None or not own or path[0] not in rows.schema.names:
        # None of them has a place in the table.
        return rows
    since, until, current = own
    moments = value_at(rows, path).cast(since.type)
    rows = rows.append_column(since.name, moments)
    rows = rows.append_column(until.name, pa.nulls(rows.num_rows, until.type))
    return rows.append_column(current.name, pa.repeat(pa.scalar(True), rows.num_rows))


def _type_at(columns: pa.Schema, path: tuple[str, ...]) -> pa.DataType:
    first, *rest = path
    dtype = columns.field(first).type
    for name in rest:
        dtype = dtype.field(name).type
    return dtype
