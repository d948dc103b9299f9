"""What a block of an Avro container is compressed with: https://avro.apache.org/docs/1.12.0/specification/#required-codecs

No block may become larger than LARGEST, so that no file of a few bytes takes all memory.
"""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from distributary.codecs.containers.base import Damaged

LARGEST = 1 << 28
"""How many bytes a block may have, as it is stored and as it is decompressed."""

Decompress = Callable[[bytes], bytes]

_RAW_DEFLATE = -zlib.MAX_WBITS

_CRC_BYTES = 4


def _by(name: str, begin: Callable[[], Any], *broken: type[Exception]) -> Decompress:
    """A way that has a stream of its own in Python's library, which raises these for what is none of its."""

    def decompress(data: bytes) -> bytes:
        stream = begin()
        try:
            whole = stream.decompress(data, LARGEST + 1)
        except broken:
            raise _broken(name) from None
        return _whole(whole, name, ended=stream.eof)

    return decompress


_deflate = _by("deflate", lambda: zlib.decompressobj(_RAW_DEFLATE), zlib.error)
_bzip2 = _by("bzip2", bz2.BZ2Decompressor, OSError, ValueError)
_xz = _by("xz", lzma.LZMADecompressor, lzma.LZMAError)


def _zstandard(data: bytes) -> bytes:
    try:
        whole = pa.CompressedInputStream(pa.BufferReader(data), "zstd").read(LARGEST + 1)
    except (OSError, ValueError):
        raise _broken("zstandard") from None
    return _whole(bytes(whole), "zstandard", ended=True)


def _snappy(data: bytes) -> bytes:
    """With the checksum of what was compressed behind it: https://avro.apache.org/docs/1.12.0/specification/#snappy"""
    body, checksum = data[:-_CRC_BYTES], data[-_CRC_BYTES:]
    size = _snappy_size(body)
    if size > LARGEST:
        raise _too_large()
    try:
        whole = pa.Codec("snappy").decompress(body, size, asbytes=True)
    except (OSError, ValueError):
        raise _broken("snappy") from None
    if zlib.crc32(whole) != int.from_bytes(checksum, "big"):
        raise Damaged("a block of it has another checksum than snappy's says")
    return bytes(whole)


def _snappy_size(body: bytes) -> int:
    """How many bytes it says that it becomes: https://github.com/google/snappy/blob/main/format_description.txt"""
    size = 0
    for place, byte in enumerate(body[:5]):
        size |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return size
    raise _broken("snappy")


def _whole(data: bytes, codec: str, *, ended: bool) -> bytes:
    if len(data) > LARGEST:
        raise _too_large()
    if not ended:
        raise _broken(codec)
    return data


def _broken(codec: str) -> Damaged:
    return Damaged(f"{codec} cannot decompress a block of it")


def _too_large() -> Damaged:
    return Damaged(f"a block of it has more than {LARGEST >> 20} MiB, which no worker holds")


CODECS: Mapping[str, Decompress] = {
    "null": lambda data: data,
    "deflate": _deflate,
    "snappy": _snappy,
    "zstandard": _zstandard,
    "bzip2": _bzip2,
    "xz": _xz,
}
"""By the names that a container's header has for them."""
