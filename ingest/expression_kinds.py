"""The kinds of values that routing expressions are natively made of: those whose text is beyond doubt."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

import pyarrow as pa

from distributary.errors import ConfigError


class Kind(Enum):
    """What an array holds. OTHER are types of which nothing is known here but whether there is a value."""

    NULL = "null"
    TEXT = "text"
    WHOLE = "a whole number"
    TRUTH = "a boolean"
    DATE = "a date"
    OTHER = "another type"


def kind_of(values: pa.Array) -> Kind:
    """The kind of an array's values."""
    return _kind(values.type)


def _kind(dtype: pa.DataType) -> Kind:
    kinds = pa.types
    if kinds.is_null(dtype):
        return Kind.NULL
    if kinds.is_string(dtype) or kinds.is_large_string(dtype):
        return Kind.TEXT
    if kinds.is_signed_integer(dtype):
        return Kind.WHOLE
    if kinds.is_boolean(dtype):
        return Kind.TRUTH
    return Kind.DATE if kinds.is_date32(dtype) else Kind.OTHER


ARROW_TYPES = {
    Kind.NULL: pa.string(),
    Kind.TEXT: pa.string(),
    Kind.WHOLE: pa.int64(),
    Kind.TRUTH: pa.bool_(),
    Kind.DATE: pa.date32(),
}


def as_text(values: pa.Array, what: str) -> pa.Array:
    """Values as Spark's `cast(... as string)` writes them. Raises ConfigError for a type whose text is not done here."""
    if kind_of(values) is Kind.OTHER:
        raise beyond(f"{what} makes text of {values.type}")
    return values.cast(pa.string())


def of_kind(values: pa.Array, kind: Kind, what: str) -> pa.Array:
    """Values of exactly this kind, or nulls. Raises ConfigError: nothing is cast in silence."""
    found = kind_of(values)
    if found is Kind.NULL:
        return pa.nulls(len(values), ARROW_TYPES[kind])
    if found is not kind:
        raise beyond(f"{what} is given {_named(values)} where it takes {kind.value}")
    return values.cast(ARROW_TYPES[kind])


def of_one_kind(arrays: Sequence[pa.Array], what: str) -> list[pa.Array]:
    """Values that are all of one kind, or nulls. Raises ConfigError."""
    kinds = {kind_of(values): values for values in arrays if kind_of(values) is not Kind.NULL}
    if Kind.OTHER in kinds:
        raise beyond(f"{what} is given {kinds[Kind.OTHER].type}")
    if len(kinds) > 1:
        raise beyond(f"{what} is given {' and '.join(kind.value for kind in kinds)}: cast one of them")
    kind = next(iter(kinds), Kind.NULL)
    return [
        pa.nulls(len(values), ARROW_TYPES[kind]) if kind_of(values) is Kind.NULL else values
        for values in arrays
    ]


def beyond(what: str) -> ConfigError:
    """What an expression asks for that only Spark does."""
    return ConfigError(
        f"route.expression: {what}, which is not done natively; write it otherwise, or try decode.engine: spark"
    )


def _named(values: pa.Array) -> str:
    kind = kind_of(values)
    return str(values.type) if kind is Kind.OTHER else kind.value
