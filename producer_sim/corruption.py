"""Records that no correct pipeline can put into a table, one kind for each way a record can be wrong."""

from __future__ import annotations

import struct
from collections.abc import Callable
from hashlib import blake2b

import numpy as np

HEADER = struct.Struct(">bI")
MESSAGE_INDEX = b"\x00"  # the short form of [0]: the first message of the schema

# Far above what a registry hands out, and few: how many distinct unknown ids are asked is capped.
UNKNOWN_IDS = range(2_000_000_000, 2_000_000_003)

# A tag with the wire type 7, which does not exist; and a varint of more bytes than 64 bits can take.
# https://protobuf.dev/programming-guides/encoding/#structure
BROKEN_ENDINGS = (b"\x0f", b"\x20" + b"\xff" * 11 + b"\x01")


def framed(schema_id: int, body: bytes) -> bytes:
    """A body of the schema's first message as it goes on the wire."""
    return HEADER.pack(0, schema_id) + MESSAGE_INDEX + body


def value_digest(value: bytes) -> str:
    """What the truth keeps of a corrupt value's bytes."""
    return blake2b(value, digest_size=8).hexdigest()


def _bad_magic(rng: np.random.Generator, schema_id: int, body: bytes) -> bytes:
    return b"\x7f" + framed(schema_id, body)[1:]


def _truncated_header(rng: np.random.Generator, schema_id: int, body: bytes) -> bytes:
    return framed(schema_id, body)[:3]


def _unknown_id(rng: np.random.Generator, schema_id: int, body: bytes) -> bytes:
    return framed(int(rng.choice(UNKNOWN_IDS)), body)


def _malformed(rng: np.random.Generator, schema_id: int, body: bytes) -> bytes:
    return framed(schema_id, body) + BROKEN_ENDINGS[rng.integers(0, len(BROKEN_ENDINGS))]


def _bad_message_index(rng: np.random.Generator, schema_id: int, body: bytes) -> bytes:
    """An index of one step to a message far beyond the schema's last: zigzag varints of 1 and 5000."""
    return HEADER.pack(0, schema_id) + b"\x02\x90\x4e" + body


CORRUPTIONS: dict[str, Callable[[np.random.Generator, int, bytes], bytes]] = {
    "bad_magic": _bad_magic,
    "truncated_header": _truncated_header,
    "unknown_id": _unknown_id,
    "malformed": _malformed,
    "bad_message_index": _bad_message_index,
}

# Well-formed, but without the value that says where it belongs; made by the event maker, which can parse it.
NO_ENTITY = "no_entity"

KINDS = (*CORRUPTIONS, NO_ENTITY)
