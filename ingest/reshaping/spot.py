"""A place in a record, and what a rule says of it: the one way in which paths are held against schemas, values and texts.

A path names fields from the outside in. Lists and maps on the way are passed through; who likes to may say so, by `element` and
`value`. What hides a value sees no case, since engines see none in the names of columns; and it passes through the branches of a union, which
a field may become with any schema.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.types as kinds

from distributary.codecs.types.fit import is_list
from distributary.codecs.types.walk import children
from distributary.ingest.columns.safe_names import fold
from distributary.ingest.reshaping.rule import HIDING, OF_VALUES, Op, Path, Reshape


@dataclass(frozen=True, slots=True)
class Spot:
    """What is said of one place.

    here   of the place itself
    rest   of places within, by the paths to them from here
    taken  whether all of it is wanted, where nothing else is said
    """

    here: tuple[Op, ...]
    rest: tuple[tuple[Path, Op], ...]
    taken: bool

    @classmethod
    def top(cls, rule: Reshape) -> Spot:
        """Of a record as a whole."""
        return cls((), rule.ops, all(op.what != "take" for _, op in rule.ops))

    def field(self, name: str) -> Spot:
        """What is said of a field of the struct that is here."""
        found = [(path[1:], op) for path, op in self.rest if _names(path[0], name, op)]
        here = tuple(op for path, op in found if not path)
        rest = tuple((path, op) for path, op in found if path)
        return Spot(here, rest, self.taken or any(op.what == "take" for op in here))

    def field_of(self, of: pa.StructType, name: str) -> Spot:
        """The same of a field of a struct that may be a union, whose branches are its fields: what is hidden within is in whichever of them has it."""
        found = self.field(name)
        if not self.rest or not _is_union(of):
            return found
        branches = frozenset(fold(field.name) for field in of)
        within = ((path, op) for path, op in self.rest if op.what in HIDING and fold(path[0]) not in branches)
        return replace(found, rest=(*found.rest, *within))

    def field_of_record(self, of: pa.StructType, name: str) -> Spot:
        """The same of a field of a record. A schema that is no record has one column, by a name that no field gave it, and in it, as a union, a
        list or what may be null, the record that the paths speak of: what is hidden is so there.
        """
        found = self.field(name)
        if not self.rest or of.num_fields != 1 or name != _WHOLE:
            return found
        whole = of.field(0).type
        within = (
            (path, op)
            for path, op in self.rest
            if op.what in HIDING and fold(path[0]) != _WHOLE and Spot((), ((path, op),), True).leads_in(whole)
        )
        return replace(found, rest=(*found.rest, *within))

    def inside(self, word: str) -> Spot:
        """What is said of the elements of a list, or the values of a map, that is here; `word` is what those are called."""
        named = [(path[1:], op) for path, op in self.rest if path[0] == word]
        here = tuple(op for path, op in named if not path)
        rest = (*self.rest, *((path, op) for path, op in named if path))
        return Spot(here, rest, self.taken or any(op.what == "take" for op in here))

    def leads_in(self, of: pa.DataType) -> bool:
        """Whether values of a type that are here have anything that something is said of."""
        if self.here:
            return True
        if kinds.is_struct(of):
            found = ((field.type, self.field_of(of, field.name)) for field in of)
            return any(at.leads_in(inner) for inner, at in found if at.here or at.rest)
        if is_list(of) or kinds.is_map(of):
            inner = children(of)[-1]
            return self.inside(inner.name).leads_in(inner.type)
        return False

    @property
    def is_left(self) -> bool:
        """Whether nothing of it is to land."""
        if any(op.what == "leave" for op in self.here):
            return True
        return not self.taken and all(op.what != "take" for _, op in self.rest)

    @property
    def name(self) -> str | None:
        """What it is called from here on; None where it keeps its name."""
        return next((op.to for op in self.here if op.what == "rename"), None)

    @property
    def op(self) -> Op | None:
        """What is done with its values."""
        return next((op for op in self.here if op.what in OF_VALUES), None)

    @property
    def hides(self) -> bool:
        """Whether it, or something within, is to be seen by nobody."""
        return any(op.what in HIDING for op in self.here) or self.hides_within

    @property
    def hides_within(self) -> bool:
        """Whether something within is to be seen by nobody."""
        return any(op.what in HIDING for _, op in self.rest)


# What the only column of a record is called that is none of several fields.
_WHOLE = "value"


def _is_union(of: pa.DataType) -> bool:
    """Whether a type is what Avro's wide unions are read as: https://spark.apache.org/docs/latest/sql-data-sources-avro.html"""
    if not kinds.is_struct(of):
        return False
    return of.num_fields > 1 and [field.name for field in of] == [f"member{n}" for n in range(of.num_fields)]


def _names(part: str, name: str, op: Op) -> bool:
    return part == name or (op.what in HIDING and fold(part) == fold(name))
