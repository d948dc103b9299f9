"""Fields on the wire that a schema lacks, found on a sample of records: the sign of a producer ahead of the registry.

Columns are made of what the schema tells, so such a field's value is in no column. Looking at every record would cost
more than decoding it; a producer that sends a new field mostly sends it often.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.unknown_fields import UnknownFieldSet

from distributary.codecs.base import UnknownField
from distributary.codecs.protobuf.columns import fields_of, name_of
from distributary.codecs.types.fields import part

# One record of so many is looked at, within these bounds: about three per cent of what decoding costs.
ONE_OF = 256

LEAST, MOST = 8, 64

# What a hostile record may cost: larger ones are left out, and more fields than these are not told apart.
MAX_BYTES = 64 * 1024

MAX_FIELDS = 100

_VARINT, _DELIMITED = 0, 2


class UnknownFields:
    """Looks for fields that a message type lacks, in the messages inside of it too."""

    def __init__(self, message: Descriptor) -> None:
        self._alone, self._together = GetMessageClass(message), GetMessageClass(_list_of(message))

    def sampled(self, payloads: pa.BinaryArray, rows: npt.NDArray[np.int64]) -> tuple[UnknownField, ...]:
        """What some of these rows of the payloads have, each field once, by its path."""
        sample = _spread(rows)
        bodies = payloads.take(pa.array(sample)).to_pylist()
        small = {
            row: body for row, body in zip(sample.tolist(), bodies, strict=True) if len(body) <= MAX_BYTES
        }
        if not self._any(small.values()):
            return ()
        records: dict[str, list[int]] = {}
        for row, body in small.items():
            for path in self._paths(body):
                records.setdefault(path, []).append(row)
        return tuple(UnknownField(path, len(found), found[0]) for path, found in sorted(records.items()))

    def _any(self, payloads: Iterable[bytes]) -> bool:
        """Whether there are any at all: in a few calls of C for all records together, since mostly there are none."""
        try:
            message = self._together.FromString(b"".join(map(_element, payloads)))
        except DecodeError:
            return True  # one of them will have to be asked alone
        before = len(message.SerializePartialToString())
        message.DiscardUnknownFields()
        return len(message.SerializePartialToString()) != before

    def _paths(self, payload: bytes) -> set[str]:
        """The unknown fields of one record, such as `7` or `inner.9`."""
        try:
            return set(islice(_walk(self._alone.FromString(payload), ""), MAX_FIELDS))
        except (DecodeError, UnicodeError, RecursionError):
            # The decoder takes its bytes, this parser does not: such a record says nothing of producers.
            return set()


def _list_of(message: Descriptor) -> Descriptor:
    """A type with messages of the given one in its field 1."""
    pool, package = message.file.pool, f"distributary.sample.{message.full_name}"
    file = FileDescriptorProto(
        name=f"{package}.proto", package=package, syntax="proto3", dependency=[message.file.name]
    )
    one = file.message_type.add(name="Sample").field.add(name="records", number=1)
    one.label, one.type, one.type_name = one.LABEL_REPEATED, one.TYPE_MESSAGE, f".{message.full_name}"
    pool.Add(file)
    return pool.FindMessageTypeByName(f"{package}.Sample")


def _element(body: bytes) -> bytes:
    """A body as one of the messages in field 1."""
    size, length = len(body), bytearray()
    while size > 0x7F:
        length.append(size & 0x7F | 0x80)
        size >>= 7
    return b"\n%b%c%b" % (bytes(length), size, body)


def _spread(rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Rows from all over a batch: its first ones may all come from one partition, and so from one producer."""
    wanted = min(max(len(rows) // ONE_OF, LEAST), MOST)
    return rows[:: max(len(rows) // wanted, 1)][:wanted]


def _walk(message: Message, prefix: str) -> Iterator[str]:
    known = {field.number: field for field in fields_of(cast("Descriptor", message.DESCRIPTOR))}
    for unknown in cast("Any", UnknownFieldSet)(message):
        field = known.get(unknown.field_number)
        if field is None:
            yield f"{prefix}{unknown.field_number}"
        elif not _is_enum_number(field, unknown.wire_type):
            yield prefix + part(name_of(field))
    for field, value in message.ListFields():
        for inner, path in _messages_in(field, value, prefix + part(name_of(field))):
            yield from _walk(inner, f"{path}.")


def _messages_in(field: FieldDescriptor, value: Any, path: str) -> Iterable[tuple[Message, str]]:
    if field.message_type is None:
        return []
    if field.message_type.GetOptions().map_entry:
        if field.message_type.fields_by_name["value"].message_type is None:
            return []
        return [(value[key], f"{path}.value") for key in value]
    return [(one, f"{path}.element") for one in value] if field.is_repeated else [(value, path)]


def _is_enum_number(field: FieldDescriptor, wire_type: int) -> bool:
    """Whether it is a number that a closed enum lacks: to Google's parser an unknown field, to us its column's value."""
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        return field.message_type.fields_by_name["value"].enum_type is not None and wire_type == _DELIMITED
    return field.enum_type is not None and wire_type in (_VARINT, _DELIMITED)
