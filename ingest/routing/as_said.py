"""Whether a condition is true of what one record says: as JSON, or as a row of which a change has told how it was before."""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as kinds

from distributary.codecs.envelope.said import BEFORE, PREFIX
from distributary.errors import ConfigError
from distributary.ingest.columns.safe_names import fold
from distributary.ingest.routing.conditions import ReadCondition
from distributary.ingest.routing.tree import Call, Field, Node

Path: TypeAlias = tuple[str, ...]

Mask: TypeAlias = npt.NDArray[np.bool_]

AS_IT_WAS = f"{PREFIX}{BEFORE}"
"""The column that has a row as it was before a change: whole, or as JSON text."""

# Values that go into no column together, or with which the condition does not go.
_NOBODY_KNOWS = (pa.ArrowException, ConfigError, ValueError, OverflowError)


def fields_of(node: Node) -> list[Path]:
    """The paths of all fields that a condition names."""
    if isinstance(node, Field):
        return [node.path]
    return [path for one in node.arguments for path in fields_of(one)] if isinstance(node, Call) else []


def holds(condition: ReadCondition, body: Mapping[str, Any]) -> bool | None:
    """Whether a condition is true of an object; None where nobody can tell."""
    # Of all else anything may be there, of no one type, or too large for any.
    row = {**named(body, fields_of(condition.tree)), "": None}
    try:
        return bool(condition.met(pa.RecordBatch.from_pylist([row]))[0].as_py())
    except _NOBODY_KNOWS:
        return None


def named(body: Mapping[str, Any], paths: Sequence[Path]) -> dict[str, Any]:
    """Of an object what these paths lead to; names see no case."""
    found = dict[str, Any]()
    for name, value in body.items():
        within = [path[1:] for path in paths if path[0].lower() == name.lower()]
        if within:
            found[name] = named(value, within) if isinstance(value, dict) and all(within) else value
    return found


def each_holds(condition: ReadCondition, bodies: Sequence[Mapping[str, Any] | None]) -> list[bool | None]:
    """Whether a condition is true of each of some objects, those of the same types together; None where nobody can tell, and of none."""
    fields, found = fields_of(condition.tree), list[bool | None]([None] * len(bodies))
    alike = dict[Hashable, dict[int, Mapping[str, Any]]]()
    for place, body in enumerate(bodies):
        if body is not None:
            asked = _there(named(body, fields))
            alike.setdefault(_types(asked), {})[place] = asked
    for some in alike.values():
        met = _all_hold(condition, list(some.values()))
        for number, (place, told) in enumerate(some.items()):
            found[place] = holds(condition, told) if met is None else bool(met[number])
    return found


def as_plain(rows: pa.RecordBatch, paths: Sequence[Path]) -> list[dict[str, Any] | None]:
    """Of rows what they say in the columns that these paths begin with; None of one with a time in a year that Python lacks."""
    names = {fold(path[0]) for path in paths}
    asked = rows.select([name for name in rows.schema.names if fold(name) in names])
    try:
        return list(asked.to_pylist())
    except OverflowError:
        return (
            [None] if len(asked) == 1 else [as_plain(asked.slice(n, 1), paths)[0] for n in range(len(asked))]
        )


def met_as_it_was(condition: ReadCondition, rows: pa.RecordBatch) -> tuple[Mask, Mask]:
    """For which rows a condition is true of the row as it was, and of which of these nobody can tell; what that does not say the row itself does."""
    met, unknown = np.zeros(rows.num_rows, np.bool_), np.zeros(rows.num_rows, np.bool_)
    place = rows.schema.get_field_index(AS_IT_WAS)
    was = None if place < 0 else rows.column(place)
    told = np.empty(0, np.int64) if was is None else np.flatnonzero(was.is_valid())
    if was is None or not len(told):
        return met, unknown
    some, was = rows.take(pa.array(told)), was.take(pa.array(told))
    if kinds.is_struct(was.type):
        try:
            met[told] = condition.met(_laid_over(some, was)).to_numpy(zero_copy_only=False)
        except ConfigError:
            unknown[told] = True
    elif kinds.is_string(was.type):
        met[told], unknown[told] = _met_in_texts(condition, some, was)
    return met, unknown


def concerns(path: Path, fields: Sequence[Path]) -> bool:
    """Whether a path leads to any of some fields, to what is around one, or into it; names see no case."""
    return any(all(a.lower() == b.lower() for a, b in zip(field, path, strict=False)) for field in fields)


def object_of(text: str) -> dict[str, Any]:
    """What a text says; nothing where that is no object."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def laid_into(row: dict[str, Any], said: Sequence[tuple[Path, Any]]) -> dict[str, Any]:
    """A row with what had no place in it."""
    for path, value in said:
        at = row
        for name in path[:-1]:
            there = next((one for one in at if one.lower() == name.lower()), name)
            if not isinstance(at.get(there), dict):
                at[there] = {}
            at = at[there]
        at[next((one for one in at if one.lower() == path[-1].lower()), path[-1])] = value
    return row


def _laid_over(rows: pa.RecordBatch, was: pa.StructArray) -> pa.RecordBatch:
    inside = dict(zip((field.name for field in was.type), was.flatten(), strict=True))
    names = set(map(fold, inside))
    kept = {name: rows.column(name) for name in rows.schema.names if fold(name) not in names}
    return pa.RecordBatch.from_arrays([*kept.values(), *inside.values()], [*kept, *inside])


def _met_in_texts(condition: ReadCondition, rows: pa.RecordBatch, was: pa.StringArray) -> tuple[Mask, Mask]:
    fields = fields_of(condition.tree)
    others = as_plain(rows, fields)
    each = each_holds(
        condition,
        [
            None if row is None else {**_without(row, said), **said}
            for row, said in zip(others, map(object_of, was.to_pylist()), strict=True)
        ],
    )
    return np.array([one is True for one in each]), np.array([one is None for one in each])


def _without(row: Mapping[str, Any], said: Mapping[str, Any]) -> dict[str, Any]:
    """A row without what is said of it otherwise."""
    names = {name.lower() for name in said}
    return {name: value for name, value in row.items() if name.lower() not in names}


def _there(body: Mapping[str, Any]) -> dict[str, Any]:
    """What an object says, by names of one case unless it has several that differ in that alone."""
    # As a condition finds them: another way to fold, by which `straße` is `strasse`, had it find none.
    found = {name.lower(): value for name, value in body.items() if value is not None}
    return found if len({name.lower() for name in body}) == len(body) else dict(body)


def _types(value: object) -> Hashable:
    """What a value is, and all within it."""
    if isinstance(value, dict):
        return frozenset((name, _types(inner)) for name, inner in value.items())
    return type(value).__name__


def _all_hold(condition: ReadCondition, bodies: Sequence[Mapping[str, Any]]) -> Mask | None:
    """Of which objects a condition is true; None where nobody can tell it of all of them together."""
    names = list(dict.fromkeys(name for body in bodies for name in body))
    if len(set(map(fold, names))) < len(names):
        return None
    try:
        columns = [pa.array([body.get(name) for body in bodies]) for name in names]
        rows = pa.RecordBatch.from_arrays([*columns, pa.nulls(len(bodies))], [*names, ""])
        found: Mask = condition.met(rows).to_numpy(zero_copy_only=False)
    except _NOBODY_KNOWS:
        return None
    return found
