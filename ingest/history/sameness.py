"""Whether two rows say the same, value by value: as those who read a table would see it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from distributary.codecs.types.walk import children

Mask = npt.NDArray[np.bool_]

Numbers = npt.NDArray[np.int64]


def same(left: pa.Array, right: pa.Array) -> Mask:
    """For which rows two columns of one type and length have the same value: null is the same as null, and NaN as NaN.

    Lists, and the entries of maps, are the same in the same order.
    """
    there, other = _valid(left), _valid(right)
    both = there & other
    found: Mask = there == other
    if both.any():
        places = np.flatnonzero(both)
        taken = pa.array(places)
        found[places] = _equal(left.take(taken), right.take(taken))
    return found


def same_but(left: pa.Array, right: pa.Array, whole: pa.DataType) -> Mask:
    """The same for columns of which some was left out that they have in `whole`.

    Of a struct that has lost a part all others count by themselves, and not whether it is there: where a schema has none of the others
    nobody can tell.
    """
    if left.type == whole:
        return same(left, right)
    found = np.ones(len(left), dtype=bool)
    for field, one, other in zip(children(left.type), left.flatten(), right.flatten(), strict=True):
        found &= same_but(one, other, whole.field(field.name).type)
    return found


def _equal(left: pa.Array, right: pa.Array) -> Mask:
    """The same where none of the values is null."""
    dtype = left.type
    if kinds.is_struct(dtype):
        found = np.ones(len(left), dtype=bool)
        for one, other in zip(left.flatten(), right.flatten(), strict=True):
            found &= same(one, other)
        return found
    if kinds.is_map(dtype) or kinds.is_list(dtype) or kinds.is_large_list(dtype):
        return _equal_lists(left, right)
    if kinds.is_null(dtype):
        return np.ones(len(left), dtype=bool)
    if kinds.is_floating(dtype):
        neither = _flags(pc.and_(pc.is_nan(left), pc.is_nan(right)))
        return neither | _flags(pc.equal(left, right))
    return _flags(pc.equal(left, right))


def _equal_lists(left: pa.Array, right: pa.Array) -> Mask:
    starts, sizes = _spans(left)
    others, other_sizes = _spans(right)
    found: Mask = sizes == other_sizes
    alike = np.flatnonzero(found & (sizes > 0))
    if not len(alike):
        return found
    counts = sizes[alike]
    begins = np.cumsum(counts) - counts
    within = np.arange(counts.sum()) - np.repeat(begins, counts)
    mine = pa.array(np.repeat(starts[alike], counts) + within)
    its = pa.array(np.repeat(others[alike], counts) + within)
    if kinds.is_map(left.type):
        each = same(left.keys.take(mine), right.keys.take(its))
        each &= same(left.items.take(mine), right.items.take(its))
    else:
        each = same(left.values.take(mine), right.values.take(its))
    found[alike] = np.logical_and.reduceat(each, begins)
    return found


def _spans(lists: pa.Array) -> tuple[Numbers, Numbers]:
    """Where each list begins among the values of all, and how many it has."""
    offsets = lists.offsets.to_numpy(zero_copy_only=False).astype(np.int64)
    return offsets[:-1], np.diff(offsets)


def _valid(values: pa.Array) -> Mask:
    return _flags(values.is_valid())


def _flags(values: pa.BooleanArray) -> Mask:
    found: Mask = values.fill_null(False).to_numpy(zero_copy_only=False)
    return np.array(found)
