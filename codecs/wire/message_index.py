"""Confluent's Protobuf message index: which message of a schema a record is, read for many records at once.

A zigzag varint count, then that many zigzag varints, each an index into the messages of the level above:
[1, 0] is the first message nested in the file's second one. A count of zero, one byte, stands for [0].
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from distributary.codecs.types.masks import Mask
from distributary.codecs.wire.binary_rows import (
    BinaryRows,
    Longs,
)

# protoc itself refuses messages nested more deeply than this.
MAX_DEPTH = 32

# Java's readVarint, which reads these headers too, knows 32 bits in at most five bytes.
_MAX_VARINT = 5

_FIRST = (0,)


@dataclass(slots=True)
class MessageIndexes:
    """Per row: `path` (an index into `paths`), how many bytes it took, and whether it ended early or is not one."""

    path: Longs
    paths: Sequence[tuple[int, ...]]
    size: Longs
    truncated: Mask
    invalid: Mask


def read_message_indexes(view: BinaryRows, at: Longs, wanted: Mask) -> MessageIndexes:
    """The message index that starts at byte `at` of `view.data`, of the rows wanted."""
    count = len(at)
    found = MessageIndexes(
        np.zeros(count, np.int64),
        [_FIRST],
        np.ones(count, np.int64),
        wanted & (at >= view.end),
        np.zeros(count, bool),
    )
    rare = np.flatnonzero(wanted & ~found.truncated)
    rare = rare[view.data[at[rare]] != 0]
    if len(rare):
        _read_long_forms(view, at, rare, found)
    return found


def _read_long_forms(view: BinaryRows, at: Longs, rows: Longs, found: MessageIndexes) -> None:
    """Fills in what the rows without the one-byte shortcut hold, one level of nesting a turn."""
    cursor = _Cursor(view.data, at[rows], view.end[rows])
    depth = cursor.next(np.ones(len(rows), bool))
    cursor.invalid |= depth > MAX_DEPTH
    depth[cursor.spoiled] = 0
    levels = np.full((len(rows), max(int(depth.max()), 1)), -1, np.int64)
    levels[:, 0] = 0
    for level in range(int(depth.max())):
        deep = (depth > level) & ~cursor.spoiled
        levels[deep, level] = cursor.next(deep)[deep]
    found.truncated[rows], found.invalid[rows] = cursor.truncated, cursor.invalid
    found.size[rows] = cursor.at - at[rows]
    good = ~cursor.spoiled
    found.path[rows[good]], found.paths = _distinct(levels[good])


def _distinct(levels: npt.NDArray[np.int64]) -> tuple[Longs, list[tuple[int, ...]]]:
    """Each row's path as an index into the list of paths, whose first is always [0]."""
    width = levels.shape[1] * 8
    packed = pa.Array.from_buffers(
        pa.binary(width), len(levels), [None, pa.py_buffer(np.ascontiguousarray(levels))]
    )
    encoded = packed.dictionary_encode()
    distinct = np.frombuffer(b"".join(encoded.dictionary.to_pylist()), np.int64).reshape(-1, levels.shape[1])
    paths = [_FIRST, *(tuple(index for index in row if index >= 0) for row in distinct.tolist())]
    return encoded.indices.to_numpy().astype(np.int64) + 1, paths


class _Cursor:
    """Reads one varint after another from many rows side by side."""

    def __init__(self, data: npt.NDArray[np.uint8], at: Longs, end: Longs) -> None:
        self.data, self.at, self.end = data, at.copy(), end
        self.truncated = np.zeros(len(at), bool)
        self.invalid = np.zeros(len(at), bool)

    @property
    def spoiled(self) -> Mask:
        return self.truncated | self.invalid

    def next(self, wanted: Mask) -> Longs:
        """The zigzag varint at each wanted row's place; negative or oversized ones mark their row as invalid."""
        value = np.zeros(len(self.at), np.int64)
        going = np.flatnonzero(wanted)
        for turn in range(_MAX_VARINT):
            ended = self.at[going] >= self.end[going]
            self.truncated[going[ended]] = True
            going = going[~ended]
            byte = self.data[self.at[going]].astype(np.int64)
            self.at[going] += 1
            value[going] |= (byte & 0x7F) << (7 * turn)
            going = going[byte >= 0x80]
        self.invalid[going] = True
        decoded = (value >> 1) ^ -(value & 1)
        decoded[self.truncated] = 0
        self.invalid |= wanted & ((decoded < 0) | (value >= 2**32) & ~self.truncated)
        return decoded
