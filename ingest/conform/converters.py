"""How an array of a record's field becomes an array of a table's column; one step a type, nested as the types are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from distributary.codecs.types.fields import part
from distributary.ingest.conform.exact_values import cast_exactly, cast_where_exact, is_valid
from distributary.ingest.conform.misfits import Misfit, Trouble, misfit
from distributary.ingest.conform.nested import Runs, list_like, map_like, plain_list, runs_of, struct_like
from distributary.ingest.conform.rescued import json_values, key_text

Converted = tuple[pa.Array, list[Misfit]]


class Step(Protocol):
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
        return stored, misfit(self.trouble, values, where)


@dataclass(frozen=True, slots=True)
class Fields:
    """The fields of a struct, or of a record.

    kept  per column: the field's place in the record, its name, its step
    lost  fields without a column: place, name, trouble
    """

    kept: tuple[tuple[int, str, Step], ...]
    lost: tuple[tuple[int, str, Trouble], ...]

    def convert(self, children: list[pa.Array]) -> tuple[list[pa.Array], list[Misfit]]:
        """The columns made from a record's fields, and what has no place in them."""
        columns, found = [], []
        for place, name, step in self.kept:
            column, misfits = step(children[place])
            columns.append(column)
            found += [one.under_field(name) for one in misfits]
        for place, name, trouble in self.lost:
            values = children[place]
            found += [one.under_field(name) for one in misfit(trouble, values, is_valid(values))]
        return columns, found


@dataclass(frozen=True, slots=True)
class Structs:
    """A struct; null stays null."""

    to: pa.StructType
    fields: Fields

    def __call__(self, values: pa.StructArray) -> Converted:
        """The structs with the column's fields."""
        children = [values.field(place) for place in range(values.type.num_fields)]
        columns, found = self.fields.convert(children)
        return struct_like(values, columns, self.to), _visible(found, values)


@dataclass(frozen=True, slots=True)
class Lists:
    """A list; null stays null, an empty one stays empty, a misfit leaves a null element."""

    to: pa.ListType
    element: Step

    def __call__(self, values: pa.Array) -> Converted:
        """The lists with the column's elements."""
        values = plain_list(values)
        runs = runs_of(values)
        elements, found = self.element(runs.elements(values.values))
        return list_like(values, runs, elements, self.to), _visible(
            [_by_position(one, runs) for one in found], values
        )


@dataclass(frozen=True, slots=True)
class Maps:
    """A map; one with a key that does not fit is a misfit as a whole, since a key is never null."""

    to: pa.MapType
    key: Step
    value: Step
    whole: Trouble | None

    def __call__(self, values: pa.MapArray) -> Converted:
        """The maps with the column's keys and values."""
        runs = runs_of(values)
        record_keys = runs.elements(values.keys)
        keys, refused = self.key(record_keys)
        if refused:
            return self._without(values, refused, runs)
        items, found = self.value(runs.elements(values.items))
        return map_like(values, runs, keys, items, self.to), _visible(
            [_by_key(one, runs, record_keys) for one in found], values
        )

    def _without(self, values: pa.MapArray, refused: list[Misfit], runs: Runs) -> Converted:
        bad = np.zeros(len(values), dtype=np.bool_)
        for one in refused:
            bad[runs.parents(one.rows)] = True
        places = pa.array(np.arange(len(values)), mask=bad)
        stored, found = self(values.take(places))
        if self.whole is not None:
            found += misfit(self.whole, values, bad & is_valid(values))
        return stored, found


def _by_position(one: Misfit, runs: Runs) -> Misfit:
    lists = runs.parents(one.rows)
    positions = one.rows - runs.offsets.to_numpy()[lists]
    return one.under([str(position) for position in positions], lists)


def _by_key(one: Misfit, runs: Runs, keys: pa.Array) -> Misfit:
    names = json_values(keys.take(pa.array(one.rows)))
    return one.under([part(key_text(name)) for name in names], runs.parents(one.rows))


def _visible(found: list[Misfit], around: pa.Array) -> list[Misfit]:
    """The misfits that are not hidden under a null."""
    if not found or not around.null_count:
        return found
    valid = is_valid(around)
    seen = [one.only(valid) for one in found]
    return [one for one in seen if len(one.rows)]
