"""Events as Protobuf in Confluent's wire format: their proto3 file, how they are encoded, and how they are corrupted.

https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import Message

from distributary.producer_sim.events.model import (
    PACKAGE,
    TIMESTAMP,
    EventSchema,
    Field,
    typed_column,
)
from distributary.producer_sim.events.versions import event_schema
from distributary.producer_sim.formats.base import Corruption, InWireFormat, OwnColumns, full_name
from distributary.producer_sim.formats.corruption import HEADER, HEADER_CORRUPTIONS, framed
from distributary.registry.base import SchemaType
from distributary.registry.protobuf.text import compile_text


def schema_text(version: int) -> str:
    """The .proto text of this version; the same text for the same version, always."""
    return proto_text(event_schema(version))


# A tag with the wire type 7, which does not exist; and a varint of more bytes than 64 bits can take.
# https://protobuf.dev/programming-guides/encoding/#structure
BROKEN_ENDINGS = (b"\x0f", b"\x20" + b"\xff" * 11 + b"\x01")


def _malformed(rng: np.random.Generator, header: bytes, body: bytes) -> bytes:
    return header + body + BROKEN_ENDINGS[rng.integers(0, len(BROKEN_ENDINGS))]


def _bad_message_index(rng: np.random.Generator, header: bytes, body: bytes) -> bytes:
    """An index of one step to a message far beyond the schema's last: zigzag varints of 1 and 5000."""
    return header[: HEADER.size] + b"\x02\x90\x4e" + body


class ProtobufFormat(InWireFormat):
    """The header, the message index of the first message, the message."""

    schema_type: SchemaType | None = "PROTOBUF"
    corruptions: Mapping[str, Corruption] = {
        **HEADER_CORRUPTIONS,
        "malformed": _malformed,
        "bad_message_index": _bad_message_index,
    }

    def schema_text(self, schema: EventSchema, imported: bool = False) -> str:
        """The .proto text of these events."""
        return proto_text(schema, imported)

    def part_text(self, part: str, schema: EventSchema) -> str:
        """The .proto text of one message."""
        return "\n".join([*_beginning(schema, [part], []), *_message(part, schema)])

    def import_name(self, part: str) -> str:
        """The path that is imported."""
        return import_name(part)

    def header(self, schema_id: int | None) -> bytes:
        """The wire header with the message index."""
        return framed(schema_id or 0, b"")

    def encoder(self, schema: EventSchema) -> ProtobufEncoder:
        """The writer of a schema's events."""
        return ProtobufEncoder(schema)


class ProtobufEncoder:
    """Joins messages from fields that were serialised on their own: a message is their concatenation."""

    def __init__(self, schema: EventSchema) -> None:
        self._schema = schema
        self._class = record_class(schema)

    def fragments(self, field: Field, values: Sequence[Any]) -> list[bytes]:
        """Messages of one field each, and last an empty one; maps in the same order in every process."""
        make = self._class
        return [*(make(**{field.name: value}).SerializeToString(deterministic=True) for value in values), b""]

    def column(self, field: Field, values: Sequence[Any]) -> pa.Array:
        """The values in a column of the field's type, and last a null."""
        return typed_column(field, values, self._schema)

    def bodies(self, own: OwnColumns, pooled: Mapping[str, Sequence[bytes]]) -> list[bytes]:
        """Whole messages."""
        parts = zip(self._messages(own), *pooled.values(), strict=True)
        return [b"".join(fields) for fields in parts]

    def without_game(self, body: bytes) -> bytes:
        """The same event, its game's name left empty."""
        event = self._class.FromString(body)
        event.ClearField("game_name")
        return event.SerializeToString(deterministic=True)

    def _messages(self, own: OwnColumns) -> list[bytes]:
        make = self._class
        columns = [values if isinstance(values, list) else values.tolist() for values in own.values()]
        names = list(own)
        return [
            make(**dict(zip(names, row, strict=True))).SerializeToString()
            for row in zip(*columns, strict=True)
        ]


TIMESTAMP_FILE = "google/protobuf/timestamp.proto"


def proto_text(schema: EventSchema, imported: bool = False) -> str:
    """The text of a schema; with `imported` its parts are imported instead of being in it."""
    messages = [schema.record] if imported else [*schema.messages]
    imports = [import_name(part) for part in schema.parts] if imported else []
    lines = _beginning(schema, messages, imports)
    for name in messages:
        lines += _message(name, schema)
    for name, symbols in schema.enums.items():
        lines += [f"enum {name} {{", *(f"  {symbol} = {i};" for i, symbol in enumerate(symbols)), "}", ""]
    return "\n".join(lines)


def import_name(part: str) -> str:
    """By which name a part's file is imported."""
    return f"{PACKAGE}/{part.lower()}.proto"


def _beginning(schema: EventSchema, messages: Sequence[str], imports: list[str]) -> list[str]:
    uses_timestamp = any(field.type == TIMESTAMP for name in messages for field in schema.messages[name])
    wanted = [TIMESTAMP_FILE, *imports] if uses_timestamp else imports
    lines = [f'import "{name}";' for name in wanted]
    return ['syntax = "proto3";', "", f"package {PACKAGE};", "", *lines, *([""] if lines else [])]


def _message(name: str, schema: EventSchema) -> list[str]:
    gone = schema.gone.get(name, ())
    reserved = [f'  reserved {field.number};\n  reserved "{field.name}";' for field in gone]
    return [f"message {name} {{", *reserved, *_declarations(schema.messages[name]), "}", ""]


def _declarations(fields: tuple[Field, ...]) -> Iterator[str]:
    """The lines of a message's body; the members of a oneof are neighbours."""
    for oneof, members in groupby(fields, key=lambda field: field.oneof):
        indent = "    " if oneof else "  "
        if oneof:
            yield f"  oneof {oneof} {{"
        for field in members:
            # proto3 knows no `required`: a field without a label always has a value.
            label = f"{field.label} " if field.label in ("optional", "repeated") else ""
            yield f"{indent}{label}{field.type} {field.name} = {field.number};"
        if oneof:
            yield "  }"


def record_class(schema: EventSchema) -> type[Message]:
    """The message class of a schema's record."""
    return _compiled(proto_text(schema), full_name(schema.record))


@lru_cache(maxsize=256)
def _compiled(text: str, record: str) -> type[Message]:
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(compile_text(text)).file:
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(record))
