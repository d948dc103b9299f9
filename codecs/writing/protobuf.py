"""Rows as Protobuf: the schema that a column's type makes, and values as bytes. The inverse of reading them.

docs/reference/protobuf.md has which type becomes which column; here it is read backwards.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampType,
)

from distributary.codecs.writing.values import (
    Misfit,
    below,
    fields_of,
    float_of,
    micros_of,
    require_known,
    truth_of,
    whole_of,
)
from distributary.errors import BadSchema
from distributary.registry.base import Schema
from distributary.registry.protobuf.text import compile_text

# https://protobuf.dev/reference/protobuf/proto3-spec/#identifiers
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

_TIME = "google.protobuf.Timestamp"

# https://protobuf.dev/programming-guides/proto3/#assigning: Protobuf keeps these for itself.
_KEPT = range(19_000, 20_000)

_PLAIN: dict[type[DataType], str] = {
    BooleanType: "bool",
    ByteType: "int32",
    ShortType: "int32",
    IntegerType: "int32",
    LongType: "int64",
    FloatType: "float",
    DoubleType: "double",
    StringType: "string",
    BinaryType: "bytes",
    TimestampType: _TIME,
}

_KEYS = {"bool", "int32", "int64", "string"}

_WRAPPERS = {f"google.protobuf.{kind}Value" for kind in ("Bool", "Int32", "Int64", "UInt32", "UInt64")} | {
    f"google.protobuf.{kind}Value" for kind in ("Float", "Double", "String", "Bytes")
}


@dataclass(frozen=True, slots=True)
class Numbers:
    """The numbers that fields have had so far, by the names of the messages that they are in, so that none ever gets another's."""

    known: dict[tuple[str, ...], dict[str, int]] = field(default_factory=dict)

    @classmethod
    def of(cls, versions: Iterable[Schema]) -> Numbers:
        """Those of a subject's versions; what cannot be compiled has none."""
        found = cls()
        for schema in versions:
            try:
                files = FileDescriptorSet.FromString(compile_text(schema.text, schema.imports))
            except BadSchema:
                continue
            found._add((), files.file[-1].message_type)
        return found

    def _add(self, above: tuple[str, ...], messages: Iterable[DescriptorProto]) -> None:
        for message in messages:
            place = (*above, message.name)
            self.known.setdefault(place, {}).update({one.name: one.number for one in message.field})
            self._add(place, message.nested_type)

    def given(self, place: tuple[str, ...], names: Iterable[str]) -> Iterator[tuple[str, int]]:
        """Each name with its number: the one that it has had, or the next that none has had."""
        had = self.known.get(place, {})
        newest = max(had.values(), default=0)
        for name in names:
            if name not in had:
                newest += 1
                newest = _KEPT.stop if newest in _KEPT else newest
            yield name, had.get(name, newest)


def schema_text(kind: DataType, name: str, numbers: Numbers | None = None) -> str:
    """The schema of structs of a type, as a message of this name. Raises BadSchema for what Protobuf has no type for."""
    if not isinstance(kind, StructType):
        raise BadSchema(
            f"{name} is of type {kind.simpleString()}, and a Protobuf record is a struct; put it into one"
        )
    lines = list(_message(kind, (name,), name, numbers or Numbers()))
    imports = ['import "google/protobuf/timestamp.proto";'] if _TIME in "".join(lines) else []
    return "\n".join(['syntax = "proto3";', *imports, *lines, ""])


def _message(kind: StructType, place: tuple[str, ...], where: str, numbers: Numbers) -> Iterator[str]:
    yield f"message {place[-1]} {{"
    kinds = {one.name: one.dataType for one in kind}
    # A message has no two things of one name, be one a field and one a message.
    taken = set(kinds)
    for name, number in numbers.given(place, kinds):
        if not _NAME.fullmatch(name):
            raise BadSchema(
                f"{where}: Protobuf takes no field called {name!r}; give it a name of letters, digits and _"
            )
        inner = f"Of_{name}"
        while inner in taken:
            inner += "_"
        taken.add(inner)
        text, struct = _field_type(kinds[name], inner, f"{where}.{name}")
        if struct is not None:
            yield from (f"  {line}" for line in _message(struct, (*place, inner), f"{where}.{name}", numbers))
        yield f"  {text} {name} = {number};"
    yield "}"


def _field_type(kind: DataType, inner: str, where: str) -> tuple[str, StructType | None]:
    """How a field is declared, and the struct that its message is of."""
    if isinstance(kind, ArrayType):
        one, struct = _one(kind.elementType, inner, where)
        return f"repeated {one}", struct
    if isinstance(kind, MapType):
        key, _ = _one(kind.keyType, inner, where)
        if key not in _KEYS:
            raise _refused(kind, where)
        one, struct = _one(kind.valueType, inner, where)
        return f"map<{key}, {one}>", struct
    one, struct = _one(kind, inner, where)
    return (f"optional {one}" if struct is None and one != _TIME else one), struct


def _one(kind: DataType, inner: str, where: str) -> tuple[str, StructType | None]:
    if isinstance(kind, StructType):
        return inner, kind
    for plain, text in _PLAIN.items():
        if isinstance(kind, plain):
            return text, None
    raise _refused(kind, where)


def _refused(kind: DataType, where: str) -> BadSchema:
    return BadSchema(
        f"{where} is of type {kind.simpleString()}, which Protobuf has none for; cast it, for example to STRING"
    )


def encoder(schema: Schema, message: str | None = None) -> tuple[Callable[[Any], bytes], tuple[int, ...]]:
    """What makes a record's bytes, without its header, of a struct as Spark hands it to Python, and where the message is in the schema.

    message  its simple or full name; by default the first one. What is answered raises Misfit. Raises BadSchema.
    """
    files = FileDescriptorSet.FromString(compile_text(schema.text, schema.imports))
    own = files.file[-1]
    prefix = f"{own.package}." if own.package else ""
    names = [one.name for one in own.message_type]
    wanted = names[0] if names and message is None else str(message).removeprefix(prefix)
    if wanted not in names:
        raise BadSchema(
            f"schema {schema.id} has no message {message or ''} at its top; there are {', '.join(names)}"
        )
    return partial(_encoded, _Message(files.SerializeToString(), prefix + wanted)), (names.index(wanted),)


@dataclass(slots=True)
class _Message:
    """A message's class, made once in each process that it comes to."""

    files: bytes
    name: str
    made: Any = None

    def __reduce__(self) -> tuple[type[_Message], tuple[bytes, str]]:
        return _Message, (self.files, self.name)

    def new(self) -> Any:
        """An empty one."""
        if self.made is None:
            pool = DescriptorPool()
            for file in FileDescriptorSet.FromString(self.files).file:
                pool.Add(file)
            self.made = GetMessageClass(pool.FindMessageTypeByName(self.name))
        return self.made()


def _encoded(kind: _Message, value: Any) -> bytes:
    message = kind.new()
    try:
        _fill(message, value, "")
        return bytes(message.SerializeToString(deterministic=True))
    except Misfit:
        raise
    except Exception as error:  # noqa: BLE001 - its words would tell the value
        raise Misfit(f"it does not fit the schema ({type(error).__name__})") from None


def _fill(message: Any, value: Any, where: str) -> None:
    descriptor: Descriptor = message.DESCRIPTOR
    fields = fields_of(value, where)
    require_known(fields, descriptor.fields_by_name, where)
    for name, one in fields.items():
        if one is not None:
            kind = descriptor.fields_by_name[name]
            _require_first(message, kind, where)
            _set(message, kind, one, below(where, name))


def _require_first(message: Any, kind: FieldDescriptor, where: str) -> None:
    """Raises Misfit where another member of the field's oneof is set, which would be lost."""
    oneof = kind.containing_oneof
    if oneof is not None and message.WhichOneof(oneof.name) is not None:
        raise Misfit(f"of the members of {below(where, oneof.name)} one is to be set, not more")


def _set(message: Any, kind: FieldDescriptor, value: Any, where: str) -> None:
    inner = kind.message_type
    if inner is not None and inner.GetOptions().map_entry:
        held, of = getattr(message, kind.name), inner.fields_by_name["value"]
        for key, one in value.items():
            if of.message_type is not None:
                _fill_one(held[key], _there(one, where), where)
            else:
                held[key] = _scalar(of, _there(one, where), where)
    elif kind.is_repeated:
        held = getattr(message, kind.name)
        for one in value:
            if inner is not None:
                _fill_one(held.add(), _there(one, where), where)
            else:
                held.append(_scalar(kind, _there(one, where), where))
    elif inner is not None:
        _fill_one(getattr(message, kind.name), value, where)
    else:
        setattr(message, kind.name, _scalar(kind, value, where))


def _there(value: Any, where: str) -> Any:
    if value is None:
        raise Misfit(f"{where} has a null in it, which Protobuf has no place for")
    return value


def _fill_one(message: Any, value: Any, where: str) -> None:
    kind: Descriptor = message.DESCRIPTOR
    if kind.full_name == _TIME:
        micros = micros_of(value)
        message.seconds, message.nanos = micros // 1_000_000, micros % 1_000_000 * 1000
    elif kind.full_name == "google.protobuf.Duration":
        message.FromMicroseconds(value)
    elif kind.full_name in _WRAPPERS:
        message.value = _scalar(kind.fields_by_name["value"], value, where)
    elif kind.fields:
        _fill(message, value, where)
    # What has no field is there or not.
    message.SetInParent()


def _scalar(kind: FieldDescriptor, value: Any, where: str) -> Any:
    if kind.enum_type is not None and isinstance(value, str):
        named = kind.enum_type.values_by_name.get(value)
        if named is None:
            raise Misfit(f"{where} is none of the names of {kind.enum_type.full_name}")
        return named.number
    if kind.cpp_type in _CHECKED:
        return _CHECKED[kind.cpp_type](value, where)
    return bytes(value) if isinstance(value, bytearray) else value


# The library takes others for some of these, too: an infinity for what is too large, true for 5.
_CHECKED: dict[int, Callable[[Any, str], Any]] = {
    FieldDescriptor.CPPTYPE_BOOL: truth_of,
    FieldDescriptor.CPPTYPE_INT32: lambda value, where: whole_of(value, 32, where),
    FieldDescriptor.CPPTYPE_INT64: lambda value, where: whole_of(value, 64, where),
    FieldDescriptor.CPPTYPE_UINT32: lambda value, where: whole_of(value, 32, where, signed=False),
    FieldDescriptor.CPPTYPE_UINT64: lambda value, where: whole_of(value, 64, where, signed=False),
    FieldDescriptor.CPPTYPE_FLOAT: lambda value, where: float_of(value, where, single=True),
    FieldDescriptor.CPPTYPE_DOUBLE: lambda value, where: float_of(value, where, single=False),
}
