"""What a Protobuf schema says of its messages, in words that all formats share."""

from __future__ import annotations

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pb2 import DescriptorProto

from distributary.codecs.changes.description import FieldDescription, RecordDescription, TypeDescription
from distributary.codecs.protobuf.columns import Column, Many, Shape, fields_of, name_of


def described(message: Descriptor, columns: tuple[Column, ...]) -> RecordDescription:
    """A message and the columns of its fields."""
    proto = _proto(message)
    return RecordDescription(
        "PROTOBUF",
        message.full_name,
        _fields(message, columns),
        reserved_numbers=_reserved_numbers(proto),
        reserved_names=tuple(proto.reserved_name),
    )


def _fields(message: Descriptor, columns: tuple[Column, ...]) -> tuple[FieldDescription, ...]:
    # What proto3 calls `optional` is a oneof of one field to the compiler.
    alone = {field.number for field in _proto(message).field if field.proto3_optional}
    each = zip(fields_of(message), columns, strict=True)
    return tuple(_field(field, column, field.number in alone) for field, column in each)


def _field(field: FieldDescriptor, column: Column, alone: bool) -> FieldDescription:
    oneof = None if alone else field.containing_oneof
    return FieldDescription(
        name_of(field),
        _type(field, column),
        number=field.number,
        required=field.is_required,
        oneof=oneof.name if oneof is not None else None,
    )


def _type(field: FieldDescriptor, column: Column) -> TypeDescription:
    if column.many is Many.LIST:
        return TypeDescription(column.type, element=_one(field, column))
    if column.many is Many.MAP and field.message_type is not None:
        return TypeDescription(column.type, value=_one(field.message_type.fields_by_name["value"], column))
    return _one(field, column)


def _one(value: FieldDescriptor, column: Column) -> TypeDescription:
    """One value of a field, of its elements or of its map's values."""
    if column.shape is Shape.STRUCT and value.message_type is not None:
        proto = _proto(value.message_type)
        return TypeDescription(
            column.value_type,
            fields=_fields(value.message_type, column.children),
            reserved_numbers=_reserved_numbers(proto),
            reserved_names=tuple(proto.reserved_name),
        )
    return TypeDescription(column.value_type, symbols=_symbols(value))


def _symbols(value: FieldDescriptor) -> tuple[str, ...]:
    """An enum's names; of several for one number the first, by which the column has it."""
    names: dict[int, str] = {}
    for symbol in value.enum_type.values if value.enum_type is not None else ():
        names.setdefault(symbol.number, symbol.name)
    return tuple(names.values())


def _proto(message: Descriptor) -> DescriptorProto:
    proto = DescriptorProto()
    message.CopyToProto(proto)
    return proto


def _reserved_numbers(proto: DescriptorProto) -> tuple[tuple[int, int], ...]:
    # protoc's ranges end behind their last number.
    return tuple((one.start, one.end - 1) for one in proto.reserved_range)
