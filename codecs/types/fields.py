"""The fields of a type, at all depths: how many there are, which a known type lacks, and how a path of their names is written.

How many bounds a schema that nobody wrote. A written path has dots, and backticks around a name that holds one, as in Spark.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.types as kinds

from distributary.codecs.types.fit import is_list

Path = tuple[str, ...]


def fields_in(of: pa.Schema | pa.DataType) -> int:
    """How many fields there are, at all depths; what a list or a map holds counts by its own fields."""
    if isinstance(of, pa.Schema) or kinds.is_struct(of):
        return sum(1 + fields_in(field.type) for field in of)
    inner = held_in(of)
    return 0 if inner is None else fields_in(inner)


def held_in(of: pa.DataType) -> pa.DataType | None:
    """The type of a list's elements or a map's values; None for what holds none."""
    if is_list(of):
        return of.value_type
    return of.item_type if kinds.is_map(of) else None


def new_paths(known: pa.DataType | None, more: pa.DataType, at: Path = ()) -> Iterator[Path]:
    """The fields of a type that a known one lacks (None: it lacks all), as paths of names."""
    if kinds.is_struct(more):
        there = {} if known is None or not kinds.is_struct(known) else {one.name: one.type for one in known}
        for field in more:
            path = (*at, field.name)
            if field.name not in there:
                yield path
            yield from new_paths(there.get(field.name), field.type, path)
    elif (inner := held_in(more)) is not None:
        yield from new_paths(None if known is None else held_in(known), inner, at)


# A name as `part` writes it: in backticks, which are doubled within, or plain.
_PART = re.compile(r"(`(?:[^`]|``)*`)|([^.`]+)")


def part(name: str) -> str:
    """A field's name as a part of a dotted path, in backticks where it would be mistaken for several."""
    plain = name and "." not in name and "`" not in name
    return name if plain else "`{}`".format(name.replace("`", "``"))


def parts(path: str) -> tuple[str, ...]:
    """A dotted path as the names it is made of; the other way round than `part`."""
    found = _PART.findall(path)
    return tuple(quoted[1:-1].replace("``", "`") if quoted else plain for quoted, plain in found)
