"""Which key of a batch a row has, exactly: by Arrow's hash tables, one column after the other."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Codes = npt.NDArray[np.int64]
"""The number of each row's key; -1 where it is none of the batch's."""

NONE = -1


class KeyIndex:
    """The distinct keys of some rows, numbered.

    own    the numbers of these rows' keys
    count  how many keys there are

    A key of several columns is numbered by the numbers of its first columns' values together, and so on: nothing is hashed into less than it is.
    """

    def __init__(self, columns: Sequence[pa.ChunkedArray]) -> None:
        """Each column holds a part of the keys, none of which is null."""
        self._values: list[pa.Array] = []
        self._pairs: list[pa.Array] = []
        codes: Codes | None = None
        for column in columns:
            comparable = _comparable(column)
            self._values.append(pc.unique(comparable))
            found = _numbers(comparable, self._values[-1])
            if codes is not None:
                paired = pa.array(codes * len(self._values[-1]) + found)
                self._pairs.append(pc.unique(paired))
                found = _numbers(paired, self._pairs[-1])
            codes = found
        self.own: Codes = np.empty(0, dtype=np.int64) if codes is None else codes
        self.count = len((self._pairs or self._values)[-1])

    @property
    def values(self) -> Sequence[pa.Array]:
        """The distinct values of each column of the keys."""
        return self._values

    def codes(self, columns: Sequence[pa.ChunkedArray]) -> Codes:
        """The numbers of these rows' keys."""
        codes = _numbers(_comparable(columns[0]), self._values[0])
        for column, values, pairs in zip(columns[1:], self._values[1:], self._pairs, strict=True):
            found = _numbers(_comparable(column), values)
            paired = np.where((codes >= 0) & (found >= 0), codes * len(values) + found, NONE)
            codes = _numbers(pa.array(paired), pairs)
        return codes


def _numbers(values: pa.Array | pa.ChunkedArray, of: pa.Array) -> Codes:
    found = pc.index_in(values, value_set=of, skip_nulls=True)
    whole = found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found
    numbers: Codes = whole.fill_null(NONE).to_numpy(zero_copy_only=False).astype(np.int64)
    return numbers


def _comparable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The values so that what is equal looks equal: of floating-point ones there are two zeros, and many that are no number."""
    if not pa.types.is_floating(column.type):
        return column
    nan = pa.scalar(math.nan, column.type)
    return pc.if_else(pc.is_nan(column), nan, pc.add(column, pa.scalar(0.0, column.type)))
