"""Which columns a Protobuf message becomes: the one place where Protobuf's types meet Arrow's.

docs/reference/protobuf.md has the table. Every field is nullable, every type is one that Delta can store.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import pyarrow as pa
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from distributary.errors import BadSchema

# A few types that name each other many times describe more columns than any table can hold.
MAX_FIELDS = 5_000

MAX_DEPTH = 64

# What Spark puts into a struct that would have no field.
DUMMY = pa.struct([("__dummy_field_in_empty_struct", pa.string())])

MICROSECONDS = pa.timestamp("us", tz="UTC")

UNSIGNED = pa.decimal128(20, 0)


class Shape(Enum):
    """What one value of a field is, once lists and maps are taken apart."""

    SCALAR = "scalar"
    ENUM = "enum"
    TIMESTAMP = "timestamp"
    DURATION = "duration"
    WRAPPER = "wrapper"
    JSON = "json"
    EMPTY = "empty"
    STRUCT = "struct"
    DUMMY = "dummy"


class Many(Enum):
    """How many values a field holds."""

    ONE = "one"
    LIST = "list"
    MAP = "map"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """How a field's values are written.

    number   the field's number
    scalar   the Protobuf type (FieldDescriptor.TYPE_*) of a scalar, or of a wrapper's value; 0 for all others
    key      the Protobuf type of a map's keys; 0 for all other fields
    message  the full name of the message type, if it is one
    names    an enum's numbers and names
    """

    number: int
    scalar: int = 0
    key: int = 0
    message: str = ""
    is_group: bool = False
    names: tuple[tuple[int, str], ...] = ()

    @property
    def name(self) -> str:
        """The field's name in the plainer type of plain_type.py."""
        return f"f{self.number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Absence:
    """What stands for a value that a record does not have.

    has_presence  whether "absent" differs from zero; always false for lists and maps
    default       what proto2 says stands for an absent value, of no oneof; None in all other cases
    zero_is_null  whether a zero, which cannot be told from nothing, is taken for nothing
    oneof         names the group of fields of which all but one are absent; None for a field of no such group
    """

    has_presence: bool = False
    default: Any = None
    zero_is_null: bool = False
    oneof: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One field of a message and the column it becomes."""

    name: str
    shape: Shape
    many: Many = Many.ONE
    type: pa.DataType
    wire: Wire
    absent: Absence = Absence()
    children: tuple[Column, ...] = ()

    @property
    def field(self) -> pa.Field:
        """The column as Arrow knows it."""
        return pa.field(self.name, self.type, nullable=True)

    @property
    def value_type(self) -> pa.DataType:
        """The type of one value: of the element where the column is a list, of the map's values where it is one."""
        if self.many is Many.ONE:
            return self.type
        return self.type.value_type if self.many is Many.LIST else self.type.item_type


_SCALARS: dict[int, pa.DataType] = {
    FieldDescriptor.TYPE_DOUBLE: pa.float64(),
    FieldDescriptor.TYPE_FLOAT: pa.float32(),
    FieldDescriptor.TYPE_INT64: pa.int64(),
    FieldDescriptor.TYPE_SINT64: pa.int64(),
    FieldDescriptor.TYPE_SFIXED64: pa.int64(),
    FieldDescriptor.TYPE_INT32: pa.int32(),
    FieldDescriptor.TYPE_SINT32: pa.int32(),
    FieldDescriptor.TYPE_SFIXED32: pa.int32(),
    FieldDescriptor.TYPE_UINT32: pa.int64(),
    FieldDescriptor.TYPE_FIXED32: pa.int64(),
    FieldDescriptor.TYPE_UINT64: UNSIGNED,
    FieldDescriptor.TYPE_FIXED64: UNSIGNED,
    FieldDescriptor.TYPE_BOOL: pa.bool_(),
    FieldDescriptor.TYPE_STRING: pa.string(),
    FieldDescriptor.TYPE_BYTES: pa.binary(),
}

_MESSAGE_TYPES = (FieldDescriptor.TYPE_MESSAGE, FieldDescriptor.TYPE_GROUP)

WRAPPERS = frozenset(
    f"google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)

_AS_JSON = {f"google.protobuf.{name}" for name in ("Any", "Struct", "Value", "ListValue")}

_TIMES = {"google.protobuf.Timestamp": Shape.TIMESTAMP, "google.protobuf.Duration": Shape.DURATION}

_FIXED_TYPES = {
    Shape.ENUM: pa.string(),
    Shape.TIMESTAMP: MICROSECONDS,
    Shape.DURATION: pa.int64(),
    Shape.JSON: pa.string(),
    Shape.EMPTY: pa.bool_(),
    Shape.DUMMY: DUMMY,
}


def fields_of(message: Descriptor) -> list[FieldDescriptor]:
    """The fields of a message, and behind them the extensions of it that its schema declares."""
    extensions = message.file.pool.FindAllExtensions(message)
    return [*message.fields, *sorted(extensions, key=lambda field: field.number)]


def name_of(field: FieldDescriptor) -> str:
    """The column's name; an extension's is its full one, since the short one may be another field's one day."""
    return field.full_name if field.is_extension else field.name


def columns_of(message: Descriptor) -> tuple[Column, ...]:
    """The columns of a message, in the order of its fields. Raises BadSchema where they would be too many."""
    return ColumnMapping(message.full_name).columns(message, 1)


def schema_of(columns: tuple[Column, ...]) -> pa.Schema:
    """The Arrow schema of these columns."""
    return pa.schema([column.field for column in columns])


def is_recursive(message: Descriptor) -> bool:
    """Whether a message of this type can contain another one of its own type, at any depth."""
    seen: set[str] = set()
    waiting = [message]
    while waiting:
        for field in fields_of(waiting.pop()):
            inner = field.message_type
            if inner is None or inner.full_name in seen:
                continue
            if inner.full_name == message.full_name:
                return True
            seen.add(inner.full_name)
            waiting.append(inner)
    return False


class ColumnMapping:
    """Maps one message type, counting fields so that no schema can make it run for ever."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.fields = 0
        # By full name, and no longer than this mapping: a descriptor that outlives it holds all that was loaded with it.
        self._recursive: dict[str, bool] = {}

    def columns(self, message: Descriptor, depth: int) -> tuple[Column, ...]:
        """The columns of a message, which is so many levels deep. Raises BadSchema where they would be too many."""
        fields = fields_of(message)
        if message.GetOptions().message_set_wire_format:
            raise BadSchema(f"{message.full_name} is a MessageSet, which nothing but Google's own code reads")
        self.fields += len(fields)
        if self.fields > MAX_FIELDS or depth > MAX_DEPTH:
            raise BadSchema(
                f"{self.name} describes more than {MAX_FIELDS} fields or {MAX_DEPTH} levels, which no table can hold"
            )
        return tuple(column for field in fields if (column := self.column(field, depth)) is not None)

    def column(self, field: FieldDescriptor, depth: int) -> Column | None:
        """The column of a field; None where it has none."""
        value, key = value_of(field), key_of(field)
        shape = self.shape(value)
        children = (
            self.columns(message_of(value), depth + 1) if shape is Shape.STRUCT else self.parts(value, shape)
        )
        scalar = (
            self.scalar(value.type)
            if shape is Shape.SCALAR
            else children[0].wire.scalar
            if shape is Shape.WRAPPER
            else 0
        )
        column = Column(
            name=name_of(field),
            shape=shape,
            many=Many.MAP if key else Many.LIST if field.is_repeated else Many.ONE,
            type=pa.null(),
            wire=Wire(
                number=field.number,
                scalar=scalar,
                key=self.scalar(key) if key else 0,
                message=value.message_type.full_name if value.message_type else "",
                is_group=value.type == FieldDescriptor.TYPE_GROUP,
                names=_enum_names(value),
            ),
            absent=_absence(field),
            children=children,
        )
        return replace(column, type=many_type(column, self.value_type(column)))

    def shape(self, value: FieldDescriptor) -> Shape:
        """What one value of a field is."""
        if value.type == FieldDescriptor.TYPE_ENUM:
            return Shape.ENUM
        if value.type not in _MESSAGE_TYPES:
            return Shape.SCALAR
        message = message_of(value)
        if message.full_name in _TIMES:
            return _TIMES[message.full_name]
        if message.full_name in WRAPPERS:
            return Shape.WRAPPER
        if message.full_name in _AS_JSON or self.is_recursive(message):
            return Shape.JSON
        return Shape.STRUCT if fields_of(message) else Shape.EMPTY

    def is_recursive(self, message: Descriptor) -> bool:
        """Whether a message of this type can contain another one of its own type; each type is looked at once."""
        known = self._recursive.get(message.full_name)
        if known is None:
            known = self._recursive[message.full_name] = is_recursive(message)
        return known

    def scalar(self, kind: int) -> int:
        """The Protobuf type that a scalar, or a map's key, of this type is read as."""
        return kind

    def parts(self, value: FieldDescriptor, shape: Shape) -> tuple[Column, ...]:
        """The fields of those messages that become one plain value."""
        if shape in (Shape.TIMESTAMP, Shape.DURATION):
            return plain_column(1, FieldDescriptor.TYPE_INT64), plain_column(2, FieldDescriptor.TYPE_INT32)
        if shape is Shape.WRAPPER:
            return (plain_column(1, self.scalar(message_of(value).fields_by_name["value"].type)),)
        return ()

    def value_type(self, column: Column) -> pa.DataType:
        """The type of one value of a column whose own type is not known yet."""
        if column.shape is Shape.STRUCT:
            return pa.struct([child.field for child in column.children])
        return _SCALARS[column.wire.scalar] if column.wire.scalar else _FIXED_TYPES[column.shape]


def value_of(field: FieldDescriptor) -> FieldDescriptor:
    """The field that says what one value is: the field itself, or the value of a map's entries."""
    return message_of(field).fields_by_name["value"] if _is_map(field) else field


def key_of(field: FieldDescriptor) -> int:
    """The Protobuf type of a map's keys; 0 for all other fields."""
    return int(message_of(field).fields_by_name["key"].type) if _is_map(field) else 0


def message_of(field: FieldDescriptor) -> Descriptor:
    """The type of a field that is known to hold messages."""
    message = field.message_type
    if message is None:
        raise TypeError(f"field {field.full_name} holds no message")
    return message


def _is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def many_type(column: Column, one: pa.DataType) -> pa.DataType:
    """The type of the column, by that of one value."""
    if column.many is Many.LIST:
        return pa.list_(pa.field("element", one, nullable=True))
    return pa.map_(_SCALARS[column.wire.key], one) if column.many is Many.MAP else one


def default_of(field: FieldDescriptor) -> Any:
    """What the schema says stands for an absent value, in a oneof too; None where it says nothing."""
    return field.default_value if field.has_default_value else None


def _absence(field: FieldDescriptor) -> Absence:
    oneof = field.containing_oneof
    return Absence(
        has_presence=field.has_presence,
        # Of a oneof whatever else was sent says that this was not: nothing is in a row that nobody sent.
        default=default_of(field) if oneof is None else None,
        oneof=oneof.name if oneof is not None and len(oneof.fields) > 1 else None,
    )


def _enum_names(value: FieldDescriptor) -> tuple[tuple[int, str], ...]:
    if value.enum_type is None:
        return ()
    # Of several names for one number the first counts.
    return tuple({number.number: number.name for number in reversed(value.enum_type.values)}.items())


def plain_column(number: int, scalar: int) -> Column:
    """A scalar without presence, as the parts of Timestamp, Duration and the wrappers are."""
    wire = Wire(number=number, scalar=scalar)
    return Column(name=wire.name, shape=Shape.SCALAR, type=_SCALARS[scalar], wire=wire)
