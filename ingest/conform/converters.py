"""How an array of a record's field becomes an array of a table's column; one converter a type, nested as the types are."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from distributary.codecs.types.fields import part
from distributary.codecs.types.masks import Mask, Rows, is_valid
from distributary.codecs.types.walk import around, held, places
from distributary.ingest.conform.exact_values import cast_exactly, cast_where_exact
from distributary.ingest.conform.misfits import Misfit, Trouble, misfits_at
from distributary.ingest.conform.rescued_text import json_values, key_text

Converted = tuple[pa.Array, list[Misfit]]


class Converter(Protocol):
    """Makes a column's array, as long as the one given, and says which values have no place in it."""

    def __call__(self, values: pa.Array) -> Converted:
        """The column's array, null where a value does not fit, and those values."""
        ...


@dataclass(frozen=True, slots=True)
class Keep:
    """The types are the same."""

    def __call__(self, values: pa.Array) -> Converted:
        """The values as they are."""
        return values, []


@dataclass(frozen=True, slots=True)
class Cast:
    """The column holds every value exactly."""

    to: pa.DataType

    def __call__(self, values: pa.Array) -> Converted:
        """The values in the column's type."""
        return cast_exactly(values, self.to), []


@dataclass(frozen=True, slots=True)
class Narrow:
    """The column holds some values exactly."""

    to: pa.DataType
    trouble: Trouble

    def __call__(self, values: pa.Array) -> Converted:
        """The values that fit; the others are misfits."""
        stored, where = cast_where_exact(values, self.to)
        return stored, misfits_at(self.trouble, values, where)


@dataclass(frozen=True, slots=True)
class Fields:
    """The fields of a struct, or of a record.

    kept  per column: the field's place in the record, its name, its converter
    lost  fields without a column: place, name, trouble
    """

    kept: tuple[tuple[int, str, Converter], ...]
    lost: tuple[tuple[int, str, Trouble], ...]

    def convert(self, children: list[pa.Array]) -> tuple[list[pa.Array], list[Misfit]]:
        """The columns made from a record's fields, and what has no place in them."""
        columns, found = [], []
        for place, name, convert in self.kept:
            column, misfits = convert(children[place])
            columns.append(column)
            found += [one.under_field(name) for one in misfits]
        for place, name, trouble in self.lost:
            values = children[place]
            found += [one.under_field(name) for one in misfits_at(trouble, values, is_valid(values))]
        return columns, found


@dataclass(frozen=True, slots=True)
class Structs:
    """A struct; null stays null."""

    to: pa.StructType
    fields: Fields

    def __call__(self, values: pa.StructArray) -> Converted:
        """The structs with the column's fields."""
        columns, found = self.fields.convert(held(values))
        return around(values, self.to, columns), _visible(found, values)


@dataclass(frozen=True, slots=True)
class Lists:
    """A list; null stays null, an empty one stays empty, a misfit leaves a null element."""

    to: pa.ListType
    element: Converter

    def __call__(self, values: pa.Array) -> Converted:
        """The lists with the column's elements."""
        values = _plain_list(values)
        (inside,) = held(values)
        elements, found = self.element(inside)
        return around(values, self.to, [elements]), _visible(
            [_by_position(one, values) for one in found], values
        )


@dataclass(frozen=True, slots=True)
class Maps:
    """A map; one with a key that does not fit is a misfit as a whole, since a key is never null.

    free  how many letters of keys may stand before misfits of one map, however small it is
    """

    to: pa.MapType
    key: Converter
    value: Converter
    whole: Trouble | None
    free: int

    def __call__(self, values: pa.MapArray) -> Converted:
        """The maps with the column's keys and values."""
        record_keys, record_items = held(values)
        keys, refused = self.key(record_keys)
        if refused:
            return self._without(values, refused)
        items, found = self.value(record_items)
        told = _by_key(found, values, record_keys, self.free) if found else []
        return around(values, self.to, [keys, items]), _visible(told, values)

    def _without(self, values: pa.MapArray, refused: list[Misfit]) -> Converted:
        bad = np.zeros(len(values), dtype=np.bool_)
        for one in refused:
            maps, _ = places(values, one.rows)
            bad[maps] = True
        stored, found = self(values.take(pa.array(np.arange(len(values)), mask=bad)))
        if self.whole is not None:
            found += misfits_at(self.whole, values, bad & is_valid(values))
        return stored, found


def _plain_list(values: pa.Array) -> pa.ListArray:
    """Any of Arrow's lists as an ordinary one."""
    return values if kinds.is_list(values.type) else values.cast(pa.list_(values.type.value_field))


def _by_position(one: Misfit, values: pa.ListArray) -> Misfit:
    lists, positions = places(values, one.rows)
    return one.under([str(position) for position in positions], lists)


# What the keys before misfits come to is no more than so many times the map's own keys, and so much of any: of one that a record
# has once, and of each of those that a list or a map may hold thousands of.
_MOST_TIMES, FREE, FREE_OF_EACH = 16, 2**16, 2**10


def _by_key(found: list[Misfit], values: pa.MapArray, keys: pa.Array, free: int) -> list[Misfit]:
    """The misfits, seen from the maps. Where long keys would stand before very many of them their record is rejected instead."""
    maps, _ = places(values, np.arange(len(keys)))
    # All of a map's together: each of a hundred fields without a column has misfits of its own.
    heavy = _heavy(np.concatenate([one.rows for one in found]), keys, maps, free)[maps]
    return [part for one in found for part in _told(one, heavy, keys, maps)]


def _told(one: Misfit, heavy: Mask, keys: pa.Array, maps: Rows) -> list[Misfit]:
    """`heavy` are the entries of maps whose misfits are not told of, `maps` the map that each entry is in."""
    rows = np.unique(maps[one.rows[heavy[one.rows]]])
    trouble = replace(one.trouble, done="rejected")
    rejected = Misfit(trouble, rows, [""] * len(rows), [None] * len(rows))
    one = one.only(~heavy)
    names = json_values(keys.take(pa.array(one.rows)))
    told = one.under([part(key_text(name)) for name in names], maps[one.rows])
    return [some for some in (told, rejected) if len(some.rows)]


def _heavy(rows: Rows, keys: pa.Array, maps: Rows, free: int) -> Mask:
    """In which maps the keys before misfits, which are in these entries, would come to far more than all that is in them."""
    count = int(maps.max(initial=-1)) + 1
    if not (kinds.is_string(keys.type) or kinds.is_binary(keys.type)):
        return np.zeros(count, np.bool_)
    lengths = pc.binary_length(keys).fill_null(0).to_numpy(zero_copy_only=False)
    own, told = np.bincount(maps, lengths, count), np.bincount(maps[rows], lengths[rows], count)
    found: Mask = told > _MOST_TIMES * (own + np.bincount(maps[rows], minlength=count)) + free
    return found


def _visible(found: list[Misfit], values: pa.Array) -> list[Misfit]:
    """The misfits that are not hidden under a null."""
    if not found or not values.null_count:
        return found
    valid = is_valid(values)
    seen = [one.only(valid) for one in found]
    return [one for one in seen if len(one.rows)]
