"""An Arrow binary array seen as numpy: one buffer of bytes, and where each row begins and ends in it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from distributary.codecs.types.masks import Mask

Longs = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class BinaryRows:
    """The rows of a binary array, no byte copied: row i is `data[begin[i]:end[i]]`, meaningless unless `valid[i]`."""

    data: npt.NDArray[np.uint8]
    begin: Longs
    end: Longs
    valid: Mask

    @classmethod
    def of(cls, values: pa.Array) -> BinaryRows:
        """The rows of a binary, large binary, string, binary view or fixed-size binary array, sliced or not."""
        if not (pa.types.is_binary(values.type) or pa.types.is_large_binary(values.type)):
            values = values.cast(pa.large_binary())
        width = np.dtype(np.int32 if pa.types.is_binary(values.type) else np.int64)
        _, offsets, data = values.buffers()
        edges = np.zeros(1, np.int64)
        if len(values):
            first = values.offset * width.itemsize
            edges = np.frombuffer(offsets, width, len(values) + 1, first).astype(np.int64)
        bytes_ = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
        valid = np.ones(len(values), bool)
        if values.null_count:
            valid = values.is_valid().to_numpy(zero_copy_only=False)
        return cls(bytes_, edges[:-1], edges[1:], valid)

    def leading_words(self) -> npt.NDArray[np.uint64]:
        """Each row's first eight bytes, big-endian; what lies behind a shorter row's end is arbitrary."""
        data = self.data if len(self.data) >= 8 else np.concatenate([self.data, np.zeros(8, np.uint8)])
        # One unaligned read a row instead of eight; near the buffer's end it reads earlier and shifts.
        words = np.ndarray((len(data) - 7,), ">u8", data, strides=(1,))
        at = np.minimum(self.begin, len(data) - 8)
        found = words[at].astype(np.uint64)
        late = np.flatnonzero(at != self.begin)
        shift = np.minimum((self.begin[late] - at[late]) * 8, 63).astype(np.uint64)
        found[late] <<= shift
        return found

    def tails(self, start: Longs, rows: npt.NDArray[np.integer] | None) -> pa.BinaryArray:
        """The bytes from `start` to the row's end, for all rows or for these, which must ascend; each copied once."""
        begin, end = self.begin + start, self.end
        if rows is not None:
            begin, end = begin[rows], end[rows]
        # The wanted ranges and the gaps between them are the elements of an array over the same bytes, so that
        # Arrow's own `take` does the copying.
        edges = np.empty(2 * len(begin), np.int64)
        edges[0::2], edges[1::2] = begin, end
        if (edges[1:] < edges[:-1]).any():
            raise ValueError("the rows to take do not ascend, or a body begins behind its row's end")
        return _even_elements(self.data, edges)


def _even_elements(data: npt.NDArray[np.uint8], edges: Longs) -> pa.BinaryArray:
    if not len(edges):
        return pa.array([], pa.binary())
    small = int(edges[-1]) < 2**31
    offsets = pa.py_buffer(edges.astype(np.int32) if small else edges)
    kind = pa.binary() if small else pa.large_binary()
    ranges = pa.Array.from_buffers(kind, len(edges) - 1, [None, offsets, pa.py_buffer(data)])
    return ranges.take(pa.array(np.arange(0, len(edges), 2))).cast(pa.binary())
