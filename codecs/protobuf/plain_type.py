"""A plainer Protobuf type with the same bytes: what both decoders read, so that they cannot disagree about types.

Timestamps, durations and wrappers become ordinary messages (their parts merge as Protobuf asks, and nothing is
clamped), enums become int32 (open in proto2 too), what ends as JSON text stays bytes, and fields are called by
their number.
"""

from __future__ import annotations

from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.descriptor import Descriptor

from distributary.codecs.protobuf.columns import Column, Many, Shape

_PACKAGE = "distributary.wire"

_Field = descriptor_pb2.FieldDescriptorProto


def has_groups(columns: tuple[Column, ...]) -> bool:
    """Whether a field, at any depth, is a proto2 group (or has the editions' delimited encoding)."""
    return any(column.wire.is_group or has_groups(column.children) for column in columns)


def wire_message(columns: tuple[Column, ...], *, exact: bool) -> Descriptor:
    """The type to read records of these columns with.

    What becomes JSON text is `repeated bytes` (every part of a message that came in parts, in order) outside of
    its oneof. With `exact` it is a message without fields, which keeps its bytes as unknown fields: right in a
    oneof and for groups too, but for Google's own parser only.
    """
    pool = descriptor_pool.DescriptorPool()
    pool.Add(_File(columns, exact).file)
    return pool.FindMessageTypeByName(f"{_PACKAGE}.Record")


class _File:
    """Builds the file; a type that is used in several places is written once."""

    def __init__(self, columns: tuple[Column, ...], exact: bool) -> None:
        syntax = "proto2" if has_groups(columns) else "proto3"
        self.file = descriptor_pb2.FileDescriptorProto(
            name="distributary/wire.proto", package=_PACKAGE, syntax=syntax
        )
        self.exact = exact
        self.types: dict[tuple[str, tuple[Column, ...]], str] = {}
        self.message("Record", columns)

    def message(self, name: str, columns: tuple[Column, ...]) -> None:
        proto = descriptor_pb2.DescriptorProto(name=name)
        oneofs: dict[str, int] = {}
        for column in columns:
            field = self.field(proto, column)
            if column.absent.oneof is not None and field.label == _Field.LABEL_OPTIONAL:
                field.oneof_index = oneofs.setdefault(column.absent.oneof, len(oneofs))
            elif column.absent.has_presence and column.shape in (Shape.SCALAR, Shape.ENUM):
                field.proto3_optional = self.file.syntax == "proto3"
        for number in range(len(oneofs)):
            proto.oneof_decl.add(name=f"oneof{number}")
        _add_synthetic_oneofs(proto)
        self.file.message_type.append(proto)

    def field(
        self, parent: descriptor_pb2.DescriptorProto, column: Column
    ) -> descriptor_pb2.FieldDescriptorProto:
        field = parent.field.add(name=column.wire.name, number=column.wire.number, label=self.label(column))
        if column.many is not Many.MAP:
            self.set_type(field, column)
            return field
        entry = parent.nested_type.add(name=f"F{column.wire.number}Entry")
        entry.options.map_entry = True
        entry.field.add(name="key", number=1, label=_Field.LABEL_OPTIONAL).type = column.wire.key  # type: ignore[assignment]
        self.set_type(entry.field.add(name="value", number=2, label=_Field.LABEL_OPTIONAL), column)
        field.type = _Field.TYPE_MESSAGE
        field.type_name = f".{_PACKAGE}.{parent.name}.{entry.name}"
        return field

    def label(self, column: Column) -> _Field.Label.ValueType:
        in_parts = column.shape is Shape.JSON and not self.exact
        return _Field.LABEL_OPTIONAL if column.many is Many.ONE and not in_parts else _Field.LABEL_REPEATED

    def set_type(self, field: descriptor_pb2.FieldDescriptorProto, column: Column) -> None:
        if column.shape is Shape.SCALAR:
            field.type = column.wire.scalar  # type: ignore[assignment]
        elif column.shape is Shape.ENUM:
            field.type = _Field.TYPE_INT32
        elif column.shape is Shape.JSON and not self.exact:
            field.type = _Field.TYPE_BYTES
        else:
            field.type = _Field.TYPE_GROUP if column.wire.is_group else _Field.TYPE_MESSAGE
            field.type_name = f".{_PACKAGE}.{self.type_name(column)}"

    def type_name(self, column: Column) -> str:
        # A message within itself may have fewer columns the deeper it is.
        kind = column.wire.message, column.children
        if kind not in self.types:
            self.types[kind] = f"Type{len(self.types)}"
            self.message(self.types[kind], column.children)
        return self.types[kind]


def _add_synthetic_oneofs(proto: descriptor_pb2.DescriptorProto) -> None:
    """Each proto3 `optional` field has a oneof of its own, behind the real ones."""
    for field in proto.field:
        if field.proto3_optional:
            field.oneof_index = len(proto.oneof_decl)
            proto.oneof_decl.add(name=f"_{field.name}")
