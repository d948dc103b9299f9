"""What Arrow's JSON reader gives, as a table's columns have it; and about which values that leaves a doubt."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from distributary.codecs.json.leaves import CLOCK, DATE, EXACT_IN_FLOAT, MISFIT, leaf
from distributary.codecs.types.masks import Mask, is_valid
from distributary.codecs.types.walk import around, children, held, places, rebuilt

_LOCAL = rf"^{DATE}[T ]{CLOCK}(\.\d{{1,6}})?$"

_ZONED = rf"^{DATE}[T ]{CLOCK}(\.\d{{1,6}})?(Z|[+-](0\d|1[0-7]):[0-5]\d)$"

# Days and microseconds of the years 1 to 9999: what datetime holds.
_DAYS = (-719_162, 2_932_896)

_MICROSECONDS = (-62_135_596_800_000_000, 253_402_300_799_999_999)

_LARGEST_PRECISION = 38

Fitted = tuple[pa.Array, Mask | None]

Limit = TypeVar("Limit", int, Decimal)


class Refused(Exception):
    """The batch cannot be read as a whole.

    row      the row at which reading stopped, if that is known; a hint, no more
    unknown  whether it was for a field that the schema lacks
    """

    def __init__(self, row: int | None = None, unknown: bool = False) -> None:
        super().__init__(row, unknown)
        self.row, self.unknown = row, unknown


def asked(of: pa.DataType) -> pa.DataType:
    """The type that the native reader is asked for: text where JSON has text and Spark has its own way of reading it.

    A map becomes an object without fields: what those are called only the records say (maps.py).
    """
    if kinds.is_map(of):
        return pa.struct([])
    if kinds.is_nested(of):
        return rebuilt(of, [pa.field(one.name, asked(one.type)) for one in children(of)])
    if kinds.is_decimal(of) and of.precision + of.scale > _LARGEST_PRECISION:
        # The reader adds the zeros that the scale wants without a look at whether there is room, and another number comes of it.
        return pa.decimal256(of.precision, of.scale)
    return pa.string() if kinds.is_temporal(of) or kinds.is_binary(of) else of


def fitted(values: pa.Array, of: pa.DataType, sought: pa.DataType) -> Fitted:
    """The values in a column's type, and which of them are in doubt; None for none. Raises Refused.

    `sought` is the type that the native reader was asked for; what it gave may have more fields.
    """
    if kinds.is_nested(of):
        return _nested(values, of, sought)
    if kinds.is_floating(of):
        return values, _any([_beyond(values, _within(EXACT_IN_FLOAT[of.bit_width])), _not_numbers(values)])
    if kinds.is_decimal(of):
        # The native reader counts only the digits that were written, not the zeros that the scale adds.
        doubt = _beyond(values, _within(Decimal(10) ** (of.precision - of.scale)))
        return _narrowed(values, of, doubt), doubt
    if kinds.is_temporal(of):
        return _timestamps(values, of) if kinds.is_timestamp(of) else _dates(values)
    return _by_leaf(values, of) if kinds.is_binary(of) else (values, None)


def _narrowed(values: pa.Array, of: pa.Decimal128Type, doubt: Mask | None) -> pa.Array:
    if values.type == of:
        return values
    return (values if doubt is None else pc.if_else(doubt, pa.scalar(None, values.type), values)).cast(of)


def _nested(values: pa.Array, of: pa.DataType, sought: pa.DataType) -> Fitted:
    if kinds.is_struct(of):
        return _structs(values, of, sought)
    return _maps(values, of, sought) if kinds.is_map(of) else _lists(values, of, sought)


def _structs(values: pa.StructArray, of: pa.StructType, sought: pa.StructType) -> Fitted:
    inside = [fitted(values.field(place), one.type, sought.field(place).type) for place, one in enumerate(of)]
    extra = [is_valid(values.field(place)) for place in range(of.num_fields, values.type.num_fields)]
    doubt = _any([*(mask for _, mask in inside), *extra])
    if values.type == of:
        return values, doubt
    return around(values, of, [column for column, _ in inside]), doubt


def _lists(values: pa.ListArray, of: pa.ListType, sought: pa.ListType) -> Fitted:
    (found,) = held(values)
    elements, doubtful = fitted(found, of.value_type, sought.value_type)
    doubt = None
    if doubtful is not None:
        doubt = np.zeros(len(values), bool)
        rows, _ = places(values, np.flatnonzero(doubtful))
        doubt[rows] = True
    return (values if values.type == of else around(values, of, [elements])), doubt


def _maps(values: pa.StructArray, of: pa.MapType, sought: pa.StructType) -> Fitted:
    """Objects as maps, each one's entries in the order of their keys. A null among the values is not seen here."""
    # What is under a key that was not asked for is not looked at: lists that the reader infers may be broken.
    doubts: list[Mask | None] = [
        is_valid(values.field(place)) for place in range(sought.num_fields, values.type.num_fields)
    ]
    columns = []
    for place, one in enumerate(sought):
        column, doubt = fitted(values.field(place), of.item_type, one.type)
        columns.append(column)
        doubts.append(doubt)
    there = np.array([is_valid(column) for column in columns]).reshape(len(columns), len(values)).T
    rows, places = np.nonzero(there)
    offsets = pa.array(np.concatenate([[0], np.cumsum(there.sum(axis=1))]), pa.int32())
    every = pa.concat_arrays(columns) if columns else pa.nulls(0, of.item_type)
    items = every.take(pa.array(places * len(values) + rows))
    names = pa.array([one.name for one in sought], pa.string()).take(pa.array(places))
    mask = pc.is_null(values) if values.null_count else None
    return pa.MapArray.from_arrays(offsets, names, items, type=of, mask=mask), _any(doubts)


def _dates(values: pa.Array) -> Fitted:
    return _temporal(values, rf"^{DATE}$", lambda texts: texts.cast(pa.date32()), pa.int32(), _DAYS)


def _timestamps(values: pa.Array, of: pa.TimestampType) -> Fitted:
    if of.tz is None:
        return _temporal(values, _LOCAL, lambda texts: texts.cast(of), pa.int64(), _MICROSECONDS)
    # Without a zone it is UTC, as in from_json with our options.
    local = pc.fill_null(pc.match_substring_regex(values, _LOCAL), False)
    if pc.any(local).as_py():
        values = pc.if_else(local, pc.binary_join_element_wise(values, pa.scalar("Z"), pa.scalar("")), values)
    return _temporal(values, _ZONED, lambda texts: texts.cast(of), pa.int64(), _MICROSECONDS)


def _temporal(
    values: pa.Array,
    pattern: str,
    parse: Callable[[pa.Array], pa.Array],
    ticks: pa.DataType,
    bounds: tuple[int, int],
) -> Fitted:
    right = pc.match_substring_regex(values, pattern)
    wrong = None
    if not pc.all(right).as_py():
        wrong = pc.fill_null(pc.invert(right), False).to_numpy(zero_copy_only=False)
        values = pc.if_else(right, values, pa.scalar(None, pa.string()))
    try:
        found = parse(values)
    except pa.ArrowInvalid:  # the 30th of February
        raise Refused from None
    low, high = bounds
    return found, _any([wrong, _beyond(found.view(ticks), (low - 1, high + 1))])


def _by_leaf(values: pa.Array, of: pa.DataType) -> Fitted:
    take = leaf(of)
    if take is None:
        raise Refused
    found = [None if text is None else take(text, text) for text in values.to_pylist()]
    doubt = np.array([value is MISFIT for value in found], bool)
    return pa.array([None if value is MISFIT else value for value in found], of), doubt


def _within(limit: Limit) -> tuple[Limit, Limit]:
    return -limit, limit


def _not_numbers(values: pa.Array) -> Mask | None:
    # NaN is no JSON, but the native reader takes it.
    found = pc.is_nan(values)
    return pc.fill_null(found, False).to_numpy(zero_copy_only=False) if pc.any(found).as_py() else None


def _beyond(values: pa.Array, bounds: tuple[Limit, Limit]) -> Mask | None:
    """Which values are not strictly between the bounds."""
    low, high = bounds
    ends = pc.min_max(values).as_py()
    if ends["min"] is None or (low < ends["min"] and ends["max"] < high):
        return None
    inside = pc.and_(pc.greater(values, low), pc.less(values, high))
    return np.asarray(pc.invert(pc.fill_null(inside, True)).to_numpy(zero_copy_only=False), bool)


def _any(masks: Iterable[Mask | None]) -> Mask | None:
    there = [mask for mask in masks if mask is not None]
    return np.logical_or.reduce(there) if there else None
