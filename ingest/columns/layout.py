"""The layout of a table: its payload's columns as a value, and how to find one's way in it.

A column whose name is not its field's keeps the field's name in its metadata, in nested columns too. Fields and
columns are matched by the payload's names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import final

import pyarrow as pa
import pyarrow.types as kinds

from distributary.codecs.types.fit import Fit, fit
from distributary.codecs.types.spark_struct import type_name
from distributary.codecs.types.walk import alike, children, rebuilt

SOURCE = b"distributary.source"

# The source of a column that no field of a payload is for. No text of Arrow's can hold half of a surrogate pair, so that no field is
# called so, whatever a producer thinks of.
NO_FIELD = "\ud800"

# What a column is that this program adds to a table, as its fields have it there: no field of a payload is for it either.
OWN = b"distributary.own"


@final
class Layout:
    """A table's payload columns as a value: two are equal where names, order, types and origins are, nested ones too.

    Thousands of tables share a few layouts, so that much is worked out once a layout and kept by it. Hash and equality
    are those of `serialized`, which is made once and goes along when a layout is pickled.
    """

    __slots__ = ("columns", "serialized")

    def __init__(self, columns: pa.Schema) -> None:
        self.columns = columns
        # Arrow's own hash takes four times as long, each time, and its equality leaves out where a column came from.
        self.serialized = columns.serialize().to_pybytes()

    @classmethod
    def read(cls, serialized: bytes) -> Layout:
        """The layout of which this is `serialized`. Raises ArrowException for anything else."""
        try:
            return cls(pa.ipc.read_schema(pa.py_buffer(serialized)))
        except (
            OSError
        ) as error:  # Arrow's word for bytes that it cannot make out, though nothing was read from a disk
            raise pa.ArrowInvalid(str(error)) from error

    @property
    def names(self) -> list[str]:
        """The top-level columns' names, in order."""
        return list(self.columns.names)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Layout) and self.serialized == other.serialized)

    def __hash__(self) -> int:
        return hash(self.serialized)  # bytes keep theirs

    def __reduce__(self) -> tuple[Callable[[bytes], Layout], tuple[bytes]]:
        return Layout.read, (self.serialized,)

    def __repr__(self) -> str:
        return f"Layout({', '.join(f'{column.name}: {column.type}' for column in self.columns)})"


NO_COLUMNS = Layout(pa.schema([]))


def own_column(name: str, dtype: pa.DataType, what: str) -> pa.Field:
    """A column that no payload has, called so; `what` tells it from others of a table."""
    return pa.field(name, dtype, metadata={OWN: what.encode()})


def is_own(column: pa.Field) -> bool:
    """Whether no payload has a column, as this program added it."""
    return OWN in (column.metadata or {})


def source_of(column: pa.Field) -> str:
    """The payload's name of a column or field."""
    told = column.metadata or {}
    if OWN in told:
        return NO_FIELD + str(told[OWN], "utf-8")
    renamed = told.get(SOURCE)
    return str(column.name) if renamed is None else str(renamed, "utf-8", "surrogatepass")


def restrict(full: pa.Schema, base: pa.Schema, records: Sequence[pa.Schema]) -> pa.Schema:
    """The columns of `full` that `base` has or that some of `records` carries, nested ones too, in `full`'s order.

    A record carries a column if it has the field with a type that goes into it, at least for some values.
    """
    return pa.schema(_restricted(list(full), [list(part) for part in (base, *records)]))


def column_path(columns: pa.Schema, source: Sequence[str]) -> str | None:
    """The dotted path of the column that a field's path in the payload's names leads to; None where there is none."""
    path, fields = [], list(columns)
    for name in source:
        found = next((column for column in fields if source_of(column) == name), None)
        if found is None:
            return None
        path.append(found.name)
        fields = children(found.type)
    return ".".join(path)


def type_at(columns: pa.Schema, column: str) -> str:
    """The type, in Spark's spelling, of the column at a dotted path; empty where there is none."""
    fields = list(columns)
    found: pa.DataType | None = None
    for name in column.split("."):
        found = next((field.type for field in fields if field.name == name), None)
        fields = [] if found is None else children(found)
    return "" if found is None else type_name(found)


def _restricted(columns: list[pa.Field], parts: list[list[pa.Field]]) -> list[pa.Field]:
    by_source = [{source_of(field): field.type for field in part} for part in parts]
    kept = []
    for column in columns:
        source = source_of(column)
        carried = _carried(column.type, [types[source] for types in by_source if source in types])
        if carried is not None:
            kept.append(column.with_type(carried))
    return kept


def _carried(column: pa.DataType, given: list[pa.DataType]) -> pa.DataType | None:
    """As much of a column's type as values of the given types can have; None for nothing."""
    if not children(column):
        return column if any(fit(of, column) is not Fit.NEVER for of in given) else None
    given = [of for of in given if alike(column, of)]
    if kinds.is_struct(column):
        fields = _restricted(list(column), [list(of) for of in given])
        return pa.struct(fields) if fields else None
    if kinds.is_map(column):
        given = [of for of in given if takes_key(column.key_type, of.key_type)]
    *keys, held = children(column)
    carried = _carried(held.type, [children(of)[-1].type for of in given])
    return None if carried is None else rebuilt(column, [*keys, held.with_type(carried)])


def takes_key(column: pa.DataType, given: pa.DataType) -> bool:
    """Whether values of a type can have everything that a map's key has: a key is never stored in part."""
    return _carried(column, [given]) == column and (not kinds.is_nested(column) or column == given)
