"""Decimals as Avro writes them (two's complement, big-endian, any length) to Arrow's 128 bits, whole columns at once."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from distributary.codecs.binary_rows import BinaryRows

_WIDTH = 16


def decimals(raw: pa.Array, kind: pa.Decimal128Type) -> pa.Array:
    """The numbers in an array of bytes without nulls.

    Raises ValueError for one that is empty, longer than 16 bytes or too large for its type.
    """
    rows = BinaryRows.of(raw)
    size = rows.end - rows.begin
    if len(size) and (size.min() < 1 or size.max() > _WIDTH):
        raise ValueError("a decimal is empty or longer than 16 bytes")
    # Arrow's are little-endian: byte k counts from the end; what is missing repeats the sign.
    place = np.arange(_WIDTH)[None, :]
    at = np.maximum(rows.end[:, None] - 1 - place, rows.begin[:, None])
    filled = rows.data[at] if len(size) else np.zeros((0, _WIDTH), np.uint8)
    sign = np.where(rows.data[rows.begin] >= 0x80, 0xFF, 0).astype(np.uint8) if len(size) else size
    little = np.where(place < size[:, None], filled, sign[:, None]).astype(np.uint8)
    found = pa.Array.from_buffers(kind, len(size), [None, pa.py_buffer(np.ascontiguousarray(little))])
    found.validate(full=True)
    return found
