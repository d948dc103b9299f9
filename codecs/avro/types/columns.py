"""Which columns an Avro schema becomes: the one place where Avro's types meet Arrow's.

docs/reference/avro.md has the table. Every field is nullable, every type is one that Delta can store, and where
Spark's `from_avro` has a type for something that Delta can store, it is that type.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import pyarrow as pa

from distributary.codecs.avro.types.schema import MAX_DEPTH, AvroType, Kind, Logical
from distributary.errors import BadSchema

# A few types that name each other many times describe more columns than any table can hold.
MAX_FIELDS = 5_000

# What a schema's only column is called when the schema is no record.
VALUE = "value"


class Shape(Enum):
    """What becomes of one value on the wire."""

    NULL = "null"
    SCALAR = "scalar"
    BOOLEAN = "boolean"
    INT = "int"
    ENUM = "enum"
    DATE = "date"
    TIMESTAMP = "timestamp"
    DECIMAL = "decimal"
    EMPTY = "empty"
    STRUCT = "struct"
    LIST = "list"
    MAP = "map"
    OPTIONAL = "optional"
    WIDER = "wider"
    MEMBERS = "members"
    JSON = "json"


@dataclass(eq=False, slots=True)
class JsonPair:
    """A writer's and a reader's record of which one can contain itself: how the one is read as the other, within JSON text.

    Both may hold the pair itself, as the types do; so schema resolution, which makes it, puts them in when they are there.

    source   as what the writer's records are read
    convert  what makes of one so read, within JSON, the reader's; it raises Undecodable where it cannot be
    """

    source: Column = field(init=False)
    convert: Callable[[Any], Any] = field(init=False)


@dataclass(frozen=True, slots=True)
class Column:
    """One value on the wire and the column, or part of a column, that it becomes.

    children  a STRUCT's fields, the element of a LIST, the value of a MAP, and all branches of a union (OPTIONAL
              where there is but one besides null, WIDER where all fit one number, MEMBERS otherwise)
    names     the names of a STRUCT's fields, or of the struct that MEMBERS become, "" for a null branch
    smallest  the fewest bytes such a value takes on the wire
    pair      of JSON that is another schema's: how it is read as that; else None
    """

    shape: Shape
    type: pa.DataType
    avro: AvroType
    children: tuple[Column, ...] = ()
    names: tuple[str, ...] = ()
    smallest: int = 1
    pair: JsonPair | None = None

    @property
    def is_null(self) -> bool:
        """Whether such a value is null itself and takes no byte."""
        return self.shape is Shape.NULL


_SCALARS: dict[Kind, tuple[pa.DataType, int]] = {
    Kind.LONG: (pa.int64(), 1),
    Kind.FLOAT: (pa.float32(), 4),
    Kind.DOUBLE: (pa.float64(), 8),
    Kind.BYTES: (pa.binary(), 1),
    Kind.STRING: (pa.string(), 1),
}

# Unions of these kinds, with null or without, are one number.
_WIDER = {
    frozenset({Kind.INT, Kind.LONG}): pa.int64(),
    frozenset({Kind.FLOAT, Kind.DOUBLE}): pa.float64(),
}

_TIMESTAMPS = {
    Logical.TIMESTAMP_MILLIS: pa.timestamp("us", tz="UTC"),
    Logical.TIMESTAMP_MICROS: pa.timestamp("us", tz="UTC"),
    Logical.LOCAL_MILLIS: pa.timestamp("us"),
    Logical.LOCAL_MICROS: pa.timestamp("us"),
}


def columns_of(top: AvroType) -> Column:
    """The columns of a schema, as one STRUCT. Raises BadSchema where they would be too many."""
    columns = Columns(top.name)
    if top.kind is not Kind.RECORD:
        return only_column(columns.column(top, 1))
    return columns.struct(top, 1)


def only_column(column: Column) -> Column:
    """A STRUCT whose one field is this column."""
    return struct_of(column.avro, (VALUE,), (column,))


def schema_of(columns: Column) -> pa.Schema:
    """The Arrow schema of a STRUCT's fields."""
    return pa.schema(list(columns.type))


def has_json(column: Column) -> bool:
    """Whether some value in it becomes JSON text."""
    return column.shape is Shape.JSON or any(map(has_json, column.children))


def is_recursive(record: AvroType) -> bool:
    """Whether a record of this type can contain another one of its own type, at any depth."""
    seen: set[int] = set()
    waiting = list(record.parts)
    while waiting:
        part = waiting.pop()
        if part is record:
            return True
        if id(part) not in seen:
            seen.add(id(part))
            waiting.extend(part.parts)
    return False


class Columns:
    """Makes the columns of one schema, counting fields so that no schema can make it run for ever."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.fields = 0

    def count(self, depth: int) -> None:
        """One field more, so deep. Raises BadSchema where that is too many, or too deep."""
        self.fields += 1
        if self.fields > MAX_FIELDS or depth > MAX_DEPTH:
            raise BadSchema(
                f"{self.name or 'the schema'} describes more than {MAX_FIELDS} fields or {MAX_DEPTH} levels, "
                "which no table can hold"
            )

    def column(self, avro: AvroType, depth: int) -> Column:
        """The column of a type. Raises BadSchema."""
        self.count(depth)
        made = self._nested.get(avro.kind)
        return made(self, avro, depth) if made else leaf(avro)

    def record(self, avro: AvroType, depth: int) -> Column:
        """A record within another, or in a list, map or union."""
        if is_recursive(avro):
            # What can contain itself has to say, in a byte at least, that it does not.
            return Column(Shape.JSON, pa.string(), avro)
        return inner(self.struct(avro, depth))

    def struct(self, avro: AvroType, depth: int) -> Column:
        """A record's fields. Those that are always null hold nothing and take no byte: there is no column for them."""
        columns = [self.column(part, depth + 1) for part in avro.parts]
        kept = [
            (name, column) for name, column in zip(avro.names, columns, strict=True) if not column.is_null
        ]
        return struct_of(avro, tuple(name for name, _ in kept), tuple(column for _, column in kept))

    def list_of(self, avro: AvroType, depth: int) -> Column:
        """An array."""
        return list_column(avro, self.column(avro.parts[0], depth + 1))

    def map_of(self, avro: AvroType, depth: int) -> Column:
        """A map."""
        return map_column(avro, self.column(avro.parts[0], depth + 1))

    def union(self, avro: AvroType, depth: int) -> Column:
        """A union."""
        branches = tuple(self.column(part, depth + 1) for part in avro.parts)
        others = [branch for branch in branches if not branch.is_null]
        if len(others) <= 1:
            return optional_column(avro, branches)
        wider = _WIDER.get(frozenset(branch.avro.kind for branch in others))
        if wider is None:
            return members_column(avro, branches)
        # As in Spark, only the number counts: what an int or a long stands for is not the same in both.
        plain = tuple(leaf(AvroType(branch.avro.kind)) for branch in branches)
        return Column(Shape.WIDER, wider, avro, plain, smallest=_smallest(branches))

    _nested: Mapping[Kind, Callable[[Columns, AvroType, int], Column]] = {
        Kind.RECORD: record,
        Kind.ARRAY: list_of,
        Kind.MAP: map_of,
        Kind.UNION: union,
    }


def list_column(avro: AvroType, element: Column) -> Column:
    """The LIST of such elements."""
    return Column(Shape.LIST, pa.list_(pa.field("element", element.type)), avro, (element,))


def map_column(avro: AvroType, value: Column) -> Column:
    """The MAP to such values."""
    return Column(Shape.MAP, pa.map_(pa.string(), value.type), avro, (value,))


def optional_column(avro: AvroType, branches: tuple[Column, ...]) -> Column:
    """The column of a union of at most one type besides null."""
    others = [branch for branch in branches if not branch.is_null]
    kind = others[0].type if others else pa.bool_()
    return Column(Shape.OPTIONAL, kind, avro, branches, smallest=_smallest(branches))


def members_column(avro: AvroType, branches: tuple[Column, ...]) -> Column:
    """The column of a union that keeps its branches apart."""
    numbers = itertools.count()
    names = tuple("" if branch.is_null else f"member{next(numbers)}" for branch in branches)
    fields = [pa.field(n, branch.type) for n, branch in zip(names, branches, strict=True) if n]
    return Column(Shape.MEMBERS, pa.struct(fields), avro, branches, names, _smallest(branches))


def _smallest(branches: tuple[Column, ...]) -> int:
    """So few bytes are enough for a union's index and its smallest branch."""
    return 1 + min(branch.smallest for branch in branches)


def inner(struct: Column) -> Column:
    """A STRUCT as part of another column: nothing can hold one without fields."""
    return struct if struct.children else Column(Shape.EMPTY, pa.bool_(), struct.avro, smallest=0)


def struct_of(avro: AvroType, names: tuple[str, ...], children: tuple[Column, ...]) -> Column:
    """The STRUCT of these fields."""
    fields = [pa.field(name, child.type) for name, child in zip(names, children, strict=True)]
    return Column(
        Shape.STRUCT, pa.struct(fields), avro, children, names, sum(child.smallest for child in children)
    )


def leaf(avro: AvroType) -> Column:
    """The column of a type that has no parts."""
    kind, logical = avro.kind, avro.logical
    smallest = avro.size if kind is Kind.FIXED else 1
    if logical is Logical.DECIMAL:
        return Column(
            Shape.DECIMAL, pa.decimal128(avro.precision, avro.scale), avro, smallest=max(smallest, 1)
        )
    if logical in _TIMESTAMPS:
        return Column(Shape.TIMESTAMP, _TIMESTAMPS[logical], avro)
    if kind in _SCALARS:
        return Column(Shape.SCALAR, _SCALARS[kind][0], avro, smallest=_SCALARS[kind][1])
    return {
        Kind.NULL: Column(Shape.NULL, pa.bool_(), avro, smallest=0),
        Kind.BOOLEAN: Column(Shape.BOOLEAN, pa.bool_(), avro),
        Kind.INT: Column(Shape.DATE, pa.date32(), avro)
        if logical is Logical.DATE
        else Column(Shape.INT, pa.int32(), avro),
        Kind.ENUM: Column(Shape.ENUM, pa.string(), avro),
        Kind.FIXED: Column(Shape.SCALAR, pa.binary(), avro, smallest=smallest),
    }[kind]
