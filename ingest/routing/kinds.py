"""The kinds of values that expressions work on natively, and what Spark makes of several together (in its ANSI mode, which our session has)."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from enum import Enum

import pyarrow as pa
import pyarrow.compute as pc

from distributary.errors import ConfigError


class Kind(Enum):
    """What an array holds. OTHER are types of which nothing is known here but whether there is a value."""

    NULL = "null"
    TEXT = "text"
    WHOLE = "a whole number"
    FRACTION = "a floating point number"
    DECIMAL = "a decimal"
    TRUTH = "a boolean"
    DATE = "a date"
    TIME = "a timestamp"
    CLOCK = "a timestamp without a zone"
    OTHER = "another type"


_NUMBERS = frozenset({Kind.WHOLE, Kind.FRACTION, Kind.DECIMAL})

# Of whose values it is known how Spark writes them.
_WRITTEN = frozenset({Kind.NULL, Kind.TEXT, Kind.WHOLE, Kind.TRUTH, Kind.DATE})

# Digits that take all whole numbers of a type, as Spark has it.
_DIGITS = {8: 3, 16: 5, 32: 10, 64: 20}

_MOST_DIGITS = 38

_LAST_OF_FOUR_DIGITS = pa.scalar(datetime.date(9999, 12, 31))


def kind_of(values: pa.Array) -> Kind:
    """The kind of an array's values."""
    return _kind(values.type)


def _kind(dtype: pa.DataType) -> Kind:
    kinds = pa.types
    for kind, is_one in (
        (Kind.NULL, kinds.is_null),
        (Kind.WHOLE, kinds.is_signed_integer),
        (Kind.TRUTH, kinds.is_boolean),
        (Kind.DATE, kinds.is_date32),
        (Kind.DECIMAL, kinds.is_decimal128),
    ):
        if is_one(dtype):
            return kind
    if kinds.is_string(dtype) or kinds.is_large_string(dtype):
        return Kind.TEXT
    if kinds.is_float32(dtype) or kinds.is_float64(dtype):
        return Kind.FRACTION
    if kinds.is_timestamp(dtype) and dtype.unit == "us":
        return Kind.CLOCK if dtype.tz is None else Kind.TIME
    return Kind.OTHER


ARROW_TYPES = {
    Kind.NULL: pa.string(),
    Kind.TEXT: pa.string(),
    Kind.WHOLE: pa.int64(),
    Kind.FRACTION: pa.float64(),
    Kind.TRUTH: pa.bool_(),
    Kind.DATE: pa.date32(),
    Kind.TIME: pa.timestamp("us", "UTC"),
    Kind.CLOCK: pa.timestamp("us"),
}


def as_text(values: pa.Array, what: str) -> pa.Array:
    """Values as Spark's `cast(... as string)` writes them. Raises ConfigError for a type whose text is not done here."""
    if kind_of(values) not in _WRITTEN:
        raise beyond(f"{what} makes text of {values.type}")
    text = values.cast(pa.string())
    if kind_of(values) is not Kind.DATE:
        return text
    # A year of more than four digits has its sign there.
    signed = pc.binary_join_element_wise("+", text, "")
    return pc.if_else(pc.greater(values, _LAST_OF_FOUR_DIGITS), signed, text)


def of_kind(values: pa.Array, kind: Kind, what: str) -> pa.Array:
    """Values of exactly this kind, or nulls. Raises ConfigError: nothing is cast in silence."""
    found = kind_of(values)
    if found is Kind.NULL:
        return pa.nulls(len(values), ARROW_TYPES[kind])
    if found is not kind:
        raise beyond(f"{what} is given {_named(values)} where it takes {kind.value}")
    return values.cast(ARROW_TYPES[kind])


def of_one_kind(arrays: Sequence[pa.Array], what: str) -> list[pa.Array]:
    """Values that are all of one kind, or nulls; numbers of several types as the one that Spark casts them to. Raises ConfigError."""
    common = _common([values for values in arrays if kind_of(values) is not Kind.NULL], what)
    return [to_type(values, common) for values in arrays]


def _common(arrays: Sequence[pa.Array], what: str) -> pa.DataType:
    kinds = {kind_of(values): values for values in arrays}
    if Kind.OTHER in kinds:
        raise beyond(f"{what} is given {kinds[Kind.OTHER].type}")
    if len(kinds) > 1 and not _NUMBERS.issuperset(kinds):
        raise beyond(f"{what} is given {' and '.join(kind.value for kind in kinds)}: cast one of them")
    if Kind.FRACTION in kinds:
        narrow = all(pa.types.is_float32(values.type) for values in arrays)
        return pa.float32() if narrow else pa.float64()
    if Kind.DECIMAL in kinds:
        return _decimal([values.type for values in arrays], what)
    if Kind.WHOLE in kinds:
        return max((values.type for values in arrays), key=lambda one: one.bit_width)
    return ARROW_TYPES[next(iter(kinds), Kind.NULL)]


def _decimal(dtypes: Sequence[pa.DataType], what: str) -> pa.DataType:
    """The one that takes all values of these; beyond its digits Spark would round them."""
    told = [
        (one.precision, one.scale) if pa.types.is_decimal128(one) else (_DIGITS[one.bit_width], 0)
        for one in dtypes
    ]
    scale = max(scale for _, scale in told)
    digits = max(precision - scale for precision, scale in told) + scale
    if digits > _MOST_DIGITS:
        raise beyond(f"{what} is given decimals that take {digits} digits together")
    return pa.decimal128(digits, scale)


def to_type(values: pa.Array, dtype: pa.DataType) -> pa.Array:
    """Numbers as another type that Spark casts them to by itself; all else, and nulls, as they are."""
    if values.type == dtype:
        return values
    if kind_of(values) is Kind.NULL:
        return pa.nulls(len(values), dtype)
    if kind_of(values) is Kind.DECIMAL and pa.types.is_floating(dtype):
        return _nearest(values)
    if kind_of(values) is Kind.WHOLE and pa.types.is_decimal(dtype):
        # Arrow takes no whole number for a decimal with fewer digits than all of its type may have.
        return values.cast(pa.decimal128(_MOST_DIGITS, 0)).cast(dtype)
    return values.cast(dtype, safe=False)


def _nearest(values: pa.Array) -> pa.Array:
    """Decimals as the floating point numbers next to them, as Java finds them; Arrow's own cast is off by one now and then."""
    encoded = values.dictionary_encode()
    found = [None if value is None else float(value) for value in encoded.dictionary.to_pylist()]
    return pa.array(found, pa.float64()).take(encoded.indices)


class ExpressionRefused(ConfigError):
    """An expression that cannot be read, or that does not go with records' types.

    why  in words, without the setting that it is of; the message is that of the routing expression
    """

    def __init__(self, why: str, told: str | None = None) -> None:
        super().__init__(told or f"route.expression: {why}")
        self.why = why


def beyond(what: str) -> ExpressionRefused:
    """What an expression asks for that only Spark does."""
    why = f"{what}, which is not done natively; write it otherwise"
    return ExpressionRefused(why, f"route.expression: {why}, or try decode.engine: spark")


def _named(values: pa.Array) -> str:
    kind = kind_of(values)
    return str(values.type) if kind is Kind.OTHER else kind.value
