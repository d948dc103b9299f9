"""What makes a record one that no correct pipeline can put into a table, whatever the format of its body."""

from __future__ import annotations

import struct
from hashlib import blake2b

import numpy as np

HEADER = struct.Struct(">bI")

MESSAGE_INDEX = b"\x00"  # the short form of [0]: the first message of the schema

# Far above what a registry hands out, and few: how many distinct unknown ids are asked is capped.
UNKNOWN_IDS = range(2_000_000_000, 2_000_000_003)

# Well-formed, but without the value that says where it belongs; made by the encoder, which can read its own events.
NO_ENTITY = "no_entity"


def framed(schema_id: int, body: bytes) -> bytes:
    """A Protobuf body of the schema's first message as it goes on the wire."""
    return HEADER.pack(0, schema_id) + MESSAGE_INDEX + body


def value_digest(value: bytes) -> str:
    """What the truth keeps of a corrupt value's bytes."""
    return blake2b(value, digest_size=8).hexdigest()


def bad_magic(rng: np.random.Generator, header: bytes, body: bytes) -> bytes:
    """A first byte that no wire format uses."""
    return b"\x7f" + header[1:] + body


def truncated_header(rng: np.random.Generator, header: bytes, body: bytes) -> bytes:
    """Nothing but the beginning of a header."""
    return header[:3]


def unknown_id(rng: np.random.Generator, header: bytes, body: bytes) -> bytes:
    """The id of a schema that no registry has."""
    return HEADER.pack(0, int(rng.choice(UNKNOWN_IDS))) + header[HEADER.size :] + body


def truncated_body(rng: np.random.Generator, header: bytes, body: bytes) -> bytes:
    """A body that stops too early; right for formats of which no body is the beginning of another."""
    return header + body[: int(rng.integers(1, len(body)))]


# What Confluent's wire format adds to a body can be broken in these ways.
HEADER_CORRUPTIONS = {
    "bad_magic": bad_magic,
    "truncated_header": truncated_header,
    "unknown_id": unknown_id,
}
