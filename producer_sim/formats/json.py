"""Events as plain JSON: neither header nor registry, so that whoever reads them has to infer a schema.

What JSON cannot say, a reader finds as text: bytes in Base64, enums by name, timestamps by ISO 8601. An object is
a struct: which of its keys are names and which are data, as in a map, cannot be told from JSON alone.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa

from distributary.producer_sim.events.model import ARROW_TYPES, TIMESTAMP, EventSchema, Field
from distributary.producer_sim.formats.base import Corruption, OwnColumns
from distributary.producer_sim.formats.corruption import HEADER, UNKNOWN_IDS, truncated_body
from distributary.registry.base import SchemaType

# Numbers have no widths, and what JSON cannot say is text.
TYPES: Mapping[str, pa.DataType] = {
    **ARROW_TYPES,
    "bytes": pa.string(),
    "int32": pa.int64(),
    "float": pa.float64(),
    TIMESTAMP: pa.string(),
}

ENDINGS = (b"}", b"{}", b',"level":1}', b"\x00")

NO_JSON = (b"game over", b"{'level': 1}", b"<event/>", b'{"level":}', b"{level:1}")

NO_OBJECT = (b"[]", b'"event"', b"42", b"true", b'[{"level":1}]')


def _trailing_bytes(rng: np.random.Generator, header: bytes, body: bytes) -> bytes:
    return header + body + ENDINGS[rng.integers(0, len(ENDINGS))]


def _not_json(rng: np.random.Generator, header: bytes, body: bytes) -> bytes:
    return header + NO_JSON[rng.integers(0, len(NO_JSON))]


def _not_an_object(rng: np.random.Generator, header: bytes, body: bytes) -> bytes:
    return header + NO_OBJECT[rng.integers(0, len(NO_OBJECT))]


def _invalid_utf8(rng: np.random.Generator, header: bytes, body: bytes) -> bytes:
    """A byte that UTF-8 does not know begins the text of the first field."""
    name, colon, rest = body.partition(b':"')
    return header + name + colon + b"\xff" + rest


def _unexpected_header(rng: np.random.Generator, header: bytes, body: bytes) -> bytes:
    """The header of a schema that no registry has, before what would have been right without it."""
    return HEADER.pack(0, int(rng.choice(UNKNOWN_IDS))) + body


# In which ways the text can be broken, whatever stands before it.
TEXT_CORRUPTIONS = {
    "truncated_body": truncated_body,
    "trailing_bytes": _trailing_bytes,
    "invalid_utf8": _invalid_utf8,
    "not_json": _not_json,
    "not_an_object": _not_an_object,
}


class JsonFormat:
    """An object and nothing else."""

    schema_type: SchemaType | None = None
    types: Mapping[str, pa.DataType] = TYPES
    infers = True
    corruptions: Mapping[str, Corruption] = {**TEXT_CORRUPTIONS, "unexpected_header": _unexpected_header}

    def record_name(self, schema: EventSchema) -> str:
        """What all records are called that name no schema."""
        return "json"

    def schema_text(self, schema: EventSchema, imported: bool = False) -> str:
        """Nothing: nobody registers a schema."""
        return ""

    def part_text(self, part: str, schema: EventSchema) -> str:
        """Nothing."""
        return ""

    def import_name(self, part: str) -> str:
        """Nothing."""
        return ""

    def header(self, schema_id: int | None) -> bytes:
        """Nothing."""
        return b""

    def encoder(self, schema: EventSchema) -> JsonEncoder:
        """The writer of a schema's events."""
        return JsonEncoder(schema)


class JsonEncoder:
    """Joins objects from members that were written on their own; a null member is left out or written, in turns."""

    def __init__(self, schema: EventSchema, *, writes_nulls: bool = True) -> None:
        self._events = schema
        self._writes_nulls = writes_nulls

    def fragments(self, field: Field, values: Sequence[Any]) -> list[bytes]:
        """Each value as a member that follows others, and last the absent one."""
        return [*(self._member(field, value, place) for place, value in enumerate(values)), b""]

    def column(self, field: Field, values: Sequence[Any]) -> pa.Array:
        """The values as inference finds them, and last a null."""
        return pa.array([*(as_json(value) for value in values), None])

    def bodies(self, own: OwnColumns, pooled: Mapping[str, Sequence[bytes]]) -> list[bytes]:
        """Whole objects."""
        parts = zip(self._beginnings(own), *pooled.values(), strict=True)
        return [b"".join(members) + b"}" for members in parts]

    def without_game(self, body: bytes) -> bytes:
        """The same event, its game's name left empty."""
        return _text({**json.loads(body), "game_name": ""}, escaped=False)

    def _member(self, field: Field, value: Any, place: int) -> bytes:
        written = as_json(value)
        odd = place % 2 == 1
        if written is None and not (odd and self._writes_nulls):
            return b""
        return f',"{field.name}":'.encode() + _text(written, escaped=odd)

    def _beginnings(self, own: OwnColumns) -> list[bytes]:
        fields = [field for field in self._events.fields if field.name in own]
        columns = [
            [f'"{field.name}":{text}' for text in OWN[field.type](own[field.name])] for field in fields
        ]
        return [("{" + ",".join(members)).encode() for members in zip(*columns, strict=True)]


def as_json(value: Any) -> Any:
    """A value of an event in what JSON has; members that are null are left out."""
    if isinstance(value, Mapping):
        return {name: as_json(inner) for name, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [as_json(inner) for inner in value]
    if isinstance(value, bytes):
        return b64encode(value).decode()
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return value


def _text(value: Any, *, escaped: bool) -> bytes:
    """Compact JSON; `escaped` writes as escapes what is beyond ASCII, which is as right as writing it."""
    return json.dumps(value, ensure_ascii=escaped, separators=(",", ":")).encode()


def _quoted(texts: Sequence[str]) -> list[str]:
    return [json.dumps(text) for text in texts]


def _whole(numbers: Any) -> list[str]:
    return [str(number) for number in numbers.tolist()]


def _doubles(numbers: Any) -> list[str]:
    return [repr(number) for number in numbers.tolist()]


def _booleans(truths: Any) -> list[str]:
    return ["true" if truth else "false" for truth in truths.tolist()]


OWN: Mapping[str, Callable[[Any], list[str]]] = {
    "string": _quoted,
    "int32": _whole,
    "int64": _whole,
    "double": _doubles,
    "bool": _booleans,
}
