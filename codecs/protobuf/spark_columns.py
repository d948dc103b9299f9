"""Which columns a Protobuf message becomes where Spark's `from_protobuf` is stood in for, and the options that say so.

By the rules of SchemaConverters and ProtobufDeserializer of spark-protobuf 4.1. What differs: a message that contains itself is JSON
text where no depth is given (Spark refuses it), and declared extensions are columns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

import pyarrow as pa
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from distributary.codecs.option_values import depth, flag
from distributary.codecs.protobuf.columns import (
    DUMMY,
    WRAPPERS,
    Absence,
    Column,
    ColumnMapping,
    Many,
    Shape,
    Wire,
    default_of,
    many_type,
    message_of,
    value_of,
)
from distributary.errors import ConfigError

# Read as their signed twins, large numbers turn negative, as they do in Java.
_SIGNED = {
    FieldDescriptor.TYPE_UINT32: FieldDescriptor.TYPE_INT32,
    FieldDescriptor.TYPE_UINT64: FieldDescriptor.TYPE_INT64,
    FieldDescriptor.TYPE_FIXED32: FieldDescriptor.TYPE_SFIXED32,
    FieldDescriptor.TYPE_FIXED64: FieldDescriptor.TYPE_SFIXED64,
}

# upcast.unsigned.ints means these alone, in Spark.
_UPCAST = (FieldDescriptor.TYPE_UINT32, FieldDescriptor.TYPE_UINT64)

_BITS = {FieldDescriptor.TYPE_INT32: 32, FieldDescriptor.TYPE_SFIXED32: 32}

# The last of the numbers that fields can have.
_LAST = 536_870_911

_TIMES = {"Timestamp": Shape.TIMESTAMP, "Duration": Shape.DURATION}

_TIME_PARTS = [
    ("seconds", 1, FieldDescriptor.TYPE_INT64),
    ("nanos", 2, FieldDescriptor.TYPE_INT32),
]


def spark_columns(message: Descriptor, options: ProtobufOptions) -> tuple[Column, ...]:
    """The columns of a message, in the order of its fields. Raises BadSchema where they would be too many."""
    columns = _SparkMapping(message.full_name, options).columns(message, 1)
    return columns if columns or not options.retain_empty_message_types else (_dummy(message),)


class _SparkMapping(ColumnMapping):
    def __init__(self, name: str, options: ProtobufOptions) -> None:
        super().__init__(name)
        self.options = options
        # How many messages of each type are around the one that is being mapped, itself included.
        self.around: Counter[str] = Counter()

    def columns(self, message: Descriptor, depth: int) -> tuple[Column, ...]:
        self.around[message.full_name] += 1
        columns = super().columns(message, depth)
        self.around[message.full_name] -= 1
        return columns

    def column(self, field: FieldDescriptor, depth: int) -> Column | None:
        if self._is_cut(value_of(field)):
            return None
        column = super().column(field, depth)
        if column is None or (column.shape is Shape.STRUCT and not column.children):
            return None if column is None else self._without_fields(column)
        absent = column.absent
        unseen = column.many is Many.ONE and not absent.has_presence and not self.options.emit_default_values
        absent = replace(
            absent,
            zero_is_null=unseen and column.shape in (Shape.SCALAR, Shape.ENUM),
            # Of a oneof's members, too: Spark fills in those that were not sent.
            default=_signed(column.wire.scalar, default_of(field)),
        )
        return replace(column, absent=absent)

    def shape(self, value: FieldDescriptor) -> Shape:
        if value.type == FieldDescriptor.TYPE_ENUM:
            return Shape.SCALAR if self.options.enums_as_ints else Shape.ENUM
        if value.message_type is None:
            return Shape.SCALAR
        return self._message_shape(value.message_type)

    def scalar(self, kind: int) -> int:
        if kind == FieldDescriptor.TYPE_ENUM:
            return FieldDescriptor.TYPE_INT32
        return kind if self.options.upcast_unsigned_ints and kind in _UPCAST else _SIGNED.get(kind, kind)

    def parts(self, value: FieldDescriptor, shape: Shape) -> tuple[Column, ...]:
        parts = super().parts(value, shape)
        if shape is not Shape.WRAPPER:
            return parts
        absent = Absence(zero_is_null=not self.options.emit_default_values)
        return tuple(replace(part, absent=absent) for part in parts)

    def value_type(self, column: Column) -> pa.DataType:
        return pa.duration("us") if column.shape is Shape.DURATION else super().value_type(column)

    def _message_shape(self, message: Descriptor) -> Shape:
        if _is_time(message):
            return _TIMES[message.name]
        if message.full_name in WRAPPERS and self.options.unwrap_primitive_wrapper_types:
            return Shape.WRAPPER
        if message.full_name == "google.protobuf.Any" and self.options.convert_any_fields_to_json:
            return Shape.JSON
        never = not self.options.recursive_fields_max_depth
        return Shape.JSON if never and self.is_recursive(message) else Shape.STRUCT

    def _is_cut(self, value: FieldDescriptor) -> bool:
        """Whether the field is left out, since it would be the message within itself once too often."""
        most = self.options.recursive_fields_max_depth
        return bool(most and value.message_type and self.around[message_of(value).full_name] >= most)

    def _without_fields(self, column: Column) -> Column | None:
        if not self.options.retain_empty_message_types:
            return None
        kept = replace(column, shape=Shape.DUMMY)
        return replace(kept, type=many_type(kept, self.value_type(kept)))


def _dummy(message: Descriptor) -> Column:
    """The field of a whole record without fields: always null, since no record has one of this number."""
    number = next(number for number in range(_LAST, 0, -1) if number not in message.fields_by_number)
    name, kind = DUMMY.field(0).name, DUMMY.field(0).type
    wire = Wire(number=number, scalar=int(FieldDescriptor.TYPE_STRING))
    return Column(name=name, shape=Shape.SCALAR, type=kind, wire=wire, absent=Absence(has_presence=True))


def _is_time(message: Descriptor) -> bool:
    """Spark goes by the names, so that a copy of the type in a package of one's own counts too."""
    parts = [(field.name, field.number, field.type) for field in message.fields]
    return message.name in _TIMES and parts == _TIME_PARTS


def _signed(scalar: int, default: object) -> object:
    """What proto2 says stands for an absent value, as a number of the type that it is read as."""
    if scalar not in _SIGNED.values() or not isinstance(default, int):
        return default
    half = 1 << (_BITS.get(scalar, 64) - 1)
    return (default + half) % (2 * half) - half


DEPTH = "recursive.fields.max.depth"

# Spark lets none be deeper.
MAX_DEPTH = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtobufOptions:
    """What a call of `from_protobuf` asks for; each is the option of that name, with dots.

    emit_default_values             whether a zero that cannot be told from nothing is zero, instead of null
    enums_as_ints                   whether enums are their numbers, instead of their names
    upcast_unsigned_ints            whether uint32 and uint64 have types that hold all of them, instead of turning negative
    unwrap_primitive_wrapper_types  whether Int32Value and the like are the value in them, instead of a struct around it
    retain_empty_message_types      whether messages without fields are structs of a dummy field, instead of no column
    convert_any_fields_to_json      whether an Any is JSON text, instead of a struct of its type's name and its bytes
    recursive_fields_max_depth      how often a message is columns within itself, itself included: 1 to 10; 0 for JSON text
    """

    emit_default_values: bool = False
    enums_as_ints: bool = False
    upcast_unsigned_ints: bool = False
    unwrap_primitive_wrapper_types: bool = False
    retain_empty_message_types: bool = False
    convert_any_fields_to_json: bool = False
    recursive_fields_max_depth: int = 0


_NAMES = {field.name.replace("_", "."): field.name for field in fields(ProtobufOptions)}


def protobuf_options(options: Mapping[str, str]) -> ProtobufOptions:
    """The options as a call has them. Raises ConfigError, naming the option, for an unknown one and for a wrong value."""
    values: dict[str, bool | int] = {}
    for name, value in options.items():
        known = _NAMES.get(name.lower())
        if known is None:
            raise ConfigError(
                f"from_protobuf has no option {name!r} together with a registry; of those that say what values become there are: "
                f"{', '.join(_NAMES)}; docs/how-to/move-a-databricks-notebook.md lists the others"
            )
        values[known] = depth(DEPTH, value, MAX_DEPTH) if name.lower() == DEPTH else flag(name, value)
    return ProtobufOptions(**values)  # type: ignore[arg-type]
