"""Which Arrow types a Delta table stores, and how a record's type goes into a column's."""

from __future__ import annotations

from enum import Enum

import pyarrow as pa
import pyarrow.types as kinds

_DELTA_PRECISION = 38

# Whole numbers up to here are exact in a float of that many bits.
_EXACT_IN_FLOAT = {16: 2**11, 32: 2**24, 64: 2**53}

_SIGNED_FOR_UNSIGNED = {8: pa.int16(), 16: pa.int32(), 32: pa.int64(), 64: pa.decimal128(20, 0)}


class Fit(Enum):
    """How values of one type go into a column of another."""

    SAME = "same"
    """The very same type."""
    EXACT = "exact"
    """Every value can be stored exactly, after a cast."""
    PARTLY = "partly"
    """Some values can be stored exactly, others cannot."""
    NEVER = "never"
    """The types do not mean the same kind of thing."""


def stored_leaf(leaf: pa.DataType) -> pa.DataType | None:
    """The type of the column that a new field of a type without children gets; None if Delta has none for it."""
    if kinds.is_dictionary(leaf):
        return stored_leaf(leaf.value_type)
    if kinds.is_unsigned_integer(leaf):
        return _SIGNED_FOR_UNSIGNED[leaf.bit_width]
    if kinds.is_float16(leaf):
        return pa.float32()
    if kinds.is_decimal(leaf):
        fits = leaf.precision <= _DELTA_PRECISION and 0 <= leaf.scale <= leaf.precision
        return pa.decimal128(leaf.precision, leaf.scale) if fits else None
    if kinds.is_timestamp(leaf):
        return pa.timestamp("us", "UTC" if leaf.tz else None)
    return _encoded(leaf)


def fit(record: pa.DataType, column: pa.DataType) -> Fit:
    """How a record's values go into a column, for types without children (with children on one side: never)."""
    if record == column:
        return Fit.SAME
    if kinds.is_dictionary(record):
        return Fit.EXACT if fit(record.value_type, column) is Fit.SAME else fit(record.value_type, column)
    if kinds.is_null(record):
        return Fit.EXACT
    if is_number(record) and is_number(column):
        return Fit.EXACT if _holds(record, column) else Fit.PARTLY
    if kinds.is_temporal(record) and kinds.is_temporal(column):
        return _temporal_fit(record, column)
    return Fit.EXACT if not kinds.is_nested(record) and _encoded(record) == column else Fit.NEVER


def widens(before: pa.DataType, after: pa.DataType) -> bool:
    """Whether `after` has every value of `before`: what Delta's type widening does, and more.

    As in Delta a date is its midnight without a zone, though the last of all dates are beyond a timestamp in microseconds.
    """
    if kinds.is_date(before) and kinds.is_timestamp(after):
        return not after.tz
    return fit(before, after) in (Fit.SAME, Fit.EXACT)


def is_number(leaf: pa.DataType) -> bool:
    """Whether values of this type are numbers (a boolean is none)."""
    return bool(kinds.is_integer(leaf) or kinds.is_floating(leaf) or kinds.is_decimal(leaf))


def is_list(value: pa.DataType) -> bool:
    """Whether this is any of Arrow's lists."""
    return bool(kinds.is_list(value) or kinds.is_large_list(value) or kinds.is_fixed_size_list(value))


def integer_range(integer: pa.DataType) -> tuple[int, int]:
    """The least and the greatest value of an integer type."""
    if kinds.is_signed_integer(integer):
        return -(2 ** (integer.bit_width - 1)), 2 ** (integer.bit_width - 1) - 1
    return 0, 2**integer.bit_width - 1


def _encoded(leaf: pa.DataType) -> pa.DataType | None:
    """The one encoding that tables use of what Arrow can encode in several ways."""
    if kinds.is_string(leaf) or kinds.is_large_string(leaf) or kinds.is_string_view(leaf):
        return pa.string()
    if kinds.is_binary(leaf) or kinds.is_large_binary(leaf) or kinds.is_binary_view(leaf):
        return pa.binary()
    if kinds.is_fixed_size_binary(leaf) and not kinds.is_decimal(leaf):
        return pa.binary()
    if kinds.is_date(leaf):
        return pa.date32()
    plain = kinds.is_boolean(leaf) or kinds.is_signed_integer(leaf) or kinds.is_floating(leaf)
    return leaf if plain else None


def _temporal_fit(record: pa.DataType, column: pa.DataType) -> Fit:
    if kinds.is_date(record) and kinds.is_date(column):
        return Fit.EXACT
    if kinds.is_timestamp(record) and kinds.is_timestamp(column) and bool(record.tz) == bool(column.tz):
        return Fit.EXACT if record.unit == column.unit else Fit.PARTLY
    # Delta's own widening: a date is a timestamp without a zone.
    if kinds.is_date32(record) and kinds.is_timestamp(column) and not column.tz:
        return Fit.EXACT if column.unit in ("s", "ms") else Fit.PARTLY
    if kinds.is_timestamp(record) and not record.tz and kinds.is_date32(column):
        return Fit.PARTLY
    return Fit.NEVER


def _holds(record: pa.DataType, column: pa.DataType) -> bool:
    """Whether a column of one numeric type can store every value of another exactly."""
    if kinds.is_integer(record):
        return _holds_integers(*integer_range(record), column)
    if kinds.is_floating(record):
        return bool(kinds.is_floating(column) and record.bit_width <= column.bit_width)
    if kinds.is_decimal(record) and kinds.is_decimal(column):
        before, after = record.precision - record.scale, column.precision - column.scale
        return bool(record.scale <= column.scale and before <= after)
    return False


def _holds_integers(least: int, greatest: int, column: pa.DataType) -> bool:
    if kinds.is_integer(column):
        low, high = integer_range(column)
        return low <= least and greatest <= high
    if kinds.is_floating(column):
        return max(-least, greatest) <= _EXACT_IN_FLOAT[column.bit_width]
    return bool(max(-least, greatest) < 10 ** (column.precision - column.scale))
