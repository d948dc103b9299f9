"""Avro containers made block by block, for tests, and what is read of containers."""

from __future__ import annotations

import bz2
import io
import json
import lzma
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from fastavro import parse_schema, schemaless_writer

from distributary.codecs.containers.base import Damaged, Gap, load_container
from distributary.ingest.landing.written_with import guid_of
from distributary.registry.base import Guid

MARKER = b"0123456789abcdef"


def _deflated(data: bytes) -> bytes:
    stream = zlib.compressobj(wbits=-15)
    return stream.compress(data) + stream.flush()


def _snappy(data: bytes) -> bytes:
    whole = pa.Codec("snappy").compress(data, asbytes=True)
    return bytes(whole) + zlib.crc32(data).to_bytes(4, "big")


def _zstandard(data: bytes) -> bytes:
    return bytes(pa.Codec("zstd").compress(data, asbytes=True))


COMPRESSED: Mapping[str, Callable[[bytes], bytes]] = {
    "null": bytes,
    "deflate": _deflated,
    "snappy": _snappy,
    "zstandard": _zstandard,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
}


def number(value: int) -> bytes:
    """A number as Avro writes it."""
    value = (value << 1) ^ (value >> 63)
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def sized(data: bytes) -> bytes:
    """Bytes as Avro writes them."""
    return number(len(data)) + data


def encoded(schema: Any, record: Any) -> bytes:
    """One record's bytes."""
    out = io.BytesIO()
    schemaless_writer(out, parse_schema(schema), record)
    return out.getvalue()


def block(count: int, data: bytes, codec: str = "null", marker: bytes = MARKER) -> bytes:
    """A block that says that it has so many records."""
    return number(count) + sized(COMPRESSED[codec](data)) + marker


def header(schema: Any, codec: str = "null") -> bytes:
    """What a container of such records begins with."""
    said = {b"avro.schema": json.dumps(schema).encode(), b"avro.codec": codec.encode()}
    entries = b"".join(sized(name) + sized(value) for name, value in said.items())
    return b"Obj\x01" + number(len(said)) + entries + number(0) + MARKER


def container(schema: Any, blocks: Sequence[Sequence[Any]], codec: str = "null") -> bytes:
    """A container with these records, in these blocks."""
    parts = [
        block(len(records), b"".join(encoded(schema, one) for one in records), codec) for records in blocks
    ]
    return header(schema, codec) + b"".join(parts)


def named(text: str) -> Guid:
    """The GUID of a schema, which nobody keeps."""
    return guid_of(text)


def read(of: str, data: bytes) -> tuple[dict[int, bytes], list[int], str]:
    """Each row's record, the first row of each gap, and why the rest cannot be read; empty where all can."""
    kind = load_container(of)
    assert kind is not None
    found, gaps = dict[int, bytes](), list[int]()
    try:
        for part in kind.rows(io.BytesIO(data), named):
            if isinstance(part, Gap):
                gaps.append(part.first)
                continue
            first, values = part
            assert len(values) <= 10_000
            for place, value in enumerate(values.to_pylist()):
                assert first + place not in found, "no row is handed on twice"
                found[first + place] = value
    except Damaged as error:
        return found, gaps, str(error)
    return found, gaps, ""
