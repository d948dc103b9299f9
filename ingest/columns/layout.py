"""The layout of a table: its payload's columns, how they grow with a record's schema, and what grew.

A column whose name is not its field's keeps the field's name in its metadata, in nested columns too. Fields and
columns are matched by the payload's names; a column, once there, keeps its place, and its type too unless the
settings let it become wider (widening.py).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import final

import pyarrow as pa
import pyarrow.types as kinds

from distributary.codecs.types.fit import Fit, fit, is_list, stored_leaf
from distributary.errors import BadSchema
from distributary.ingest.columns.names import RESERVED_COLUMNS, column_name, fold

SOURCE = b"distributary.source"


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
        return cls(pa.ipc.read_schema(pa.py_buffer(serialized)))

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


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that became of a table's layout.

    column  dotted path; a list's elements are `element`, a map's values `value`, as in Spark's ALTER TABLE
    kind    "added", or "widened" where the column was there with a narrower type
    type    the column's type in Spark's spelling
    source  the same path in the payload's names, part by part
    before  the type that it had; empty for one that was not there
    """

    column: str
    kind: str
    type: str
    source: tuple[str, ...] = dataclasses.field(default=(), compare=False)
    before: str = dataclasses.field(default="", compare=False)


def source_of(column: pa.Field) -> str:
    """The payload's name of a column or field."""
    renamed = (column.metadata or {}).get(SOURCE)
    return str(column.name) if renamed is None else str(renamed, "utf-8", "surrogatepass")


def extend(base: pa.Schema, record: pa.Schema, reserved: frozenset[str]) -> pa.Schema:
    """`base` with everything that `record` adds, nested columns too.

    No column is called as one of `reserved`. Raises BadSchema for a new field of a type no table can hold.
    """
    return pa.schema(_extended(list(base), list(record), reserved | RESERVED_COLUMNS))


def restrict(full: pa.Schema, base: pa.Schema, records: Sequence[pa.Schema]) -> pa.Schema:
    """The columns of `full` that `base` has or that some of `records` carries, nested ones too, in `full`'s order.

    A record carries a column if it has the field with a type that goes into it, at least for some values.
    """
    return pa.schema(_restricted(list(full), [list(part) for part in (base, *records)]))


def changes(before: pa.Schema, after: pa.Schema) -> list[Change]:
    """What `after` has and `before` has not, or with another type; a new struct is one change."""
    return list(_added(list(before), list(after), "", ()))


def column_path(layout: pa.Schema, source: Sequence[str]) -> str | None:
    """The dotted path of the column that a field's path in the payload's names leads to; None where there is none."""
    path, fields = [], list(layout)
    for name in source:
        found = next((column for column in fields if source_of(column) == name), None)
        if found is None:
            return None
        path.append(found.name)
        fields = _children(found.type)
    return ".".join(path)


def type_at(layout: pa.Schema, column: str) -> str:
    """The type, in Spark's spelling, of the column at a dotted path; empty where there is none."""
    fields = list(layout)
    found: pa.DataType | None = None
    for name in column.split("."):
        found = next((field.type for field in fields if field.name == name), None)
        fields = [] if found is None else _children(found)
    return "" if found is None else spark_type(found)


def _children(of: pa.DataType) -> list[pa.Field]:
    if kinds.is_struct(of):
        return list(of)
    if kinds.is_map(of):
        return [pa.field("key", of.key_type), pa.field("value", of.item_type)]
    return [pa.field("element", of.value_type)] if is_list(of) else []


def spark_type(column: pa.DataType) -> str:
    """A type in Spark's spelling, such as `array<struct<id:bigint>>`."""
    # Imported when it is needed: it takes longer to load than everything else here.
    from pyspark.sql.pandas.types import from_arrow_type  # noqa: PLC0415

    return str(from_arrow_type(column, prefer_timestamp_ntz=True).simpleString())


def _extended(
    columns: list[pa.Field], fields: Iterable[pa.Field], reserved: frozenset[str]
) -> list[pa.Field]:
    columns = list(columns)
    places = {source_of(column): place for place, column in enumerate(columns)}
    taken = {fold(name) for name in (*reserved, *(column.name for column in columns))}
    for field in fields:
        source = source_of(field)
        if source in places:
            column = columns[places[source]]
            columns[places[source]] = column.with_type(_grown(column.type, field.type))
        else:
            places[source] = len(columns)
            columns.append(_new_column(source, field, taken))
            taken.add(fold(columns[-1].name))
    return columns


def _new_column(source: str, field: pa.Field, taken: set[str]) -> pa.Field:
    name = column_name(source, taken)
    metadata = None if name == source else {SOURCE: source.encode("utf-8", "surrogatepass")}
    return pa.field(name, _new_type(source, field.type), nullable=True, metadata=metadata)


def _new_type(name: str, of: pa.DataType) -> pa.DataType:
    if kinds.is_struct(of):
        if not of.num_fields:
            raise BadSchema(f"field {name} is a struct without fields, which no table can hold")
        return pa.struct(_extended([], list(of), frozenset()))
    if is_list(of):
        return pa.list_(pa.field("element", _new_type(f"{name}.element", of.value_type)))
    if kinds.is_map(of):
        key = pa.field("key", _new_type(f"{name}.key", of.key_type), nullable=False)
        return pa.map_(key, pa.field("value", _new_type(f"{name}.value", of.item_type)))
    stored = stored_leaf(of)
    if stored is None:
        raise BadSchema(f"field {name} has the type {of}, which no Delta table can hold")
    return stored


def _grown(column: pa.DataType, record: pa.DataType) -> pa.DataType:
    """A column's type with the nested fields that a record's adds; unchanged where the two do not match."""
    if kinds.is_struct(column) and kinds.is_struct(record):
        return pa.struct(_extended(list(column), list(record), frozenset()))
    if kinds.is_list(column) and is_list(record):
        element = column.value_field
        return pa.list_(element.with_type(_grown(element.type, record.value_type)))
    if kinds.is_map(column) and kinds.is_map(record):
        value = column.item_field
        return pa.map_(column.key_field, value.with_type(_grown(value.type, record.item_type)))
    return column


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
    if kinds.is_struct(column):
        fields = _restricted(list(column), [list(of) for of in given if kinds.is_struct(of)])
        return pa.struct(fields) if fields else None
    if kinds.is_list(column):
        element = _carried(column.value_type, [of.value_type for of in given if is_list(of)])
        return None if element is None else pa.list_(column.value_field.with_type(element))
    if kinds.is_map(column):
        maps = [of for of in given if kinds.is_map(of) and takes_key(column.key_type, of.key_type)]
        value = _carried(column.item_type, [of.item_type for of in maps])
        return None if value is None else pa.map_(column.key_field, column.item_field.with_type(value))
    fitting = any(fit(of, column) is not Fit.NEVER for of in given)
    return column if fitting else None


def takes_key(column: pa.DataType, given: pa.DataType) -> bool:
    """Whether values of a type can have everything that a map's key has: a key is never stored in part."""
    return _carried(column, [given]) == column and (not kinds.is_nested(column) or column == given)


def _added(
    before: list[pa.Field], after: list[pa.Field], above: str, source: tuple[str, ...]
) -> Iterator[Change]:
    known = {source_of(column): column.type for column in before}
    for column in after:
        path, origin = above + column.name, (*source, source_of(column))
        old = known.get(origin[-1])
        if old is None:
            yield Change(path, "added", spark_type(column.type), origin)
        else:
            yield from _added_inside(old, column.type, path, origin)


def _added_inside(
    before: pa.DataType, after: pa.DataType, path: str, source: tuple[str, ...]
) -> Iterator[Change]:
    if kinds.is_struct(before) and kinds.is_struct(after):
        yield from _added(list(before), list(after), f"{path}.", source)
    elif kinds.is_list(before) and kinds.is_list(after):
        yield from _added_inside(before.value_type, after.value_type, f"{path}.element", (*source, "element"))
    elif kinds.is_map(before) and kinds.is_map(after):
        yield from _added_inside(before.key_type, after.key_type, f"{path}.key", (*source, "key"))
        yield from _added_inside(before.item_type, after.item_type, f"{path}.value", (*source, "value"))
    elif before != after and not kinds.is_nested(before) and not kinds.is_nested(after):
        yield Change(path, "widened", spark_type(after), source, spark_type(before))
