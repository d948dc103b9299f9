"""Types found in JSON values, and two findings made one: by the rules of Spark's JSON reader, less what it makes up.

A value of which nothing can be said (null, an empty list, an object without any value) says nothing yet, where Spark
would call it a string: its type is found when a value comes. Whole numbers beyond 64 bits are decimals, as in Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import zip_longest
from typing import Any

import pyarrow as pa
import pyarrow.types as kinds

from distributary.codecs.broken_payloads import Undecodable
from distributary.codecs.json.text import (
    BROKEN,
    END,
    Number,
    Whole,
    after_space,
    is_unicode,
    text_of,
    value_at,
)
from distributary.codecs.types.fields import Path, fields_in, new_paths
from distributary.codecs.types.spark_struct import list_of

# A few records with names made of data describe more columns than any table can hold; more are not added.
MAX_LEAVES = 5_000

# Below this level a value is a string column's: its JSON text.
MAX_LEVELS = 64

# As long as a column's name may be. A longer one is data: a thousand of a megabyte each would be a gigabyte of schema, kept with each version.
MAX_NAME = 255

NOTHING = pa.null()

_LARGEST_PRECISION = 38

_LONG_AS_DECIMAL = pa.decimal128(20, 0)


def names_column(name: str) -> bool:
    """Whether a schema that is inferred may have a field of this name."""
    return len(name) <= MAX_NAME and is_unicode(name)


def says_type(value: Any) -> bool:
    """Whether something can be said of the type of a value made by `value_at`."""
    if isinstance(value, dict):
        return any(names_column(name) and says_type(inner) for name, inner in value.items())
    if isinstance(value, list):
        return any(map(says_type, value))
    return value is not None


def type_of(value: Any, level: int = 1) -> pa.DataType:
    """The type of a value made by `value_at`; NOTHING where nothing can be said."""
    if isinstance(value, dict | list) and level >= MAX_LEVELS:
        return pa.string() if says_type(value) else NOTHING
    if isinstance(value, dict):
        found = {name: type_of(inner, level + 1) for name, inner in value.items() if names_column(name)}
        return _struct({name: found[name] for name in sorted(found)})
    if isinstance(value, list):
        return _list(merged_all(type_of(inner, level + 1) for inner in value))
    return _leaf_type(value)


def merged_all(types: Iterable[pa.DataType]) -> pa.DataType:
    """The narrowest type that all of these fit, NOTHING for none."""
    found = list(dict.fromkeys(types))
    # By pairs: taken one after the other, each would be merged into all fields so far.
    while len(found) > 1:
        pairs = zip_longest(found[::2], found[1::2], fillvalue=NOTHING)
        found = [merged(one, other) for one, other in pairs]
    return found[0] if found else NOTHING


def within(record: pa.StructType, found: Iterable[pa.DataType], most: int) -> list[pa.DataType]:
    """Of what `beyond` found in single records, what lets the record's type grow to no more than so many fields.

    Those that ask for few fields come first, so that a record with names made of data keeps nobody out but itself.
    """
    each = {one: frozenset(new_paths(record, one)) for one in found}
    room, taken, kept = most - fields_in(record), set[Path](), set[pa.DataType]()
    for one, paths in sorted(each.items(), key=lambda item: len(item[1])):
        if len(paths) > room:
            break
        if len(taken | paths) <= room:
            taken |= paths
            kept.add(one)
    return [one for one in each if one in kept]


def merged(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    """The narrowest type that both fit; a string fits everything."""
    if one == other or kinds.is_null(other):
        return one
    if kinds.is_null(one):
        return other
    if kinds.is_struct(one) and kinds.is_struct(other):
        return pa.struct(merged_fields(list(one), list(other)))
    if kinds.is_list(one) and kinds.is_list(other):
        return list_of(merged(one.value_type, other.value_type))
    if kinds.is_map(one) and kinds.is_map(other) and one.key_type == other.key_type:
        return pa.map_(one.key_type, merged(one.item_type, other.item_type))
    return _wider_number(one, other) or _wider_time(one, other) or pa.string()


def merged_fields(one: Iterable[pa.Field], other: Iterable[pa.Field]) -> list[pa.Field]:
    """The union of two structs' fields, the first one's first; those of one name merged."""
    types = {field.name: field.type for field in one}
    for field in other:
        types[field.name] = merged(types.get(field.name, NOTHING), field.type)
    return [pa.field(name, of) for name, of in types.items()]


def beyond(known: pa.DataType, value: Any, level: int = 1) -> pa.DataType:
    """What a value has that its column's type lacks, as a type with only that; NOTHING for nothing."""
    if kinds.is_struct(known) and isinstance(value, dict):
        inside = {field.name: field.type for field in known}
        return _struct(_beyond_each(inside, value, level))
    if kinds.is_list(known) and isinstance(value, list):
        return _list(merged_all(beyond(known.value_type, inner, level + 1) for inner in value))
    if kinds.is_map(known) and isinstance(value, dict):
        inner = merged_all(beyond(known.item_type, item, level + 1) for item in value.values())
        return inner if kinds.is_null(inner) else pa.map_(pa.string(), inner)
    return NOTHING


def beyond_record(record: pa.StructType, payload: bytes) -> pa.DataType:
    """What a payload has that a record's type lacks, as `beyond`; NOTHING for a broken payload."""
    try:
        text = text_of(payload)
        value, end = value_at(text, after_space(text, 0))
    except (Undecodable, RecursionError, *BROKEN):
        return NOTHING
    whole = after_space(text, end) == len(text) - len(END)
    return beyond(record, value) if whole and isinstance(value, dict) else NOTHING


def _beyond_each(
    inside: Mapping[str, pa.DataType], value: dict[str, Any], level: int
) -> dict[str, pa.DataType]:
    found = {}
    for name in sorted(value):
        if name in inside:
            found[name] = beyond(inside[name], value[name], level + 1)
        elif names_column(name):
            found[name] = type_of(value[name], level + 1)
    return found


class Growth:
    """Adds what `beyond` found to a schema, up to MAX_LEAVES."""

    def __init__(self, schema: pa.Schema) -> None:
        self._room = MAX_LEAVES - leaves(schema)

    def grown(self, known: Iterable[pa.Field], more: pa.DataType) -> list[pa.Field]:
        """The fields with those of the struct `more`, new ones behind them."""
        found = {field.name: field.type for field in known}
        for field in more:
            of = found.get(field.name)
            grown = self._new(field.type) if of is None else self._inside(of, field.type)
            if not kinds.is_null(grown):
                found[field.name] = grown
        return [pa.field(name, of) for name, of in found.items()]

    def _inside(self, known: pa.DataType, more: pa.DataType) -> pa.DataType:
        if kinds.is_struct(known) and kinds.is_struct(more):
            return pa.struct(self.grown(known, more))
        if kinds.is_list(known) and kinds.is_list(more):
            return list_of(self._inside(known.value_type, more.value_type))
        if kinds.is_map(known) and kinds.is_map(more):
            return pa.map_(known.key_type, self._inside(known.item_type, more.item_type))
        return known

    def _new(self, of: pa.DataType) -> pa.DataType:
        if self._room <= 0:
            return NOTHING
        if kinds.is_struct(of):
            fields = {field.name: self._new(field.type) for field in of}
            return _struct(fields)
        if kinds.is_list(of):
            return _list(self._new(of.value_type))
        self._room -= 1
        return of


def leaves(of: pa.Schema | pa.DataType) -> int:
    """How many values without children a record of these columns has."""
    if isinstance(of, pa.Schema) or kinds.is_struct(of):
        return sum(leaves(field.type) for field in of)
    if kinds.is_list(of):
        return leaves(of.value_type)
    return leaves(of.item_type) if kinds.is_map(of) else 1


def _struct(types: Mapping[str, pa.DataType]) -> pa.DataType:
    fields = [pa.field(name, of) for name, of in types.items() if not kinds.is_null(of)]
    return pa.struct(fields) if fields else NOTHING


def _list(element: pa.DataType) -> pa.DataType:
    return element if kinds.is_null(element) else list_of(element)


def _leaf_type(value: Any) -> pa.DataType:
    if value is None:
        return NOTHING
    if isinstance(value, bool):
        return pa.bool_()
    if not isinstance(value, Number):
        return pa.string()
    return _whole_type(value) if isinstance(value, Whole) else pa.float64()


def _whole_type(text: str) -> pa.DataType:
    digits = len(text.lstrip("-"))
    if digits > _LARGEST_PRECISION:
        return pa.float64()
    return pa.int64() if -(2**63) <= int(text) < 2**63 else pa.decimal128(digits, 0)


def _wider_number(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    if not (_is_number(one) and _is_number(other)):
        return None
    if kinds.is_integer(one) and kinds.is_integer(other):
        return max(one, other, key=lambda of: of.bit_width)
    if kinds.is_floating(one) or kinds.is_floating(other):
        return pa.float64()
    return _wider_decimal(_as_decimal(one), _as_decimal(other))


def _wider_decimal(one: pa.Decimal128Type, other: pa.Decimal128Type) -> pa.DataType:
    scale = max(one.scale, other.scale)
    precision = scale + max(one.precision - one.scale, other.precision - other.scale)
    return pa.decimal128(precision, scale) if precision <= _LARGEST_PRECISION else pa.float64()


def _as_decimal(of: pa.DataType) -> pa.Decimal128Type:
    return of if kinds.is_decimal(of) else _LONG_AS_DECIMAL


def _is_number(of: pa.DataType) -> bool:
    return bool(kinds.is_integer(of) or kinds.is_floating(of) or kinds.is_decimal(of))


def _wider_time(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    # As Spark's tightest common type has it: a date is its midnight.
    if kinds.is_timestamp(one) and kinds.is_date(other):
        return one
    return other if kinds.is_date(one) and kinds.is_timestamp(other) else None
