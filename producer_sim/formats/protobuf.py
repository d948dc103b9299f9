"""Events as Protobuf in Confluent's wire format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from distributary.producer_sim.corruption import HEADER, HEADER_CORRUPTIONS, framed
from distributary.producer_sim.event_class import record_class
from distributary.producer_sim.event_model import ARROW_TYPES, PACKAGE, EventSchema, Field, typed_column
from distributary.producer_sim.event_proto_text import import_name, part_text, proto_text
from distributary.producer_sim.formats import Corruption, OwnColumns
from distributary.registry.base import SchemaType

# A tag with the wire type 7, which does not exist; and a varint of more bytes than 64 bits can take.
# https://protobuf.dev/programming-guides/encoding/#structure
BROKEN_ENDINGS = (b"\x0f", b"\x20" + b"\xff" * 11 + b"\x01")


def _malformed(rng: np.random.Generator, header: bytes, body: bytes) -> bytes:
    return header + body + BROKEN_ENDINGS[rng.integers(0, len(BROKEN_ENDINGS))]


def _bad_message_index(rng: np.random.Generator, header: bytes, body: bytes) -> bytes:
    """An index of one step to a message far beyond the schema's last: zigzag varints of 1 and 5000."""
    return header[: HEADER.size] + b"\x02\x90\x4e" + body


class ProtobufFormat:
    """The header, the message index of the first message, the message."""

    schema_type: SchemaType | None = "PROTOBUF"
    types: Mapping[str, pa.DataType] = ARROW_TYPES
    infers = False
    corruptions: Mapping[str, Corruption] = {
        **HEADER_CORRUPTIONS,
        "malformed": _malformed,
        "bad_message_index": _bad_message_index,
    }

    def record_name(self, schema: EventSchema) -> str:
        """The full name of the message."""
        return f"{PACKAGE}.{schema.record}"

    def schema_text(self, schema: EventSchema, imported: bool = False) -> str:
        """The .proto text of these events."""
        return proto_text(schema, imported)

    def part_text(self, part: str, schema: EventSchema) -> str:
        """The .proto text of one message."""
        return part_text(part, schema)

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
