"""What no column took of records, as conditions see it: laid into the rows by the paths that it had."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.types as kinds

from distributary.codecs.types.fields import parts
from distributary.ingest.columns.safe_names import fold
from distributary.ingest.routing.as_said import (
    AS_IT_WAS,
    Mask,
    Path,
    as_plain,
    concerns,
    each_holds,
    fields_of,
    laid_into,
    met_as_it_was,
    object_of,
)
from distributary.ingest.routing.conditions import ReadCondition

Said: TypeAlias = Sequence[tuple[Path, Any]]

_NUMBERS = (kinds.is_integer, kinds.is_floating, kinds.is_decimal)

_MOST_WHOLE, _MOST = 2**63, sys.float_info.max


@dataclass(frozen=True, slots=True)
class Untaken:
    """What no column took, by the places of the rows that have any."""

    said: Mapping[int, Said]

    @classmethod
    def of(cls, texts: pa.StringArray | None, conditions: Iterable[ReadCondition]) -> Untaken:
        """That of rows which have it as JSON text, by its paths, as far as it is some of these conditions' matter."""
        fields = [path for one in conditions for path in fields_of(one.tree)]
        if texts is None or not fields:
            return cls({})
        # Names recur: rows have the same ones.
        path = cache(lambda key: tuple(parts(key)))
        meant = cache(lambda key: path(key)[:1] == (AS_IT_WAS,) or concerns(path(key), fields))
        told = (
            (row, [(path(key), value) for key, value in object_of(text.as_py()).items() if meant(key)])
            for row, text in enumerate(texts)
            if text.is_valid
        )
        return cls({row: said for row, said in told if said})

    def met(self, condition: ReadCondition, rows: pa.RecordBatch) -> tuple[Mask, Mask]:
        """For which rows a condition is true with it, and of which of these nobody can tell."""
        fields = fields_of(condition.tree)
        concerned = self._concerned(lambda said: said, fields)
        laid = _laid(_own(rows, list(concerned), fields), concerned, rows.schema)
        return _masks(rows.num_rows, concerned, each_holds(condition, laid.bodies), laid.doubted)

    def met_as_it_was(self, condition: ReadCondition, rows: pa.RecordBatch) -> tuple[Mask, Mask]:
        """The same of rows as they were before a change."""
        concerned = self._concerned(_before, fields_of(condition.tree))
        place = rows.schema.get_field_index(AS_IT_WAS)
        if place < 0 or not concerned:
            return _masks(rows.num_rows, {}, [], [])
        dtype = rows.schema.field(place).type
        was = [
            None if one is None else one[AS_IT_WAS] or {}
            for one in _own(rows, list(concerned), [(AS_IT_WAS,)])
        ]
        laid = _laid(was, concerned, dtype if kinds.is_struct(dtype) else ())
        texts = [None if body is None else json.dumps(body, default=str) for body in laid.bodies]
        some = rows.take(pa.array(list(concerned), pa.int64()))
        some = some.set_column(place, AS_IT_WAS, pa.array(texts, pa.string()))
        told = [
            None if text is None or unknown else bool(met)
            for text, met, unknown in zip(texts, *met_as_it_was(condition, some), strict=True)
        ]
        return _masks(rows.num_rows, concerned, told, laid.doubted)

    def _concerned(self, within: Callable[[Said], Said], fields: Sequence[Path]) -> dict[int, Said]:
        """What is in some part of it that any of these fields is of, by the places of rows that have any."""
        meant = cache(lambda path: concerns(path, fields))
        found = {row: [one for one in within(said) if meant(one[0])] for row, said in self.said.items()}
        return {row: said for row, said in found.items() if said}


@dataclass(frozen=True, slots=True)
class _Laid:
    """Rows with what no column took of them; of which it is doubted that what was laid into them is what was said."""

    bodies: list[dict[str, Any] | None]
    doubted: list[bool]


def _laid(
    rows: Sequence[dict[str, Any] | None], said: Mapping[int, Said], columns: Iterable[pa.Field]
) -> _Laid:
    found, known = _Laid([], []), list(columns)
    for own, mine in zip(rows, said.values(), strict=True):
        read = [(path, *_read(value, _type_at(known, path))) for path, value in mine]
        found.bodies.append(None if own is None else laid_into(own, [one[:2] for one in read]))
        found.doubted.append(any(doubt for _, _, doubt in read))
    return found


def _before(said: Said) -> Said:
    """What is told of a row as it was, by the paths within that."""
    mine = [(path[1:], value) for path, value in said if path[:1] == (AS_IT_WAS,)]
    inside = [value for path, value in mine if not path and isinstance(value, dict)]
    return [
        *((path, value) for path, value in mine if path),
        *(((name,), value) for one in inside for name, value in one.items()),
    ]


def _own(rows: pa.RecordBatch, places: Sequence[int], fields: Sequence[Path]) -> list[dict[str, Any] | None]:
    # Not all columns are copied for these.
    names = {fold(path[0]) for path in fields}
    asked = rows.select([name for name in rows.schema.names if fold(name) in names])
    return as_plain(asked.take(pa.array(places, pa.int64())), fields)


def _masks(
    count: int, rows: Iterable[int], told: Sequence[bool | None], doubted: Sequence[bool]
) -> tuple[Mask, Mask]:
    met, unknown = np.zeros(count, np.bool_), np.zeros(count, np.bool_)
    for row, one, doubt in zip(rows, told, doubted, strict=True):
        met[row], unknown[row] = one is True and not doubt, one is None or (one and doubt)
    return met, unknown


def _type_at(columns: Sequence[pa.Field], path: Path) -> pa.DataType | None:
    """The type of a column, or of a field in one; None where there is none. Names see no case."""
    dtype = None
    for name in path:
        dtype = next((one.type for one in columns if one.name.lower() == name.lower()), None)
        columns = list(dtype) if dtype is not None and kinds.is_struct(dtype) else ()
    return dtype


def _read(value: Any, dtype: pa.DataType | None) -> tuple[Any, bool]:
    """A value as a column of this type might have it, and whether that is a guess; None where it is nothing that could be meant.

    Of a text in a column of numbers that is no number, or of one that is where fields should be, nobody is to doubt whose it is.
    """
    if dtype is None or not isinstance(value, (str, int, float)):
        return value, False
    if kinds.is_struct(dtype):
        return (value if isinstance(value, str) and object_of(value) else None), False
    if kinds.is_string(dtype):
        return (value, False) if isinstance(value, str) else (json.dumps(value), True)
    is_number = any(is_one(dtype) for is_one in _NUMBERS)
    return _as_number(value) if is_number else (value, False)


def _as_number(value: str | float) -> tuple[float | None, bool]:
    if isinstance(value, bool):
        return None, False
    number = _number(value) if isinstance(value, str) else value
    if number is not None and abs(number) >= _MOST_WHOLE:
        # No column of whole numbers has room for it.
        return float(min(max(number, -_MOST), _MOST)), True
    return number, isinstance(value, str)


def _number(text: str) -> float | None:
    """What number a text is."""
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return None
