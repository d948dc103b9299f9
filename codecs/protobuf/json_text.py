"""Protobuf messages as JSON text: what becomes of Any, Struct and messages that can contain themselves.

Protobuf's own JSON mapping (https://protobuf.dev/programming-guides/json/), with the fields' own names, and
some additions, so that nothing is lost: an Any of an unknown type keeps its bytes, numbers that JSON lacks (NaN,
Infinity) are text inside of Struct too, and what the mapping has no text for has one: times whose nanoseconds are not
between 0 and a second, FieldMasks whose camel case would not lead back to them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message

from distributary.codecs.protobuf.columns import WRAPPERS
from distributary.codecs.protobuf.open_enums import OpenEnums
from distributary.codecs.protobuf.text import duration_text, sorted_keys, timestamp_text, valid
from distributary.codecs.types.json_value import compact, encoded, number

# How deeply Any may be nested in Any; each holds a message that is parsed on its own.
MAX_ANYS = 100

_PLAIN = {*WRAPPERS, "google.protobuf.Empty"}

_DYNAMIC = {f"google.protobuf.{name}" for name in ("Struct", "Value", "ListValue")}

_AS_TEXT = (FieldDescriptor.CPPTYPE_INT64, FieldDescriptor.CPPTYPE_UINT64)


class JsonWriter:
    """Writes messages of one type as JSON text; an Any is looked up among the schema's own types.

    With `enum_numbers` enums are their numbers, otherwise their names, or the number where there is no name for it.
    """

    def __init__(self, message: Descriptor, pool: DescriptorPool, *, enum_numbers: bool = False) -> None:
        self._pool = pool
        self._types = OpenEnums(pool)
        self._class = self._types.message_class(message)
        self._enum_numbers = enum_numbers

    def text(self, payload: bytes) -> str:
        """The JSON text of a serialized message. Raises DecodeError, UnicodeError or OutOfRange."""
        return compact(self._value(self._class.FromString(payload), MAX_ANYS))

    def _value(self, message: Message, anys: int) -> Any:
        name = message.DESCRIPTOR.full_name
        if name == "google.protobuf.Any":
            return self._any(message, anys)
        if name in _DYNAMIC:
            return _dynamic(message)
        if name in _PLAIN:
            return json_format.MessageToDict(message)
        if name in _WRITERS:
            return _WRITERS[name](message)
        return {_name(field): self._field(field, value, anys) for field, value in message.ListFields()}

    def _field(self, field: FieldDescriptor, value: Any, anys: int) -> Any:
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            item = field.message_type.fields_by_name["value"]
            # Sorted, because a map comes in no particular order and equal records should give equal text.
            return {_key(key): self._one(item, value[key], anys) for key in sorted_keys(value)}
        if field.is_repeated:
            return [self._one(field, one, anys) for one in value]
        return self._one(field, value, anys)

    def _one(self, field: FieldDescriptor, value: Any, anys: int) -> Any:
        if field.message_type is not None:
            return self._value(value, anys)
        if field.type == FieldDescriptor.TYPE_INT32:
            names = self._types.names(field)
            # JSON's null has no other form.
            return value if self._enum_numbers and names.get(value) is not None else names.get(value, value)
        if field.cpp_type in _AS_TEXT:
            return str(value)
        if field.type == FieldDescriptor.TYPE_BYTES:
            return encoded(value)
        if field.type == FieldDescriptor.TYPE_STRING:
            return valid(value)
        return _number(field, value) if isinstance(value, float) else value

    def _any(self, message: Message, anys: int) -> Any:
        packed: Any = message
        if not anys:
            raise RecursionError("Any is nested too deeply")
        try:
            inner = self._pool.FindMessageTypeByName(packed.type_url.rpartition("/")[2])
        except KeyError:
            return {"@type": packed.type_url, "value": encoded(packed.value)}
        value = self._value(self._types.message_class(inner).FromString(packed.value), anys - 1)
        if inner.full_name in _OF_THEIR_OWN:
            return {"@type": packed.type_url, "value": value}
        return {"@type": packed.type_url, **value}


def _number(field: FieldDescriptor, value: float) -> float | str:
    if field.type == FieldDescriptor.TYPE_FLOAT:
        # By the digits that tell it from other floats, as Protobuf writes it; a double has more.
        return number(float(str(np.float32(value))))
    return number(value)


def _dynamic(message: Any) -> Any:
    """The JSON that a Struct, ListValue or Value holds."""
    name = message.DESCRIPTOR.name
    if name == "Struct":
        return {key: _dynamic(message.fields[key]) for key in sorted(message.fields)}
    if name == "ListValue":
        return [_dynamic(value) for value in message.values]
    kind = message.WhichOneof("kind")
    if kind in ("struct_value", "list_value"):
        return _dynamic(getattr(message, kind))
    if kind == "number_value":
        return number(message.number_value)
    return None if kind in (None, "null_value") else getattr(message, kind)


def _mask(message: Any) -> str | list[str]:
    """A FieldMask's paths in camel case, if they can be read back from it; otherwise as they are, one by one."""
    paths, again = list(message.paths), type(message)()
    try:
        text: str = message.ToJsonString()
        again.FromJsonString(text)
    except ValueError:
        return paths
    return text if paths == list(again.paths) else paths


_WRITERS: Mapping[str, Callable[[Any], Any]] = {
    "google.protobuf.Timestamp": lambda message: timestamp_text(message.seconds, message.nanos),
    "google.protobuf.Duration": lambda message: duration_text(message.seconds, message.nanos),
    "google.protobuf.FieldMask": _mask,
}

# What an Any holds under the name "value", since it need not be an object.
_OF_THEIR_OWN = {*_PLAIN, *_DYNAMIC, *_WRITERS, "google.protobuf.Any"}


def _name(field: FieldDescriptor) -> str:
    return f"[{field.full_name}]" if field.is_extension else field.name


def _key(key: Any) -> str:
    return str(key).lower() if isinstance(key, bool) else str(key)
