"""How a record names its schema in the wire format of the AWS Glue Schema Registry, read for a whole Arrow batch at once.

0x03, a byte that says whether the rest is compressed (0x00 plain, 0x05 zlib), the schema version's 16-byte UUID, the body
(https://github.com/awslabs/aws-glue-schema-registry, GlueSchemaRegistryDeserializerDataParser). A Protobuf body begins with
which message of the schema it is, one varint, within what is compressed (ProtobufWireFormatDecoder).
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from distributary.codecs import reasons
from distributary.codecs.types.masks import Mask
from distributary.codecs.wire.binary_rows import BinaryRows, Longs
from distributary.codecs.wire.header import TOMBSTONE, Frames, Kind, distinct, guids

HEADER_BYTES = 18

# Far more than any broker takes for a record, and little enough that a worker holds a few.
MOST_BYTES = 64 * 2**20

# What is unfolded of a batch while its headers are read is kept up to here; the rest is unfolded once more when its turn comes.
_KEPT_BYTES = 64 * 2**20

# So much is decoded at once.
_AT_ONCE_BYTES = 2 * MOST_BYTES

_ZLIB = 5

# Java's readUInt32 takes more bytes than these and throws away what they say.
_MAX_VARINT = 5

Error = tuple[int, str]

# How a row's error is numbered; 0 is none.
_REASONS = (
    "",
    reasons.TRUNCATED_HEADER,
    reasons.UNKNOWN_COMPRESSION,
    reasons.NO_GLUE_HEADER,
    reasons.NO_HEADER,
)

_TRUNCATED, _COMPRESSION, _NO_GLUE, _EMPTY = range(1, 5)


class NotUnfolded(ValueError):
    """A compressed body is no whole zlib stream, or too large; the argument is the reason code."""


def split(values: pa.Array, *, message_index: bool) -> Frames:
    """What each value of a batch says of its schema, in Glue's wire format.

    values         Kafka's values, as binary
    message_index  whether a body begins with the number of its message, which is then the path, as `(number,)`
    """
    view = BinaryRows.of(values)
    code, packed = _looked_at(view)
    bodies = _Bodies(view, np.full(len(values), HEADER_BYTES, np.int64), packed)
    errors = [(int(row), _REASONS[code[row]]) for row in np.flatnonzero(view.valid & (code > 0))]
    good = view.valid & (code == 0)
    errors += bodies.check(np.flatnonzero(good & packed))
    good[[row for row, _ in errors]] = False
    numbers = np.zeros(len(values), np.int64)
    if message_index:
        errors += bodies.take_numbers(np.flatnonzero(good), numbers)
        good[[row for row, _ in errors]] = False
    kind, kinds = _kinds(view, good, numbers if message_index else None)
    kind[~view.valid] = TOMBSTONE
    told = sorted((row, reason, reasons.SENTENCES[reason]) for row, reason in errors)
    start = np.where(good & ~packed, bodies.start, 0)
    return Frames(kind, kinds, start, told, bodies if (good & packed).any() else None)


def _looked_at(view: BinaryRows) -> tuple[npt.NDArray[np.int8], Mask]:
    """What is wrong with each value's header, 0 where nothing is, and whether its body is compressed."""
    words, length = view.leading_words(), view.end - view.begin
    first, second = ((words >> np.uint64(shift)).astype(np.uint8) for shift in (56, 48))
    code = np.zeros(len(words), np.int8)
    code[length < HEADER_BYTES] = _TRUNCATED
    code[(length >= 2) & (second != 0) & (second != _ZLIB)] = _COMPRESSION
    code[first != 3] = _NO_GLUE
    code[length == 0] = _EMPTY
    return code, second == _ZLIB


def _kinds(view: BinaryRows, good: Mask, numbers: Longs | None) -> tuple[npt.NDArray[np.int32], list[Kind]]:
    """Each good row's kind, as an index into the distinct ones."""
    rows = np.flatnonzero(good)
    if not len(rows):
        return distinct(np.zeros(len(good), np.int64), good)[0], []
    key = np.zeros(len(good), np.int64)
    which, found = guids(view, rows, 2)
    if numbers is None:
        key[rows] = which
        kind, kept = distinct(key, good)
        return kind, [(found[one], ()) for one in kept]
    key[rows] = which * 2**32 + numbers[rows]
    kind, kept = distinct(key, good)
    return kind, [(found[one >> 32], (one & (2**32 - 1),)) for one in kept]


def unfolded(packed: bytes | memoryview, most: int = MOST_BYTES) -> bytes:
    """What a zlib stream holds. Raises NotUnfolded, for more than `most` bytes after no more work than these take."""
    stream = zlib.decompressobj()
    try:
        found = stream.decompress(packed, most + 1)
    except zlib.error:
        raise NotUnfolded(reasons.BAD_COMPRESSION) from None
    if len(found) > most:
        raise NotUnfolded(reasons.INFLATED_TOO_LARGE)
    if not stream.eof or stream.unused_data:
        raise NotUnfolded(reasons.BAD_COMPRESSION)
    return found


@dataclass(slots=True)
class _Bodies:
    """The bodies of a batch: where each begins, in its value or in what that unfolds to."""

    view: BinaryRows
    start: Longs
    packed: Mask
    size: Longs = field(init=False)
    kept: dict[int, bytes] = field(default_factory=dict)
    room: int = field(default_factory=lambda: _KEPT_BYTES)

    def __post_init__(self) -> None:
        self.size = self.view.end - self.view.begin

    def check(self, rows: Iterable[int]) -> list[Error]:
        """Those of these compressed rows that cannot be unfolded."""
        errors = []
        for row in map(int, rows):
            try:
                found = unfolded(self._behind_header(row))
            except NotUnfolded as error:
                errors.append((row, str(error)))
                continue
            self.start[row], self.size[row] = 0, len(found)
            if len(found) <= self.room:
                self.room -= len(found)
                self.kept[row] = found
        return errors

    def take_numbers(self, rows: Longs, numbers: Longs) -> list[Error]:
        """Reads the varint that each of these rows' bodies begins with; those that have none."""
        errors = []
        for row in self._without_short_ones(rows, numbers).tolist():
            found = _varint(self._whole(row)[self.start[row] :][:_MAX_VARINT])
            if isinstance(found, str):
                errors.append((row, found))
                continue
            numbers[row], size = found
            self.start[row] += size
        return errors

    def _without_short_ones(self, rows: Longs, numbers: Longs) -> Longs:
        """The rows without those that are not compressed and whose number is one byte, which nearly all are: these are read."""
        plain = rows[~self.packed[rows]]
        at = self.view.begin[plain] + self.start[plain]
        plain, at = plain[at < self.view.end[plain]], at[at < self.view.end[plain]]
        byte = self.view.data[at]
        short = plain[byte < 0x80]
        numbers[short] = byte[byte < 0x80]
        self.start[short] += 1
        return np.setdiff1d(rows, short, assume_unique=True)

    def portions(self, rows: Longs) -> Iterator[Longs]:
        """The rows in their order, no more at once than have bodies of 128 MiB together, and one at the least."""
        ends = np.cumsum(self.size[rows])
        begin = 0
        while begin < len(rows):
            before = ends[begin - 1] if begin else 0
            end = max(begin + 1, int(np.searchsorted(ends, before + _AT_ONCE_BYTES, "right")))
            yield rows[begin:end]
            begin = end

    def of(self, rows: npt.NDArray[np.integer]) -> pa.BinaryArray:
        """The bodies of these rows."""
        if not self.packed[rows].any():
            return self.view.tails(self.start, rows)
        found = [memoryview(self._whole(row))[self.start[row] :] for row in rows.tolist()]
        return pa.array(found, pa.binary())

    def _whole(self, row: int) -> bytes | memoryview:
        """A row's value, or what is compressed in it."""
        if not self.packed[row]:
            return self.view.data.data[self.view.begin[row] : self.view.end[row]]
        kept = self.kept.get(row)
        return unfolded(self._behind_header(row)) if kept is None else kept

    def _behind_header(self, row: int) -> memoryview:
        return self.view.data.data[self.view.begin[row] + HEADER_BYTES : self.view.end[row]]


def _varint(data: bytes | memoryview) -> tuple[int, int] | str:
    """An unsigned varint and how many bytes it takes, or the reason why there is none."""
    value = 0
    for place, byte in enumerate(data):
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return (value, place + 1) if value < 2**31 else reasons.BAD_MESSAGE_INDEX
    return reasons.BAD_MESSAGE_INDEX if len(data) == _MAX_VARINT else reasons.TRUNCATED_HEADER
