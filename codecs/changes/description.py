"""What a schema says of its records, in words that all formats share: the ground on which two versions are compared.

The columns alone do not tell a renamed field from a dropped and an added one, an enum from a text, or what is required.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.types as kinds

from distributary.codecs.types.fit import is_list


@dataclass(frozen=True, slots=True)
class TypeDescription:
    """The type of a field, an element or a map's value.

    column   the Arrow type of its column, as the format's reader gives it, nested fields and all
    fields   of a record that becomes a struct, else empty
    element  of a list
    value    of a map
    symbols  of an enum, in the order of the schema
    reserved_numbers, reserved_names   as in RecordDescription, of a record that becomes a struct
    """

    column: pa.DataType
    fields: tuple[FieldDescription, ...] = ()
    element: TypeDescription | None = None
    value: TypeDescription | None = None
    symbols: tuple[str, ...] = ()
    reserved_numbers: tuple[tuple[int, int], ...] = ()
    reserved_names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FieldDescription:
    """One field of a record.

    name      as in the payload
    number    Protobuf's, by which a renamed field is recognised
    aliases   Avro's: what the field was called before
    required  whether every record must have it: Avro without null and default, proto2's `required`, JSON Schema's `required`
    oneof     the Protobuf oneof that it is an arm of
    """

    name: str
    type: TypeDescription
    number: int | None = None
    aliases: tuple[str, ...] = ()
    required: bool = False
    oneof: str | None = None


@dataclass(frozen=True, slots=True)
class RecordDescription:
    """A record type: its format (AVRO, PROTOBUF, JSON, or what an inferred schema is kept as), full name and fields.

    aliases           Avro's: what the record was called before
    reserved_numbers  Protobuf's numbers of fields that are gone, as (first, last), both included
    reserved_names    their names
    """

    format: str
    name: str
    fields: tuple[FieldDescription, ...]
    aliases: tuple[str, ...] = ()
    reserved_numbers: tuple[tuple[int, int], ...] = ()
    reserved_names: tuple[str, ...] = ()


def described_columns(columns: pa.Schema | pa.StructType) -> tuple[FieldDescription, ...]:
    """What columns alone tell of a record's fields: nothing is required, nothing an enum."""
    return tuple(FieldDescription(column.name, described_column(column.type)) for column in columns)


def described_column(column: pa.DataType) -> TypeDescription:
    """What a column's type alone tells."""
    if kinds.is_struct(column):
        return TypeDescription(column, fields=described_columns(column))
    if is_list(column):
        return TypeDescription(column, element=described_column(column.value_type))
    if kinds.is_map(column):
        return TypeDescription(column, value=described_column(column.item_type))
    return TypeDescription(column)
