"""Columns of any type as numbers that compare as their values do."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

Ranks = npt.NDArray[np.int64]

_LOWEST = np.iinfo(np.int64).min


def ranks(column: pa.ChunkedArray) -> Ranks:
    """A number for each value: null is the lowest, NaN the highest, and both zeros are the same."""
    if pat.is_integer(column.type) or pat.is_temporal(column.type) or pat.is_boolean(column.type):
        whole = _whole(column)
        numbers = _of_integers(whole)
        # The lowest integer is not told from null by itself.
        if (
            not whole.null_count
            or not len(whole)
            or numbers[whole.is_valid().to_numpy(zero_copy_only=False)].min(initial=0) > _LOWEST
        ):
            return numbers
    if pat.is_floating(column.type):
        return _of_floats(_whole(column))
    return _dense(column)


def _of_integers(whole: pa.Array) -> Ranks:
    if pat.is_boolean(whole.type):
        whole = whole.cast(pa.int8())
    elif pat.is_temporal(whole.type):
        whole = whole.view(pa.int32() if whole.type.bit_width == 32 else pa.int64())
    numbers: Ranks = whole.cast(pa.int64()).fill_null(_LOWEST).to_numpy(zero_copy_only=False)
    return numbers


def _of_floats(whole: pa.Array) -> Ranks:
    values = whole.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False) + 0.0
    bits = values.view(np.int64)
    # Those of negative numbers run backwards.
    found: Ranks = np.where(bits < 0, bits ^ np.iinfo(np.int64).max, bits)
    found[np.isnan(values)] = np.iinfo(np.int64).max
    if whole.null_count:
        found[whole.is_null().to_numpy(zero_copy_only=False)] = _LOWEST
    return found


def _dense(column: pa.ChunkedArray) -> Ranks:
    # Arrow's own ranks do not take every type; its order of distinct values does.
    whole = _whole(column)
    encoded = whole.dictionary_encode()
    order = pc.array_sort_indices(encoded.dictionary).to_numpy(zero_copy_only=False)
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    found = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    numbers: Ranks = np.full(len(found), -1, dtype=np.int64)
    there = found >= 0
    numbers[there] = place[found[there]]
    return numbers


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
