"""Avro object containers: https://avro.apache.org/docs/1.12.0/specification/#object-container-files

Records are handed on as they stand in there, behind the header by which a registry's records name their schema: the GUID of the one
that the file was written with. A block that does not come out even is not believed at all, and the next one is looked for by
the marker that all blocks of a file end with.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from distributary.codecs.avro.decode.ends import MOST_EMPTY, RecordEnds
from distributary.codecs.containers.base import Damaged, Gap, Named, Naming, Part
from distributary.codecs.containers.compression import CODECS, LARGEST, Decompress
from distributary.codecs.wire.binary_rows import Longs
from distributary.errors import BadSchema

_MAGIC = b"Obj\x01"

_MARKER = 16

_BY_GUID = b"\x01"

_PIECE = 1 << 20

# What a header may take: a schema is no larger than what a registry would take.
_LARGEST_HEADER = 1 << 26

# Blocks that are split together, until they have so many rows or bytes; and rows that are handed on together.
_ROWS, _BYTES = 10_000, 4 << 20

# A file that is made of gaps is told as one that is damaged.
_MOST_GAPS = 1_000

_CUT_OFF = "it ends within a block: it was cut off"

_ASTRAY = "a block does not end where it says that it does, up to the next one that does"

_UNEVEN = "a block's bytes are not the records that it says it has"


class AvroFiles(Naming):
    """Avro object containers. Their schemas are Avro's, and each record names its file's."""

    decoded_as = "avro"

    def schema(self, file: Any) -> str:
        """The schema that a file was written with. Raises Damaged."""
        return _header(_Window(file)).schema

    def rows(self, file: Any, named: Named) -> Iterator[Part]:
        """The records of a file, each as it stands there behind its schema's GUID. Raises Damaged."""
        window = _Window(file)
        header = _header(window)
        try:
            splits = _Splits(RecordEnds(header.schema), _BY_GUID + UUID(named(header.schema)).bytes)
        except BadSchema as error:
            raise Damaged(f"its schema cannot be used: {error}") from None
        gaps = 0
        for part in splits.parts(_blocks(window, header)):
            gaps += isinstance(part, Gap)
            if gaps > _MOST_GAPS:
                raise Damaged(f"more than {_MOST_GAPS} blocks of it are damaged")
            yield part


@dataclass(frozen=True, slots=True)
class _Header:
    schema: str
    codec: str
    marker: bytes


@dataclass(frozen=True, slots=True)
class _Block:
    """A block that ends where it says: its first row, how many there are, and their bytes."""

    first: int
    count: int
    data: bytes


class _Short(Exception):
    """The file ends before, or what is there is no number."""


class _Window:
    """A file read from its beginning on, some of which is in memory."""

    def __init__(self, file: Any) -> None:
        self._file, self._held, self._at, self._end = file, b"", 0, 0

    @property
    def place(self) -> int:
        """How many bytes of the file were taken."""
        return self._end - len(self._held) + self._at

    def at_end(self) -> bool:
        return not self._has(1)

    def take(self, count: int) -> bytes:
        """Raises _Short."""
        if count < 0 or not self._has(count):
            raise _Short
        found = self._held[self._at : self._at + count]
        self._at += count
        return found

    def long(self) -> int:
        """A number as Avro writes it. Raises _Short."""
        value = shift = 0
        while True:
            (byte,) = self.take(1)
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift > 63:
                raise _Short
        return (value >> 1) ^ -(value & 1)

    def find(self, marker: bytes, begin: int) -> bool:
        """Go behind the first of these markers from there on; whether there is one."""
        self._file.seek(begin)
        self._held, self._at, self._end = b"", 0, begin
        while self._has(len(marker)):
            found = self._held.find(marker, self._at)
            if found >= 0:
                self._at = found + len(marker)
                return True
            self._at = len(self._held) - len(marker) + 1
        return False

    def _has(self, count: int) -> bool:
        while len(self._held) - self._at < count:
            piece = bytes(self._file.read(max(_PIECE, count - len(self._held) + self._at)))
            if not piece:
                return False
            self._held, self._at = self._held[self._at :] + piece, 0
            self._end += len(piece)
        return True


def _header(window: _Window) -> _Header:
    try:
        if window.take(len(_MAGIC)) != _MAGIC:
            raise Damaged("it does not begin as an Avro container does")
        said = _said(window)
        marker = window.take(_MARKER)
    except _Short:
        raise Damaged(
            "it ends within its header, or that is none: it was cut off, or is no Avro container"
        ) from None
    try:
        schema, codec = said["avro.schema"].decode(), said.get("avro.codec", b"null").decode()
        json.loads(schema)
    except (KeyError, ValueError, RecursionError):
        raise Damaged("its header has no schema that is JSON") from None
    if codec not in CODECS:
        raise Damaged(f"its blocks are compressed with another codec than {', '.join(CODECS)}")
    return _Header(schema, codec, marker)


def _said(window: _Window) -> dict[str, bytes]:
    """What stands in the header, a map of bytes. Raises _Short."""
    found: dict[str, bytes] = {}
    while count := window.long():
        if count < 0:
            count = -count
            window.long()
        for _ in range(count):
            name = _sized(window).decode("utf-8", "replace")
            found[name] = _sized(window)
    return found


def _sized(window: _Window) -> bytes:
    size = window.long()
    if size > _LARGEST_HEADER or window.place > _LARGEST_HEADER:
        raise _Short
    return window.take(size)


def _blocks(window: _Window, header: _Header) -> Iterator[_Block | Gap]:
    """The blocks in order, and what is in the place of those that are none. Raises Damaged where none comes any more."""
    row, decompressed = 0, CODECS[header.codec]
    while not window.at_end():
        begin = window.place
        stored = _stored(window, header.marker)
        if stored is None:
            if not window.find(header.marker, begin):
                raise Damaged(_CUT_OFF)
            yield Gap(row, _ASTRAY)
            row += 1
            continue
        count, data = stored
        block = _block(row, count, data, decompressed)
        yield block
        # What says of itself that it has more records than bytes is not believed in that, either.
        row += count if isinstance(block, _Block) else max(1, min(count, len(data)))


def _block(row: int, count: int, data: bytes, decompressed: Decompress) -> _Block | Gap:
    try:
        plain = decompressed(data)
    except Damaged as error:
        return Gap(row, str(error))
    return _Block(row, count, plain) if count <= max(len(plain), MOST_EMPTY) else Gap(row, _UNEVEN)


def _stored(window: _Window, marker: bytes) -> tuple[int, bytes] | None:
    """How many records the next block has, and its bytes as they are stored; None for one that does not end where it says."""
    try:
        count, size = window.long(), window.long()
        if count < 0 or size > LARGEST:
            return None
        data = window.take(size)
        return (count, data) if window.take(_MARKER) == marker else None
    except _Short:
        return None


class _Splits:
    """Takes blocks apart into records."""

    def __init__(self, ends: RecordEnds, prefix: bytes) -> None:
        """`prefix` is put before each record."""
        self._ends, self._prefix = ends, pa.scalar(prefix, pa.binary())

    def parts(self, blocks: Iterator[_Block | Gap]) -> Iterator[Part]:
        """The records of all blocks, in order, some blocks at a time."""
        waiting: list[_Block] = []
        try:
            for block in blocks:
                if isinstance(block, _Block):
                    waiting.append(block)
                    if not _is_enough(waiting):
                        continue
                yield from self._together(waiting)
                waiting = []
                if isinstance(block, Gap):
                    yield block
        except Damaged:
            yield from self._together(waiting)
            raise
        yield from self._together(waiting)

    def _together(self, blocks: Sequence[_Block]) -> Iterator[Part]:
        if len(blocks) > 1:
            data = b"".join(block.data for block in blocks)
            ends = self._ends.quickly(sum(block.count for block in blocks), data)
            # What one block lacks another might have to spare.
            if ends is not None and _is_even(blocks, ends):
                yield from self._handed_on(blocks[0].first, data, ends)
                return
        for block in blocks:
            ends = self._ends.quickly(block.count, block.data)
            ends = self._ends.one_by_one(block.count, block.data) if ends is None else ends
            if ends is None:
                yield Gap(block.first, _UNEVEN)
            else:
                yield from self._handed_on(block.first, block.data, ends)

    def _handed_on(self, first: int, data: bytes, ends: Longs) -> Iterator[Part]:
        offsets = np.concatenate([np.zeros(1, np.int64), ends]).astype(np.int32)
        bodies = pa.Array.from_buffers(
            pa.binary(), len(ends), [None, pa.py_buffer(offsets), pa.py_buffer(data)]
        )
        for at in range(0, len(ends), _ROWS):
            some = bodies.slice(at, _ROWS)
            yield first + at, pc.binary_join_element_wise(self._prefix, some, _NOTHING)


_NOTHING = pa.scalar(b"", pa.binary())


def _is_even(blocks: Sequence[_Block], ends: Longs) -> bool:
    """Whether a record ends where each block does."""
    counts, sizes = (
        np.cumsum(of) for of in zip(*((one.count, len(one.data)) for one in blocks), strict=True)
    )
    before = np.concatenate([np.zeros(1, np.int64), ends])
    return bool((before[counts] == sizes).all())


def _is_enough(blocks: Sequence[_Block]) -> bool:
    rows, size = sum(block.count for block in blocks), sum(len(block.data) for block in blocks)
    return rows >= _ROWS or size >= _BYTES
