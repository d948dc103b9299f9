"""Deletion vectors: which rows of a data file are no rows of its table any more.

https://github.com/delta-io/delta/blob/master/PROTOCOL.md#deletion-vectors
"""

from __future__ import annotations

import base64
import re
import struct
import uuid
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap, BitMap64

from distributary.ingest.parquet.data_file import generation_mark
from distributary.ingest.storage.contract import Files

Positions = npt.NDArray[np.uint32]
"""Rows of a file, by their numbers in it, ascending."""

# What begins a file of vectors, and what begins each of them: the portable form of several bitmaps, of 32 bits each.
_VERSION = b"\x01"
_MAGIC = struct.pack("<i", 1681511377)
_ONE_BITMAP = struct.pack("<qi", 1, 0)

# Beside a vector in its file: its size before it, and its sum behind it.
_SIZE, _SUM = struct.Struct(">i"), struct.Struct(">I")

_UUID_LETTERS = 20

_NAME = "deletion_vector_"

_FILE = re.compile(
    rf"{_NAME}([0-9a-f]{{8}})-([0-9a-f]{{4}})-([0-9a-f]{{4}})-([0-9a-f]{{4}})-[0-9a-f]{{12}}\.bin"
)


class WrongVector(ValueError):
    """A deletion vector that is not what its descriptor says."""


@dataclass(frozen=True, slots=True)
class VectorFile:
    """A file of vectors, not yet there.

    name         its name in the table's folder
    content      what it has
    descriptors  what the log says of each vector, in the order that they were given
    """

    name: str
    content: bytes
    descriptors: Sequence[Mapping[str, Any]]


def vector_file(generation: str, batch_id: int, vectors: Sequence[Positions]) -> VectorFile:
    """A file with these vectors; its name says whose it is, as those of data files do, as far as Delta lets one choose it."""
    number = uuid.UUID(f"{generation_mark(generation)}{batch_id:012x}{uuid.uuid4().hex[:12]}")
    content, told = bytearray(_VERSION), list[dict[str, Any]]()
    for rows in vectors:
        bits = encoded(rows)
        told.append(
            {
                "storageType": "u",
                "pathOrInlineDv": _text_of(number),
                "offset": len(content),
                "sizeInBytes": len(bits),
                "cardinality": len(rows),
            }
        )
        content += _SIZE.pack(len(bits)) + bits + _SUM.pack(zlib.crc32(bits))
    return VectorFile(f"{_NAME}{number}.bin", bytes(content), told)


def mark_of(generation: str, batch_id: int) -> str:
    """What the names of a batch's files of vectors begin with."""
    digits = f"{batch_id:012x}"
    return f"{_NAME}{generation_mark(generation)}-{digits[:4]}-{digits[4:8]}-{digits[8:]}-"


def owner(name: str) -> tuple[str, int] | None:
    """The generation's mark and the batch that a file of vectors says it was made for, whoever made it; None for a file of another name."""
    found = _FILE.fullmatch(name)
    return (found[1], int("".join(found.groups()[1:]), 16)) if found else None


def file_of(descriptor: Mapping[str, Any]) -> str | None:
    """The file, in its table's folder, that a vector is in; None of one that is in the log itself, or in another folder."""
    if descriptor["storageType"] != "u":
        return None
    text = descriptor["pathOrInlineDv"]
    number = uuid.UUID(bytes=_unletter(text[-_UUID_LETTERS:]))
    return f"{text[:-_UUID_LETTERS]}/{_NAME}{number}.bin".lstrip("/")


def read(place: Files, descriptor: Mapping[str, Any], known: dict[str, bytes] | None = None) -> Positions:
    """The rows that a vector marks. Raises WrongVector, FileNotFoundError.

    `known` keeps the content of files, which mostly have several vectors.
    """
    size = descriptor["sizeInBytes"]
    if descriptor["storageType"] == "i":
        return _checked(_unletter(descriptor["pathOrInlineDv"])[:size], descriptor)
    name = file_of(descriptor)
    if name is None:
        raise WrongVector(f"a deletion vector is outside of its table: {descriptor['pathOrInlineDv']}")
    kept = {} if known is None else known
    if name not in kept:
        kept[name] = place.read(name)
    begin = descriptor.get("offset") or 0
    part = kept[name][begin : begin + _SIZE.size + size + _SUM.size]
    bits = part[_SIZE.size : -_SUM.size]
    if part != _SIZE.pack(size) + bits + _SUM.pack(zlib.crc32(bits)):
        raise WrongVector(f"the deletion vector in {place}/{name} at byte {begin} is damaged")
    return _checked(bits, descriptor)


def encoded(rows: Positions) -> bytes:
    """A vector's bytes."""
    return _MAGIC + _ONE_BITMAP + BitMap(rows).serialize()


def decoded(bits: bytes) -> Positions:
    """The rows that a vector's bytes mark. Raises WrongVector."""
    if bits[: len(_MAGIC)] != _MAGIC:
        raise WrongVector(f"a deletion vector begins with {bits[: len(_MAGIC)].hex()}")
    try:
        found = BitMap64.deserialize(bits[len(_MAGIC) :]).to_array()
    except (ValueError, MemoryError, OverflowError) as error:
        raise WrongVector(f"a deletion vector cannot be read: {error}") from None
    return np.asarray(found, dtype=np.uint64).astype(np.uint32)


def _checked(bits: bytes, descriptor: Mapping[str, Any]) -> Positions:
    found = decoded(bits)
    if len(found) != descriptor["cardinality"]:
        raise WrongVector(f"a deletion vector marks {len(found)} rows, not {descriptor['cardinality']}")
    return found


def _text_of(number: uuid.UUID) -> str:
    """Five letters for four bytes, by Z85: https://rfc.zeromq.org/spec/32/."""
    return base64.b85encode(number.bytes).translate(_TO_Z85).decode()


def _unletter(text: str) -> bytes:
    return base64.b85decode(text.encode().translate(_FROM_Z85))


# Python's letters for numbers to the base of 85, and those of Z85.
_PYTHONS = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_Z85 = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_TO_Z85 = bytes.maketrans(_PYTHONS, _Z85)
_FROM_Z85 = bytes.maketrans(_Z85, _PYTHONS)
