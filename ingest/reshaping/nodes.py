"""What becomes of one field's values: kept, made otherwise, or taken apart to what is in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from distributary.codecs.types.masks import Rows, is_valid
from distributary.codecs.types.walk import around, held, places
from distributary.ingest.reshaping.casts import cast, unit_of
from distributary.ingest.reshaping.rule import Op, Secret
from distributary.ingest.reshaping.texts import hashed, masked

# Rows with a value that has no place in its type, and which field it is of.
Bad: TypeAlias = tuple[Rows, str]


class Node(Protocol):
    """Makes values what the rule says; as many come out as went in."""

    @property
    def type(self) -> pa.DataType:
        """What comes out."""
        ...

    def apply(self, values: pa.Array) -> tuple[pa.Array, list[Bad]]:
        """The values, and the rows of which one has no place."""
        ...


@dataclass(frozen=True, slots=True)
class Keep:
    """As it is."""

    type: pa.DataType

    def apply(self, values: pa.Array) -> tuple[pa.Array, list[Bad]]:
        """The values themselves."""
        return values, []


@dataclass(frozen=True, slots=True)
class Hidden:
    """A hash or a mask in place of each value."""

    op: Op
    secret: Secret | None

    @property
    def type(self) -> pa.DataType:
        """Text, whatever stood there."""
        return pa.string()

    def apply(self, values: pa.Array) -> tuple[pa.Array, list[Bad]]:
        """What stands in their place; null for null."""
        if self.op.what == "mask":
            return masked(self.op, values), []
        if self.secret is None:
            raise ValueError("hashes need a secret")
        return hashed(self.secret, values), []


@dataclass(frozen=True, slots=True)
class Cast:
    """As another type; `path` is how the field is called where a value is none of that."""

    type: pa.DataType
    path: str
    named: str

    def apply(self, values: pa.Array) -> tuple[pa.Array, list[Bad]]:
        """The values as that, null where one is not."""
        stored, bad = cast(values, self.type, unit_of(self.named))
        if not bad.any():
            return stored, []
        return stored, [(np.flatnonzero(bad), f"field {self.path} has a value that is no {self.named}")]


@dataclass(frozen=True, slots=True)
class Kept:
    """A field that lands: its place among those given, its name from here on, and what becomes of its values."""

    place: int
    name: str
    node: Node

    @property
    def field(self) -> pa.Field:
        """The column."""
        return pa.field(self.name, self.node.type)


@dataclass(frozen=True, slots=True)
class Struct:
    """Some of a struct's fields."""

    fields: tuple[Kept, ...]
    type: pa.DataType

    def apply(self, values: pa.Array) -> tuple[pa.Array, list[Bad]]:
        """The structs with those."""
        inside = held(values)
        columns, bad = applied(self.fields, inside)
        return around(values, self.type, columns), _where(values, bad)


@dataclass(frozen=True, slots=True)
class Inside:
    """The elements of a list, or the values of a map."""

    node: Node
    type: pa.DataType

    def apply(self, values: pa.Array) -> tuple[pa.Array, list[Bad]]:
        """The lists or maps with those."""
        *keys, inner = held(values)
        made, bad = self.node.apply(inner)
        found = [(np.unique(places(values, rows)[0]), why) for rows, why in bad]
        return around(values, self.type, [*keys, made]), _where(values, found)


def applied(fields: Sequence[Kept], columns: Sequence[pa.Array]) -> tuple[list[pa.Array], list[Bad]]:
    """The columns of these fields, out of all that were given."""
    made: list[pa.Array] = []
    found: list[Bad] = []
    for one in fields:
        values, bad = one.node.apply(columns[one.place])
        made.append(values)
        found += bad
    return made, found


def _where(values: pa.Array, bad: list[Bad]) -> list[Bad]:
    """Those that are within something: what stands below a null is nobody's."""
    if not bad or not values.null_count:
        return bad
    there = is_valid(values)
    kept = [(rows[there[rows]], why) for rows, why in bad]
    return [(rows, why) for rows, why in kept if len(rows)]
