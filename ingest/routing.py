"""Which entity a decoded record belongs to: the value of a field, nested or not."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


def entities(rows: pa.RecordBatch, field: str) -> pa.DictionaryArray:
    """The routing value of each row as text, null where there is none; an empty text counts as none.

    `field` is a payload name, dotted for a field inside a struct.
    """
    column = _pick(rows, field.split("."))
    if column is None:
        return pa.nulls(rows.num_rows, pa.string()).dictionary_encode()
    text = _text(column)
    return pc.if_else(pc.equal(text, ""), None, text).dictionary_encode()


def _text(column: pa.Array) -> pa.Array:
    """Values as text; bytes that are no text count as no value, since no two values may become one."""
    if not pa.types.is_binary(column.type):
        return column if pa.types.is_string(column.type) else pc.cast(column, pa.string())
    try:
        return pc.cast(column, pa.string())
    except pa.ArrowInvalid:
        return pa.array([_as_text(value) for value in column.to_pylist()], pa.string())


def _as_text(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None


def _pick(rows: pa.RecordBatch, path: list[str]) -> pa.Array | None:
    place = rows.schema.get_field_index(path[0])
    if place < 0:
        return None
    column = rows.column(place)
    for name in path[1:]:
        if not pa.types.is_struct(column.type) or column.type.get_field_index(name) < 0:
            return None
        column = pc.struct_field(column, name)
    return None if pa.types.is_nested(column.type) else column
