"""Values compared as Spark compares them: to it one NaN is as good as another, and greater than any number."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


def equal(left: pa.Array, right: pa.Array) -> pa.Array:
    """Whether both are the same; null where one is null."""
    found = pc.equal(left, right)
    return pc.or_(found, pc.and_(pc.is_nan(left), pc.is_nan(right))) if _floats(left) else found


def less(left: pa.Array, right: pa.Array) -> pa.Array:
    """Whether the first is less; null where one is null."""
    found = pc.less(left, right)
    return pc.or_(found, pc.and_(pc.invert(pc.is_nan(left)), pc.is_nan(right))) if _floats(left) else found


def greater(left: pa.Array, right: pa.Array) -> pa.Array:
    """Whether the first is greater; null where one is null."""
    return less(right, left)


def less_equal(left: pa.Array, right: pa.Array) -> pa.Array:
    """Whether the first is not greater; null where one is null."""
    return pc.invert(less(right, left))


def greater_equal(left: pa.Array, right: pa.Array) -> pa.Array:
    """Whether the first is not less; null where one is null."""
    return pc.invert(less(left, right))


def contains(lists: pa.Array, values: pa.Array, elements: pa.Array) -> pa.Array:
    """Whether each list has the value beside it; where it does not, null if the list has a null.

    elements  all of the lists' elements, of the values' type
    """
    of = pc.list_parent_indices(lists)
    if lists.null_count:
        # Where a list is null something may stand all the same, which is none of the elements.
        of = of.filter(lists.is_valid().take(of))
    same = equal(elements, values.take(of))
    hit, unsure = (_any(of, flags, len(lists)) for flags in (same.fill_null(False), same.is_null()))
    missing = pc.if_else(unsure, pa.scalar(None, pa.bool_()), pa.scalar(False))
    known = pc.and_(lists.is_valid(), values.is_valid())
    return pc.if_else(known, pc.if_else(hit, pa.scalar(True), missing), pa.scalar(None, pa.bool_()))


def _any(of: pa.Array, flags: pa.Array, count: int) -> pa.Array:
    """For which lists a flag of one of their elements is true."""
    found = pc.unique(of.filter(flags))
    return pc.is_in(pa.array(range(count), of.type), value_set=found)


def _floats(values: pa.Array) -> bool:
    return bool(pa.types.is_floating(values.type))
