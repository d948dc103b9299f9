"""The seam between what happens in a game and the bytes that tell of it: one format beside the other, by name.

Adding a format is one new file in this folder and one line in `FORMATS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, Protocol, cast

import numpy as np
import pyarrow as pa

from distributary.producer_sim.events.model import ARROW_TYPES, PACKAGE, EventSchema, Field
from distributary.producer_sim.formats.corruption import HEADER, NO_ENTITY
from distributary.registry.base import SchemaType

# Named, not imported: sending one format must not need the libraries of another.
FORMATS: Mapping[str, str] = {
    "protobuf": "distributary.producer_sim.formats.protobuf:ProtobufFormat",
    "avro": "distributary.producer_sim.formats.avro:AvroFormat",
    "jsonschema": "distributary.producer_sim.formats.jsonschema:JsonSchemaFormat",
    "json": "distributary.producer_sim.formats.json:JsonFormat",
}

# A good record's header and body to the bytes of a broken one.
Corruption = Callable[[np.random.Generator, bytes, bytes], bytes]

# The fields that hardly repeat, by name: lists of text and NumPy arrays.
OwnColumns = Mapping[str, Any]


class Encoder(Protocol):
    """Writes the events of one schema; made by `Format.encoder`."""

    def fragments(self, field: Field, values: Sequence[Any]) -> list[bytes]:
        """Each of a field's values as it stands in a body, and last what stands there without the field."""
        ...

    def column(self, field: Field, values: Sequence[Any]) -> pa.Array:
        """The same values as a correct reader finds them, and last a null."""
        ...

    def bodies(self, own: OwnColumns, pooled: Mapping[str, Sequence[bytes]]) -> list[bytes]:
        """Whole events, without any header, from values and from the fragments of all other fields."""
        ...

    def without_game(self, body: bytes) -> bytes:
        """The same event, its game's name left empty."""
        ...


class Format(Protocol):
    """One way to put events into records."""

    schema_type: SchemaType | None
    """As what its schemas are registered; None where records name no schema."""

    types: Mapping[str, pa.DataType]
    """What becomes of scalars, by their Protobuf names."""

    infers: bool
    """Whether a reader knows of types only what values tell: a record is then never at odds with a table, only values."""

    corruptions: Mapping[str, Corruption]
    """How a record can be broken so that it must end in quarantine, by kind."""

    def record_name(self, schema: EventSchema) -> str:
        """What a reader calls the type of a schema's records."""
        ...

    def schema_text(self, schema: EventSchema, imported: bool = False) -> str:
        """What the registry is given for a schema; the same text for the same schema, always.

        With `imported` it refers to its parts, which are registered by themselves.
        """
        ...

    def part_text(self, part: str, schema: EventSchema) -> str:
        """What the registry is given for one of a schema's parts."""
        ...

    def import_name(self, part: str) -> str:
        """By which name a schema refers to a part."""
        ...

    def header(self, schema_id: int | None) -> bytes:
        """What stands before the body in a record's value."""
        ...

    def encoder(self, schema: EventSchema) -> Encoder:
        """The writer of a schema's events."""
        ...


class InWireFormat:
    """What formats share whose records name their schema in Confluent's wire format, and whose types are their schema's own."""

    types: Mapping[str, pa.DataType] = ARROW_TYPES
    infers = False

    def record_name(self, schema: EventSchema) -> str:
        """The full name."""
        return full_name(schema.record)

    def header(self, schema_id: int | None) -> bytes:
        """The wire header."""
        return HEADER.pack(0, schema_id or 0)


def full_name(part: str) -> str:
    """A record type's name, with its package."""
    return f"{PACKAGE}.{part}"


def load_format(name: str) -> Format:
    """The format called `name`, one of `FORMATS`."""
    module, _, attribute = FORMATS[name].partition(":")
    return cast("Format", getattr(import_module(module), attribute)())


def corrupt_kinds(name: str) -> tuple[str, ...]:
    """Every way in which a record of a format can be corrupt; events without a game are so in all."""
    return (*load_format(name).corruptions, NO_ENTITY)
