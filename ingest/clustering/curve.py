"""A curve through the values of several columns: rows that follow each other on it are near each other in each of them.

It is Hilbert's, through a cube whose sides are the columns' values by their rank, so that it does not matter what lies between
two values, but how many rows do. J. Skilling, Programming the Hilbert curve, AIP Conference Proceedings 707 (2004),
https://doi.org/10.1063/1.1751381
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Places = npt.NDArray[np.uint64]
"""Where rows are on a curve."""

Ranks = npt.NDArray[np.uint32]

BITS = 10
"""Of a rank: a thousand stretches of a column's values, as Spark makes them, which four columns have room for."""

SAMPLE = 64 * 2**BITS
"""How many rows tell well enough where the stretches end."""


class Curve:
    """A curve through columns, by where their stretches end."""

    def __init__(self, ends: Sequence[pa.Array]) -> None:
        """For each column in its order the values at which another stretch begins, ascending, of which several may be equal."""
        self._ends = ends

    @classmethod
    def through(cls, sample: Sequence[pa.Array]) -> Curve:
        """The curve by some of the rows' values, of each column as many."""
        return cls([_ends(values) for values in sample])

    def places(self, columns: Sequence[pa.Array]) -> Places:
        """Where rows are on it, by their values in the same columns."""
        return hilbert([ranks(values, ends) for values, ends in zip(columns, self._ends, strict=True)], BITS)


def _ends(values: pa.Array) -> pa.Array:
    there = values.drop_null()
    if not len(there):
        return there
    ordered = there.take(pc.array_sort_indices(there))
    # As many rows lie between any two of them. What is in more rows than that is there several times, and all else as far apart.
    wanted = np.linspace(0, len(ordered), 2**BITS, endpoint=False, dtype=np.int64)[1:]
    return ordered.take(pa.array(wanted))


def ranks(values: pa.Array, ends: pa.Array) -> Ranks:
    """For each value at how many ends of stretches it is, or behind them: 0 for those before all, and for null."""
    both = pa.concat_arrays([ends, values])
    # Stable: an end comes before the values that are equal to it. And nulls before all.
    order = pc.array_sort_indices(both, null_placement="at_start").to_numpy()
    is_value = order >= len(ends)
    found = np.empty(len(values), np.uint32)
    found[order[is_value] - len(ends)] = np.cumsum(~is_value, dtype=np.uint32)[is_value]
    return found


def hilbert(sides: Sequence[Ranks], bits: int) -> Places:
    """Where points are on Hilbert's curve through a cube, by their places on each side of it, which are below 2**bits."""
    at = [np.array(side, np.uint32) for side in sides]
    # From the whole cube to the smallest ones in it: where the curve is turned or mirrored, the points within are, back.
    for bit in range(bits - 1, 0, -1):
        half, within = np.uint32(1 << bit), np.uint32((1 << bit) - 1)
        for place, side in enumerate(at):
            is_beyond = (side & half) != 0
            swapped = np.where(is_beyond, np.uint32(0), (at[0] ^ side) & within)
            at[0] = at[0] ^ np.where(is_beyond, within, swapped)
            # The first side is swapped with itself: nothing.
            if place:
                at[place] = side ^ swapped
    for place in range(1, len(at)):
        at[place] = at[place] ^ at[place - 1]
    flipped = np.zeros_like(at[-1])
    for bit in range(bits - 1, 0, -1):
        flipped ^= np.where((at[-1] >> np.uint32(bit)) & 1, np.uint32((1 << bit) - 1), np.uint32(0))
    found = np.zeros(len(at[0]), np.uint64)
    for bit in range(bits - 1, -1, -1):
        for side in at:
            found = (found << np.uint64(1)) | (((side ^ flipped) >> np.uint32(bit)) & np.uint32(1))
    return found
