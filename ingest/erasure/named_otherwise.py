"""What tables call the fields of records, by their rules or since Delta takes no such names, where a record is known by its bytes alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.types as kinds

from distributary.ingest.columns.layout import NO_FIELD, source_of
from distributary.ingest.columns.safe_names import fold
from distributary.ingest.reshaping.rule import Path, Reshape

Names: TypeAlias = Mapping[Path, str]
"""The names of those fields that are called otherwise, by their paths in records."""


def names_of(columns: Sequence[pa.Field], rule: Reshape | None) -> Names:
    """Those of a table with these columns, whose rule says this of records'."""
    rule = Reshape() if rule is None else rule
    found = {path: op.to for path, op in rule.ops if op.what == "rename"}
    return {**found, **{rule.came_from(path): name for path, name in _renamed(columns, ())}}


def concerning(names: Names, fields: Sequence[Path]) -> Names:
    """Those of them that decide what is found by the names of some fields: of a thousand tables that call others otherwise there are a few ways, then."""
    return {
        path: name
        for path, name in names.items()
        if any(_leads_to(one, field) for one in (path, in_table(path, names)) for field in fields)
    }


def made_of_values(fields: Sequence[Path], rule: Reshape) -> list[Path]:
    """The fields of records of which a rule has these fields of tables be no value that a record has: a hash, or a mask."""
    names = names_of((), rule)
    made = [path for path, op in rule.ops if op.what in ("hash", "mask")]
    return [path for path in made if any(_leads_to(in_table(path, names), field) for field in fields)]


def has(value: Any, path: Path) -> bool:
    """Whether an object has something at a path, or in what leads there and is no object, as a list is."""
    if not path or not isinstance(value, dict):
        return value is not None
    return any(has(one, path[1:]) for name, one in value.items() if fold(name) == fold(path[0]))


def in_table(path: Path, names: Names) -> Path:
    """The path that a record's field has in a table."""
    return tuple(names.get(path[: depth + 1], name) for depth, name in enumerate(path))


def called(value: Any, names: Names, path: Path = ()) -> Any:
    """An object, or what stands at a path of one, by the names that a table has for its fields; an object in which two would have one name as it is."""
    if not isinstance(value, dict):
        return value
    found = [(names.get((*path, own), own), called(one, names, (*path, own))) for own, one in value.items()]
    folded = {fold(name) for name, _ in found}
    return value if len(folded) < len(found) else dict(found)


def _renamed(columns: Sequence[pa.Field], above: Path) -> Iterator[tuple[Path, str]]:
    for column in columns:
        source = source_of(column)
        if source.startswith(NO_FIELD):
            continue
        path = (*above, source)
        if source != column.name:
            yield path, str(column.name)
        if kinds.is_struct(column.type):
            yield from _renamed(list(column.type), path)


def _leads_to(path: Path, field: Path) -> bool:
    return all(one.lower() == other.lower() for one, other in zip(path, field, strict=False))
