"""What the bytes of a message mean, of all types in it: columns do not tell numbers, nor what is within JSON text."""

from __future__ import annotations

from typing import TypeAlias

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from distributary.codecs.protobuf.columns import fields_of, name_of

WireForm: TypeAlias = dict[str, frozenset[tuple[object, ...]]]
"""By the full name of each type its fields, in no order: that in which they are declared says nothing of bytes."""


def wire_form(message: Descriptor) -> WireForm:
    """What decides about a record's values, of this type and of every one that it leads to."""
    found: WireForm = {}
    waiting = [message]
    while waiting:
        of = waiting.pop()
        if of.full_name in found:
            continue
        fields = fields_of(of)
        found[of.full_name] = frozenset(_field(field) for field in fields)
        waiting += [field.message_type for field in fields if field.message_type is not None]
    return found


def _field(field: FieldDescriptor) -> tuple[object, ...]:
    inner, oneof = field.message_type, field.containing_oneof
    return (
        field.number,
        name_of(field),
        field.type,
        field.is_repeated,
        field.has_presence,
        # As text, since one that is not a number is not even equal to itself.
        repr(field.default_value) if field.has_default_value else "",
        oneof.name if oneof is not None and len(oneof.fields) > 1 else None,
        None if inner is None else (inner.full_name, inner.GetOptions().map_entry),
        _symbols(field),
    )


def _symbols(field: FieldDescriptor) -> frozenset[tuple[int, str]]:
    """An enum's numbers and names; of several names for one number the first counts."""
    values = () if field.enum_type is None else field.enum_type.values
    return frozenset({value.number: value.name for value in reversed(values)}.items())
