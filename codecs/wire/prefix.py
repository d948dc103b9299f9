"""The first bytes of records that name their schema by its id, as serializers write them."""

from __future__ import annotations

from collections.abc import Sequence


def prefixes(schema_id: int, path: Sequence[int]) -> list[bytes]:
    """What records of this schema and type begin with, in each form that serializers write; the shortest one first.

    path  where the type is in a schema that may have several; empty for a schema of one type
    """
    start = b"\0" + schema_id.to_bytes(4, "big")
    if not path:
        return [start]
    long_form = b"".join(_zigzag(number) for number in (len(path), *path))
    return [start + b"\0", start + long_form] if tuple(path) == (0,) else [start + long_form]


def _zigzag(number: int) -> bytes:
    """A number that is not negative, as a zigzag varint."""
    number, out = number << 1, bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])
