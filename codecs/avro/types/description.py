"""What an Avro schema says of its records, in words that all formats share."""

from __future__ import annotations

from distributary.codecs.avro.types.columns import Column, Shape
from distributary.codecs.avro.types.schema import AvroType, Extras, Kind
from distributary.codecs.changes.description import FieldDescription, RecordDescription, TypeDescription


def described(top: AvroType, columns: Column) -> RecordDescription:
    """The record type that a whole schema is; of one that is no record, the record that its only column makes."""
    return RecordDescription("AVRO", top.name or top.kind.value, _fields(columns), aliases=top.aliases)


def _type(column: Column) -> TypeDescription:
    if column.shape is Shape.OPTIONAL:
        one = next((branch for branch in column.children if not branch.is_null), None)
        return TypeDescription(column.type) if one is None else _type(one)
    if column.shape is Shape.LIST:
        return TypeDescription(column.type, element=_type(column.children[0]))
    if column.shape is Shape.MAP:
        return TypeDescription(column.type, value=_type(column.children[0]))
    if column.shape is Shape.ENUM:
        return TypeDescription(column.type, symbols=column.avro.names)
    return TypeDescription(column.type, fields=_fields(column))


def _fields(column: Column) -> tuple[FieldDescription, ...]:
    """The fields of a struct; only a record's own say more than name and type."""
    extras = dict(zip(column.avro.names, column.avro.extras, strict=False))
    if column.shape not in (Shape.STRUCT, Shape.MEMBERS):
        return ()
    named = zip(column.names, column.children, strict=True)
    return tuple(_field(name, child, extras.get(name)) for name, child in named if name)


def _field(name: str, column: Column, extras: Extras | None) -> FieldDescription:
    if extras is None:
        return FieldDescription(name, _type(column))
    required = not extras.has_default and not _may_be_null(column.avro)
    return FieldDescription(name, _type(column), aliases=extras.aliases, required=required)


def _may_be_null(avro: AvroType) -> bool:
    return avro.kind is Kind.UNION and any(branch.kind is Kind.NULL for branch in avro.parts)
