"""Whether a condition is true of what one record says: as JSON, or as a row of which something had no place in its columns."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from distributary.codecs.types.fields import parts
from distributary.ingest.columns.safe_names import fold
from distributary.ingest.erasure.as_it_was import AsItWas
from distributary.ingest.erasure.file_anew import Mask
from distributary.ingest.erasure.named_otherwise import Names, called, has, in_table, names_of
from distributary.ingest.routing.as_said import (
    AS_IT_WAS,
    Path,
    as_plain,
    concerns,
    fields_of,
    holds,
    laid_into,
    met_as_it_was,
    object_of,
)
from distributary.ingest.routing.conditions import ReadCondition


@dataclass(slots=True)
class Rows:
    """Which rows of a table a condition means, by their columns and by what of their records had no place in these.

    condition  None where the table lacks a column that it names
    rescued    the column that has what had no place as JSON text; None where the table has none
    named      the columns of records' keys, as bytes or as texts
    keys       those that are meant whatever else their rows say
    was        the columns that have rows as they were before a change
    unread     how many have something rescued that the condition names, or a row as it was before, and of which nobody can tell whether it is true
    beside     the fields that it names, in small letters, of which a row was met that has them among what had no place
    """

    condition: ReadCondition | None
    rescued: str | None = None
    named: tuple[str, ...] = ()
    keys: frozenset[bytes] = frozenset()
    was: AsItWas = field(default_factory=AsItWas)
    unread: int = 0
    beside: set[Path] = field(default_factory=set)

    def met(self, rows: pa.RecordBatch) -> Mask:
        """For which of these it is true. Raises ConfigError where the columns' types do not go with it."""
        found = np.zeros(rows.num_rows, dtype=bool)
        for name in self.named if self.keys else ():
            texts = (one.encode() if isinstance(one, str) else one for one in rows.column(name).to_pylist())
            found |= np.fromiter((one in self.keys for one in texts), bool, rows.num_rows)
        return found if self.condition is None else found | self._met(self.condition, rows, found)

    def _met(self, condition: ReadCondition, rows: pa.RecordBatch, already: Mask) -> Mask:
        found: Mask = np.array(condition.met(rows).to_numpy(zero_copy_only=False))
        # A change may have taken away by what its row would be known.
        unknown = np.zeros(rows.num_rows, dtype=bool)
        for each in self.was.each(rows):
            was, of_none = met_as_it_was(condition, each)
            found, unknown = found | was, unknown | of_none
        self.unread += int((unknown & ~found & ~already).sum())
        if self.rescued is None or self.rescued not in rows.schema.names:
            return found
        texts, fields = rows.column(self.rescued), fields_of(condition.tree)
        names = names_of(self.was.table, None)
        there = texts.is_valid().to_numpy(zero_copy_only=False)
        for row in np.flatnonzero(there & ~found & ~already).tolist():
            one, rescued = rows.slice(row, 1), object_of(texts[row].as_py())
            told = [*self._was(condition, one, rescued)]
            if said := list(_rescued(rescued, fields, names)):
                self.beside.update(_told_of(said, fields))
                (row_of,) = as_plain(one, fields)
                told.append(None if row_of is None else holds(condition, laid_into(row_of, said)))
            found[row] = True in told
            # Of one that is unknown by how it was that is counted.
            self.unread += None in told and not found[row] and not unknown[row]
        return found

    def _was(
        self, condition: ReadCondition, row: pa.RecordBatch, rescued: Mapping[str, Any]
    ) -> Iterator[bool | None]:
        """Whether it is true of a row as it was, of which something had no place; None where nobody can tell, and nothing of any other row."""
        said = list(_rescued_before(rescued, self.was))
        if not said:
            return
        whole = json.dumps(laid_into(_object(row, self.was.found_in(row)), said), default=str)
        for each in self.was.each_of(row, pa.array([whole])):
            met, unknown = met_as_it_was(condition, each)
            yield True if met[0] else None if unknown[0] else False


def _rescued(rescued: Mapping[str, Any], fields: Sequence[Path], names: Names) -> Iterator[tuple[Path, Any]]:
    """What had no place of these fields, of what is around them, or in them, by the names that the table has; records may have `names` otherwise."""
    for key, value in rescued.items():
        own = tuple(parts(key))
        path = tuple(name.lower() for name in in_table(own, names))
        if concerns(path, fields):
            yield path, called(value, names, own)


def _told_of(said: Sequence[tuple[Path, Any]], fields: Sequence[Path]) -> Iterator[Path]:
    """Those of some fields, in small letters, that are among what had no place."""
    for one in fields:
        small = tuple(name.lower() for name in one)
        if any(
            path[: len(small)] == small[: len(path)] and has(value, small[len(path) :])
            for path, value in said
        ):
            yield small


def _rescued_before(rescued: Mapping[str, Any], was: AsItWas) -> Iterator[tuple[Path, Any]]:
    """What had no place of a row as it was, by the paths within that."""
    names = {fold(name) for name in (AS_IT_WAS, *was.names, was.renamed.get((AS_IT_WAS,), AS_IT_WAS))}
    for key, value in rescued.items():
        first, *path = parts(key)
        if fold(first) not in names:
            continue
        if path:
            yield tuple(path), value
        elif isinstance(value, dict):
            yield from (((name,), one) for name, one in value.items())


def _object(row: pa.RecordBatch, names: Sequence[str]) -> dict[str, Any]:
    """What the first of these columns that has a value says of one row; nothing where it is no object, or has a time in a year that Python lacks."""
    for name in names:
        try:
            value = row.column(name)[0].as_py()
        except (OverflowError, ValueError):
            continue
        found = object_of(value) if isinstance(value, str) else value
        if isinstance(found, dict):
            return dict(found)
    return {}
