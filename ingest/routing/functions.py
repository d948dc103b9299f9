"""The functions and operators of Spark SQL that expressions may use natively, each exactly as Spark does it.

With the kinds of values that they take: what Spark would cast, and what nobody does natively, is refused by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from distributary.ingest.routing.arithmetic import ARITHMETIC
from distributary.ingest.routing.comparing import contains, equal, greater, greater_equal, less, less_equal
from distributary.ingest.routing.kinds import Kind, as_text, beyond, kind_of, of_kind, of_one_kind, to_type
from distributary.ingest.routing.patterns import LINE_END, like, regular

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


def _typed(arrays: Sequence[pa.Array]) -> bool:
    """Whether the type of any is known; nulls of which it is not go with whatever comes."""
    return any(kind_of(values) is not Kind.NULL for values in arrays)


def _coalesce(*arrays: pa.Array) -> pa.Array:
    return pc.coalesce(*of_one_kind(arrays, "coalesce")) if _typed(arrays) else pa.nulls(len(arrays[0]))


def _nullif(value: pa.Array, other: pa.Array) -> pa.Array:
    same = equal(*of_one_kind([value, other], "nullif"))
    return pc.if_else(same.fill_null(False), pa.scalar(None, value.type), value)


def _case(*arrays: pa.Array) -> pa.Array:
    """Conditions and values in turn, and perhaps what holds where none is met."""
    whole = len(arrays) // 2 * 2
    conditions = [of_kind(one, Kind.TRUTH, "case").fill_null(False) for one in arrays[0:whole:2]]
    ways = [*arrays[1:whole:2], *arrays[whole:]]
    if not _typed(ways):
        return pa.nulls(len(arrays[0]))
    values = of_one_kind(ways, "case")
    return pc.case_when(pc.make_struct(*conditions), *values)


def _compare(function: Callable[..., pa.Array], name: str) -> Callable[..., pa.Array]:
    return lambda left, right: function(*of_one_kind([left, right], name))


def _same(left: pa.Array, right: pa.Array) -> pa.Array:
    left, right = of_one_kind([left, right], "<=>")
    both_null = pc.and_(left.is_null(), right.is_null())
    return pc.or_(equal(left, right).fill_null(False), both_null)


def _in(*arrays: pa.Array) -> pa.Array:
    value, first, *others = of_one_kind(arrays, "in")
    found = equal(value, first)
    for other in others:
        found = pc.or_kleene(found, equal(value, other))
    return found


def _between(*arrays: pa.Array) -> pa.Array:
    value, low, high = arrays
    above = greater_equal(*of_one_kind([value, low], "between"))
    return pc.and_kleene(above, less_equal(*of_one_kind([value, high], "between")))


def _is_nan(values: pa.Array) -> pa.Array:
    if kind_of(values) not in (Kind.FRACTION, Kind.NULL):
        raise beyond(f"isnan is given {values.type}")
    return pc.is_nan(to_type(values, pa.float64())).fill_null(False)


def _matching(pattern_of: Callable[[str], tuple[str, bool]], name: str) -> Callable[..., pa.Array]:
    """Held against a pattern, which may also match what is left of a text without the line's end at its end."""

    def on(values: pa.Array, pattern: str) -> pa.Array:
        text = of_kind(values, Kind.TEXT, name)
        told, chops = pattern_of(pattern)
        found = pc.match_substring_regex(text, told)
        if not chops:
            return found
        return pc.or_(found, pc.match_substring_regex(pc.replace_substring_regex(text, LINE_END, ""), told))

    return on


def _size(*, maps: bool) -> Callable[[pa.Array], pa.Array]:
    def on(values: pa.Array) -> pa.Array:
        if kind_of(values) is Kind.NULL:
            return pa.nulls(len(values), pa.int32())
        if maps and pa.types.is_map(values.type):
            counts = np.diff(values.offsets.to_numpy())
            return pa.array(counts, pa.int32(), mask=values.is_null().to_numpy(zero_copy_only=False))
        return pc.list_value_length(_lists(values, "size")).cast(pa.int32())

    return on


def _lists(values: pa.Array, name: str) -> pa.Array:
    if not (pa.types.is_list(values.type) or pa.types.is_large_list(values.type)):
        raise beyond(f"{name} is given {values.type} where it takes a list")
    return values


def _array_contains(lists: pa.Array, values: pa.Array) -> pa.Array:
    if kind_of(lists) is Kind.NULL:
        return pa.nulls(len(lists), pa.bool_())
    elements, values = of_one_kind(
        [pc.list_flatten(_lists(lists, "array_contains")), values], "array_contains"
    )
    return contains(lists, values, elements)


def _logic(function: Callable[..., pa.Array], name: str) -> Callable[..., pa.Array]:
    return lambda *arrays: function(*(of_kind(values, Kind.TRUTH, name) for values in arrays))


def _sure(name: str) -> Callable[..., pa.Array]:
    """The values alone; where some row has none, who evaluates an expression asks which."""
    return lambda *arrays: ARITHMETIC[name](*arrays)[0]


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
    "=": Function(_compare(equal, "="), (2, 2)),
    "<": Function(_compare(less, "<"), (2, 2)),
    "<=": Function(_compare(less_equal, "<="), (2, 2)),
    ">": Function(_compare(greater, ">"), (2, 2)),
    ">=": Function(_compare(greater_equal, ">="), (2, 2)),
    "<=>": Function(_same, (2, 2)),
    "in": Function(_in, (2, _ANY)),
    "between": Function(_between, (3, 3)),
    "and": Function(_logic(pc.and_kleene, "and"), (2, 2)),
    "or": Function(_logic(pc.or_kleene, "or"), (2, 2)),
    "not": Function(_logic(pc.invert, "not"), (1, 1)),
    "isnan": Function(_is_nan, (1, 1)),
    "like": Function(_matching(like, "like"), (1, 1), (str,), 1),
    "rlike": Function(_matching(regular, "rlike"), (1, 1), (str,), 1),
    "size": Function(_size(maps=True), (1, 1)),
    "array_size": Function(_size(maps=False), (1, 1)),
    "array_contains": Function(_array_contains, (2, 2)),
    **{name: Function(_sure(name), (2, 2)) for name in ("+", "-", "*", "/", "%")},
    "negative": Function(_sure("negative"), (1, 1)),
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
    "isnan": "isnan",
    "size": "size",
    "cardinality": "size",
    "array_size": "array_size",
    "array_contains": "array_contains",
    "isnull": "is null",
    "isnotnull": "is not null",
}

# Of those, what takes no more arguments than this, though the function it stands for does.
AT_MOST: Mapping[str, int] = {"nvl": 2, "ifnull": 2, "if": 3, "trim": 1, "ltrim": 1, "rtrim": 1}
