"""What the bytes of a message mean, of all types in it: columns do not tell numbers, nor what is within JSON text.

An Any may hold each type that its schema or an import of that has, and is read by it: where there is one all of them count.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

from google.protobuf.descriptor import Descriptor, FieldDescriptor, FileDescriptor

from distributary.codecs.protobuf.columns import fields_of, name_of

WireForm: TypeAlias = dict[str, frozenset[tuple[object, ...]]]
"""By the full name of each type its fields, in no order: that in which they are declared says nothing of bytes."""


_ANY = "google.protobuf.Any"


def wire_form(message: Descriptor, file: FileDescriptor) -> WireForm:
    """What decides about a record's values, of this type and of every one that it leads to; `file` is the schema's own."""
    found: WireForm = {}
    waiting = [message]
    while waiting:
        of = waiting.pop()
        if of.full_name in found:
            continue
        fields = fields_of(of)
        found[of.full_name] = frozenset(_field(field) for field in fields)
        waiting += [field.message_type for field in fields if field.message_type is not None]
        if of.full_name == _ANY:
            waiting += _types_in(file)
    return found


def _types_in(file: FileDescriptor) -> Iterator[Descriptor]:
    """The message types of a file and of all that it imports, those within others too."""
    files, seen = [file], {file.name}
    while files:
        one = files.pop()
        yield from _with_nested(one.message_types_by_name.values())
        new = [needed for needed in one.dependencies if needed.name not in seen]
        seen |= {needed.name for needed in new}
        files += new


def _with_nested(messages: Iterable[Descriptor]) -> Iterator[Descriptor]:
    for message in messages:
        yield message
        yield from _with_nested(message.nested_types)


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
