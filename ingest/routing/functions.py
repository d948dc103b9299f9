"""The functions and operators of Spark SQL that routing expressions may use natively, each exactly as Spark does it.

With the kinds of values that they take: what Spark would cast, and what nobody does natively, is refused by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from distributary.errors import ConfigError

Option = str | int

_NO_TEXT = pa.scalar(None, pa.string())


@dataclass(frozen=True, slots=True)
class Function:
    """One function.

    on         gives its values from those of its arguments, and from the options
    arguments  how many arguments it takes, at least and at most
    options    the types of what follows them, written out as literals; `needed` of these must be there
    """

    on: Callable[..., pa.Array]
    arguments: tuple[int, int]
    options: tuple[type[Option], ...] = ()
    needed: int = 0


def _concat(*arrays: pa.Array) -> pa.Array:
    texts = [as_text(values, "concat") for values in arrays]
    return pc.binary_join_element_wise(*texts, "", null_handling="emit_null")


def _by_value(change: Callable[[str], str], name: str) -> Callable[..., pa.Array]:
    """Done in Python to each distinct value: Arrow's own function knows neither `ß` nor the final `ς`."""

    def on(values: pa.Array) -> pa.Array:
        encoded = of_kind(values, Kind.TEXT, name).dictionary_encode()
        changed = [change(value) for value in encoded.dictionary.to_pylist()]
        return pa.array(changed, pa.string()).take(encoded.indices)

    return on


def _trim(function: Callable[..., pa.Array], name: str) -> Callable[..., pa.Array]:
    def on(values: pa.Array, characters: str = " ") -> pa.Array:
        text = of_kind(values, Kind.TEXT, name)
        return function(text, characters=characters) if characters else text

    return on


def _substring(values: pa.Array, position: int, length: int | None = None) -> pa.Array:
    """Positions count from 1, from the end where they are negative, and 0 is as good as 1."""
    text = of_kind(values, Kind.TEXT, "substring")
    if length is not None and length <= 0:
        return pc.if_else(text.is_valid(), "", _NO_TEXT)
    start = position - 1 if position > 0 else position
    stop = None if length is None else start + length
    # A slice that begins before the end and does not end before it goes on to the end.
    to_the_end = start < 0 and stop is not None and stop >= 0
    return pc.utf8_slice_codeunits(text, start, None if to_the_end else stop)


def _left(values: pa.Array, count: int) -> pa.Array:
    return _substring(values, 1, count)


def _right(values: pa.Array, count: int) -> pa.Array:
    return _substring(values, -count, None if count > 0 else 0)


def _split_part(values: pa.Array, separator: str, part: int) -> pa.Array:
    text = of_kind(values, Kind.TEXT, "split_part")
    if not separator:
        return text if part in (1, -1) else pc.if_else(text.is_valid(), "", _NO_TEXT)
    lists = pc.split_pattern(text, separator)
    counts = pc.list_value_length(lists).fill_null(0).to_numpy(zero_copy_only=False)
    place = part - 1 if part > 0 else counts + part
    at = pa.array(np.cumsum(counts) - counts + place, mask=(place < 0) | (place >= counts))
    found = pc.list_flatten(lists).take(at).fill_null("")
    return pc.if_else(text.is_valid(), found, _NO_TEXT)


def _replace(values: pa.Array, search: str, by: str = "") -> pa.Array:
    text = of_kind(values, Kind.TEXT, "replace")
    return pc.replace_substring(text, search, by) if search else text


def _length(values: pa.Array) -> pa.Array:
    return pc.utf8_length(of_kind(values, Kind.TEXT, "length")).cast(pa.int64())


def _coalesce(*arrays: pa.Array) -> pa.Array:
    return pc.coalesce(*of_one_kind(arrays, "coalesce"))


def _nullif(value: pa.Array, other: pa.Array) -> pa.Array:
    value, other = of_one_kind([value, other], "nullif")
    return pc.if_else(pc.equal(value, other).fill_null(False), pa.scalar(None, value.type), value)


def _case(*arrays: pa.Array) -> pa.Array:
    """Conditions and values in turn, and perhaps what holds where none is met."""
    whole = len(arrays) // 2 * 2
    conditions = [of_kind(one, Kind.TRUTH, "case").fill_null(False) for one in arrays[0:whole:2]]
    values = of_one_kind([*arrays[1:whole:2], *arrays[whole:]], "case")
    return pc.case_when(pc.make_struct(*conditions), *values)


def _compare(function: Callable[..., pa.Array], name: str) -> Callable[..., pa.Array]:
    return lambda left, right: function(*of_one_kind([left, right], name))


def _same(left: pa.Array, right: pa.Array) -> pa.Array:
    left, right = of_one_kind([left, right], "<=>")
    both_null = pc.and_(left.is_null(), right.is_null())
    return pc.or_(pc.equal(left, right).fill_null(False), both_null)


def _in(*arrays: pa.Array) -> pa.Array:
    value, first, *others = of_one_kind(arrays, "in")
    found = pc.equal(value, first)
    for other in others:
        found = pc.or_kleene(found, pc.equal(value, other))
    return found


def _between(*arrays: pa.Array) -> pa.Array:
    value, low, high = of_one_kind(arrays, "between")
    return pc.and_kleene(pc.greater_equal(value, low), pc.less_equal(value, high))


def _logic(function: Callable[..., pa.Array], name: str) -> Callable[..., pa.Array]:
    return lambda *arrays: function(*(of_kind(values, Kind.TRUTH, name) for values in arrays))


_ANY = 1_000_000

FUNCTIONS: Mapping[str, Function] = {
    "concat": Function(_concat, (1, _ANY)),
    "lower": Function(_by_value(str.lower, "lower"), (1, 1)),
    "upper": Function(_by_value(str.upper, "upper"), (1, 1)),
    "trim": Function(_trim(pc.utf8_trim, "trim"), (1, 1), (str,)),
    "ltrim": Function(_trim(pc.utf8_ltrim, "ltrim"), (1, 1), (str,)),
    "rtrim": Function(_trim(pc.utf8_rtrim, "rtrim"), (1, 1), (str,)),
    "substring": Function(_substring, (1, 1), (int, int), 1),
    "left": Function(_left, (1, 1), (int,), 1),
    "right": Function(_right, (1, 1), (int,), 1),
    "split_part": Function(_split_part, (1, 1), (str, int), 2),
    "replace": Function(_replace, (1, 1), (str, str), 1),
    "length": Function(_length, (1, 1)),
    "cast to string": Function(lambda values: as_text(values, "cast"), (1, 1)),
    "coalesce": Function(_coalesce, (1, _ANY)),
    "nullif": Function(_nullif, (2, 2)),
    "case": Function(_case, (2, _ANY)),
    "=": Function(_compare(pc.equal, "="), (2, 2)),
    "<": Function(_compare(pc.less, "<"), (2, 2)),
    "<=": Function(_compare(pc.less_equal, "<="), (2, 2)),
    ">": Function(_compare(pc.greater, ">"), (2, 2)),
    ">=": Function(_compare(pc.greater_equal, ">="), (2, 2)),
    "<=>": Function(_same, (2, 2)),
    "in": Function(_in, (2, _ANY)),
    "between": Function(_between, (3, 3)),
    "and": Function(_logic(pc.and_kleene, "and"), (2, 2)),
    "or": Function(_logic(pc.or_kleene, "or"), (2, 2)),
    "not": Function(_logic(pc.invert, "not"), (1, 1)),
    "is null": Function(lambda values: values.is_null(), (1, 1)),
    "is not null": Function(lambda values: values.is_valid(), (1, 1)),
}

# The names that functions are called by.
BY_NAME: Mapping[str, str] = {
    **{
        name: name
        for name in ("concat", "lower", "upper", "trim", "ltrim", "rtrim", "substring", "left", "right")
    },
    **{name: name for name in ("split_part", "replace", "length", "coalesce", "nullif", "between")},
    "lcase": "lower",
    "ucase": "upper",
    "substr": "substring",
    "char_length": "length",
    "character_length": "length",
    "len": "length",
    "nvl": "coalesce",
    "ifnull": "coalesce",
    "if": "case",
    "string": "cast to string",
    "isnull": "is null",
    "isnotnull": "is not null",
}

# Of those, what takes no more arguments than this, though the function it stands for does.
AT_MOST: Mapping[str, int] = {"nvl": 2, "ifnull": 2, "if": 3, "trim": 1, "ltrim": 1, "rtrim": 1}


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
