"""Events as Avro in Confluent's wire format: their schema, how they are encoded by the column, and how they are corrupted.

https://avro.apache.org/docs/1.12.0/specification/#binary-encoding
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from io import BytesIO
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from fastavro import parse_schema, schemaless_reader, schemaless_writer

from distributary.producer_sim.events.model import (
    PACKAGE,
    TIMESTAMP,
    EventSchema,
    Field,
    typed_column,
)
from distributary.producer_sim.formats.base import Corruption, InWireFormat, OwnColumns, full_name
from distributary.producer_sim.formats.corruption import HEADER_CORRUPTIONS, truncated_body
from distributary.registry.base import SchemaType

NULL_BRANCH = b"\x00"  # null is the first branch of each union

LONGEST_VARINT = 10


def _trailing_bytes(rng: np.random.Generator, header: bytes, body: bytes) -> bytes:
    return header + body + rng.bytes(int(rng.integers(1, 9)))


def _malformed(rng: np.random.Generator, header: bytes, body: bytes) -> bytes:
    """The length of the first field, which is text, is minus one."""
    return header + b"\x01" + body


def _invalid_utf8(rng: np.random.Generator, header: bytes, body: bytes) -> bytes:
    """The first letter of the first field, whose length fits into a byte, is none of UTF-8."""
    return header + body[:1] + b"\xff" + body[2:]


class AvroFormat(InWireFormat):
    """The header and the record's bytes."""

    schema_type: SchemaType | None = "AVRO"
    corruptions: Mapping[str, Corruption] = {
        **HEADER_CORRUPTIONS,
        "truncated_body": truncated_body,
        "trailing_bytes": _trailing_bytes,
        "malformed": _malformed,
        "invalid_utf8": _invalid_utf8,
    }

    def schema_text(self, schema: EventSchema, imported: bool = False) -> str:
        """The Avro schema of these events."""
        return json.dumps(avro_schema(schema, imported))

    def part_text(self, part: str, schema: EventSchema) -> str:
        """The Avro schema of one record inside."""
        return json.dumps({**_record(part, schema), "namespace": PACKAGE})

    def import_name(self, part: str) -> str:
        """The record's full name."""
        return full_name(part)

    def encoder(self, schema: EventSchema) -> AvroEncoder:
        """The writer of a schema's events."""
        return AvroEncoder(schema)


class AvroEncoder:
    """Joins records from fields that were written on their own: a record is its fields in the schema's order."""

    def __init__(self, schema: EventSchema) -> None:
        self._events = schema
        document = avro_schema(schema)
        self._record = parse_schema(document)
        self._types = {field["name"]: field["type"] for field in document["fields"]}

    def fragments(self, field: Field, values: Sequence[Any]) -> list[bytes]:
        """Each value alone, and last the null of those that may be left out."""
        kind = self._types[field.name]
        parsed = parse_schema(kind)
        absent = NULL_BRANCH if isinstance(kind, list) else b""
        return [*(_written(parsed, value) for value in values), absent]

    def column(self, field: Field, values: Sequence[Any]) -> pa.Array:
        """The values in a column of the field's type, and last a null."""
        return typed_column(field, values, self._events)

    def bodies(self, own: OwnColumns, pooled: Mapping[str, Sequence[bytes]]) -> list[bytes]:
        """Whole records."""
        columns = [
            pooled[field.name] if field.name in pooled else OWN[field.type](own[field.name])
            for field in self._events.fields
        ]
        return [b"".join(fields) for fields in zip(*columns, strict=True)]

    def without_game(self, body: bytes) -> bytes:
        """The same event, its game's name left empty."""
        event: Any = schemaless_reader(BytesIO(body), self._record, None)
        return _written(self._record, {**event, "game_name": ""})


def longs(numbers: npt.NDArray[np.integer]) -> list[bytes]:
    """Each number as a zigzag varint."""
    wide = numbers.astype(np.int64)
    zigzag = ((wide << 1) ^ (wide >> 63)).view(np.uint64)
    shifts = np.arange(0, 7 * LONGEST_VARINT, 7, dtype=np.uint64)
    groups = zigzag[:, None] >> shifts
    # A byte says whether more follow; the first is there even for zero.
    more = np.zeros(groups.shape, np.bool_)
    more[:, :-1] = groups[:, 1:] != 0
    used = np.ones(groups.shape, np.bool_)
    used[:, 1:] = more[:, :-1]
    written = ((groups & np.uint64(0x7F)) | (more.astype(np.uint64) << np.uint64(7))).astype(np.uint8)
    return _cut(written[used].tobytes(), used.sum(axis=1))


def _texts(texts: Sequence[str]) -> list[bytes]:
    encoded = [text.encode() for text in texts]
    lengths = longs(np.array([len(text) for text in encoded], np.int64))
    return [length + text for length, text in zip(lengths, encoded, strict=True)]


def _doubles(numbers: npt.NDArray[np.float64]) -> list[bytes]:
    return _cut(numbers.astype("<f8").tobytes(), np.full(len(numbers), 8))


def _booleans(truths: npt.NDArray[np.bool_]) -> list[bytes]:
    return [b"\x01" if truth else b"\x00" for truth in truths.tolist()]


def _cut(joined: bytes, lengths: npt.NDArray[np.integer]) -> list[bytes]:
    """Pieces of these lengths."""
    ends = np.cumsum(lengths).tolist()
    return [joined[start:end] for start, end in zip([0, *ends], ends, strict=False)]


# The fields that hardly repeat are all there from version 1 on, so none of them is a union.
OWN: Mapping[str, Callable[[Any], list[bytes]]] = {
    "string": _texts,
    "int32": longs,
    "int64": longs,
    "double": _doubles,
    "bool": _booleans,
}


def _written(schema: Any, value: Any) -> bytes:
    target = BytesIO()
    schemaless_writer(target, schema, value)
    return target.getvalue()


SCALARS: dict[str, Any] = {
    "string": "string",
    "bytes": "bytes",
    "bool": "boolean",
    "int32": "int",
    "int64": "long",
    "uint32": "long",  # Avro has no unsigned types
    "float": "float",
    "double": "double",
    TIMESTAMP: {"type": "long", "logicalType": "timestamp-micros"},
}


def avro_schema(schema: EventSchema, imported: bool = False) -> dict[str, Any]:
    """The record, as JSON has it; with `imported` its parts are named only."""
    aliases = {"aliases": list(schema.former)} if schema.former else {}
    return {**_record(schema.record, schema, imported), "namespace": PACKAGE, **aliases}


def _is_nullable(field: Field, schema: EventSchema) -> bool:
    if field.label == "required":
        return False
    may_be_absent = field.label == "optional" or bool(field.oneof) or field.type in schema.messages
    return field.since > 1 or (may_be_absent and field.label != "repeated")


def _record(name: str, schema: EventSchema, imported: bool = False) -> dict[str, Any]:
    fields = [_field(field, schema, imported) for field in schema.messages[name]]
    return {"type": "record", "name": name, "fields": fields}


def _field(field: Field, schema: EventSchema, imported: bool) -> dict[str, Any]:
    kind = _type(field, schema, imported)
    aliases = {"aliases": [field.alias]} if field.alias else {}
    if _is_nullable(field, schema):
        return {"name": field.name, "type": ["null", kind], "default": None, **aliases}
    return {"name": field.name, "type": kind, **aliases}


def _type(field: Field, schema: EventSchema, imported: bool) -> Any:
    if field.is_map:
        return {"type": "map", "values": _single_type(field.value_type, schema, imported)}
    found = _single_type(field.type, schema, imported)
    return {"type": "array", "items": found} if field.label == "repeated" else found


def _single_type(name: str, schema: EventSchema, imported: bool) -> Any:
    """Each message and each enum has one field of its type, so it is defined right there, unless it is imported."""
    if name in schema.messages:
        return full_name(name) if imported else _record(name, schema)
    if name in schema.enums:
        symbols = schema.enums[name]
        return {"type": "enum", "name": name, "symbols": list(symbols), "default": symbols[0]}
    return SCALARS[name]
