"""A schema's message types once more, with enums as plain numbers: closed ones then keep the numbers that they lack, in their places."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

from google.protobuf.descriptor import Descriptor, FieldDescriptor, FileDescriptor
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from distributary.codecs.protobuf.columns import fields_of


class OpenEnums:
    """The types of a pool under their own names, their enums int32 on the wire; `names` tells which of those were enums."""

    def __init__(self, pool: DescriptorPool) -> None:
        self._pool = pool
        self._open = DescriptorPool(_Files(pool))
        self._classes: dict[str, type[Message]] = {}
        self._names: dict[str, Mapping[int, str | None]] = {}

    def message_class(self, message: Descriptor) -> type[Message]:
        """What parses messages of this type, with all extensions that the pool has."""
        name = message.full_name
        if name not in self._classes:
            for file in _files_of_extensions(message):
                self._open.FindFileByName(file)
            self._classes[name] = GetMessageClass(self._open.FindMessageTypeByName(name))
        return self._classes[name]

    def names(self, field: FieldDescriptor) -> Mapping[int, str | None]:
        """The names that a field's numbers have in JSON, None for its null; none if it is no enum."""
        name = field.full_name
        if name not in self._names:
            find = self._pool.FindExtensionByName if field.is_extension else self._pool.FindFieldByName
            enum = find(name).enum_type
            # Of several names for one number the first counts.
            values = reversed(enum.values) if enum is not None else ()
            is_null = enum is not None and enum.full_name == "google.protobuf.NullValue"
            self._names[name] = {value.number: None if is_null else value.name for value in values}
        return self._names[name]


class _Files:
    """Gives a pool the files of another one as it asks for them."""

    def __init__(self, pool: DescriptorPool) -> None:
        self._pool = pool

    def FindFileByName(self, name: str) -> FileDescriptorProto:
        return _opened(self._pool.FindFileByName(name))

    def FindFileContainingSymbol(self, symbol: str) -> FileDescriptorProto:
        return _opened(self._pool.FindFileContainingSymbol(symbol))


def _opened(file: FileDescriptor) -> FileDescriptorProto:
    proto = FileDescriptorProto.FromString(file.serialized_pb)
    for field in (*proto.extension, *_fields(proto.message_type)):
        if field.type == field.TYPE_ENUM:
            field.type = field.TYPE_INT32
            field.ClearField("type_name")
            # It is a name; and nobody asks for what was not sent.
            field.ClearField("default_value")
    return proto


def _fields(messages: Iterable[DescriptorProto]) -> Iterator[FieldDescriptorProto]:
    for message in messages:
        yield from message.field
        yield from message.extension
        yield from _fields(message.nested_type)


def _files_of_extensions(message: Descriptor) -> set[str]:
    """The files that extend a type, or one that it contains at any depth: nothing else would lead to them."""
    seen = {message.full_name}
    waiting, files = [message], set()
    while waiting:
        for field in fields_of(waiting.pop()):
            if field.is_extension:
                files.add(cast("Any", field).file.name)
            inner = field.message_type
            if inner is not None and inner.full_name not in seen:
                seen.add(inner.full_name)
                waiting.append(inner)
    return files
