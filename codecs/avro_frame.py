"""Bare Avro bodies put behind one object-container header, for readers that read nothing else.

Container files: https://avro.apache.org/docs/1.12.0/specification/#object-container-files
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

# Ends a block. What a sync marker is good for, finding blocks again, nobody needs here.
_SYNC = bytes(16)


def container_head(schema: str) -> bytes:
    """The header of a container of records of this schema."""
    text = schema.encode()
    entries = _long(2) + _bytes(b"avro.schema") + _bytes(text) + _bytes(b"avro.codec") + _bytes(b"null")
    return b"Obj\x01" + entries + _long(0) + _SYNC


def container(head: bytes, bodies: pa.BinaryArray, after_each: bytes) -> bytes:
    """A container with these records in one block, `after_each` behind every one of them."""
    joined = pc.binary_join_element_wise(
        bodies, pa.scalar(after_each, pa.binary()), pa.scalar(b"", pa.binary())
    )
    _, offsets, data = joined.buffers()
    first, last = joined.offset, joined.offset + len(joined)
    edges = memoryview(offsets).cast("i")
    block = memoryview(data)[edges[first] : edges[last]]
    return b"".join((head, _long(len(joined)), _long(len(block)), block, _SYNC))


def _bytes(raw: bytes) -> bytes:
    return _long(len(raw)) + raw


def _long(value: int) -> bytes:
    """A number from 0 on as Avro writes it."""
    value <<= 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])
