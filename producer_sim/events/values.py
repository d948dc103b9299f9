"""Single values of events, wherever in a record they stand, as keys, headers and routes need them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

Plain: TypeAlias = str | int | bool | None


def is_plain(kind: pa.DataType) -> bool:
    """Whether values of this type are text, whole numbers or booleans, which have one spelling everywhere."""
    return bool(kinds.is_string(kind) or kinds.is_integer(kind) or kinds.is_boolean(kind))


def fields_of(record: pa.Schema | pa.StructType, above: str = "") -> Iterator[tuple[str, pa.DataType]]:
    """Every field, those in structs too, by its dotted path."""
    for about in record:
        yield above + about.name, about.type
        if kinds.is_struct(about.type):
            yield from fields_of(about.type, f"{above}{about.name}.")


def plain_column(rows: pa.RecordBatch, path: str) -> pa.Array:
    """The values of a field; null where the record lacks it, or where it is none that is plain."""
    first, *rest = path.split(".")
    column = rows[first] if first in rows.schema.names else None
    for name in rest:
        inside = column is not None and kinds.is_struct(column.type)
        column = pc.struct_field(column, name) if inside and _has(column, name) else None
    plain = column is not None and is_plain(column.type)
    return column if plain else pa.nulls(rows.num_rows, pa.string())


def text_column(rows: pa.RecordBatch, path: str) -> pa.Array:
    """The same as text."""
    return pa.array([as_text(value) for value in plain_column(rows, path).to_pylist()], pa.string())


def as_text(value: Plain) -> str | None:
    """A value as keys, headers and routes spell it."""
    if value is None or isinstance(value, str):
        return value
    return str(value).lower()


def _has(column: Any, name: str) -> bool:
    return bool(column.type.get_field_index(name) >= 0)
