"""Rows as they were before a change, by the names that a table has for their fields: its rule, or Delta, may have others than the records."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.types as kinds

from distributary.codecs.types.walk import around, held
from distributary.ingest.columns.layout import source_of
from distributary.ingest.columns.safe_names import fold
from distributary.ingest.reshaping.rule import Path, Reshape
from distributary.ingest.routing.as_said import AS_IT_WAS

Columns: TypeAlias = Sequence[pa.Field]


@dataclass(frozen=True, slots=True)
class AsItWas:
    """The columns of a table that have its rows as they were: that of this name, and what a rule calls it.

    names    theirs
    table    the table's columns
    renamed  the new names that its rule gives to fields, by their paths in records
    """

    names: tuple[str, ...] = (AS_IT_WAS,)
    table: Columns = ()
    renamed: Mapping[Path, str] = field(default_factory=dict)

    @classmethod
    def of(cls, table: pa.Schema, rule: Reshape | None) -> AsItWas:
        """Those of a table with these columns, whose rule says this of records'."""
        ops = () if rule is None else rule.ops
        renamed = {path: op.to for path, op in ops if op.what == "rename"}
        sources = {AS_IT_WAS, renamed.get((AS_IT_WAS,), AS_IT_WAS)}
        return cls(tuple(one.name for one in table if source_of(one) in sources), list(table), renamed)

    def each(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The rows with one such column at a time, by the name of its own: by the names that fields have there, and by the table's."""
        for name in self.found_in(rows):
            was = rows.column(name)
            called = self._as_in_table(was)
            for values in (was,) if called is None else (was, called):
                yield self._by_own_name(rows, values)

    def each_of(self, rows: pa.RecordBatch, values: pa.Array) -> Iterator[pa.RecordBatch]:
        """The same with these values as the only such column."""
        return replace(self, names=(AS_IT_WAS,)).each(self._by_own_name(rows, values))

    def found_in(self, rows: pa.RecordBatch) -> list[str]:
        """Which of these columns the rows have."""
        return [name for name in self.names if name in rows.schema.names]

    def _by_own_name(self, rows: pa.RecordBatch, values: pa.Array) -> pa.RecordBatch:
        others = [name for name in rows.schema.names if name not in self.names]
        return pa.RecordBatch.from_arrays([*map(rows.column, others), values], [*others, AS_IT_WAS])

    def _as_in_table(self, was: pa.Array) -> pa.Array | None:
        """The same rows with the table's names; None where these are those that they have."""
        if kinds.is_struct(was.type):
            called = self._struct(was, self.table, ())
            return None if called.type == was.type else called
        if not kinds.is_string(was.type) or not (self.renamed or any(map(_is_called_otherwise, self.table))):
            return None
        return pa.array([self._text(text) for text in was.to_pylist()], was.type)

    def _struct(self, was: pa.StructArray, table: Columns, path: Path) -> pa.StructArray:
        fields, inside = list[pa.Field](), held(was)
        for place, own in enumerate(was.type):
            record = (*path, self._in_record(path, source_of(own)))
            name, below = self._in_table(record, table)
            if kinds.is_struct(own.type):
                inside[place] = self._struct(inside[place], below, record)
            fields.append(own.with_name(name).with_type(inside[place].type))
        if _has_twice(one.name for one in fields):
            return was
        return around(was, pa.struct(fields), inside)

    def _text(self, text: str | None) -> str | None:
        try:
            said = None if text is None else json.loads(text)
        except (ValueError, RecursionError):
            return text
        return json.dumps(self._object(said, self.table, ())) if isinstance(said, dict) else text

    def _object(self, said: Mapping[str, Any], table: Columns, path: Path) -> Mapping[str, Any]:
        found = list[tuple[str, Any]]()
        for own, value in said.items():
            record = (*path, self._in_record(path, own))
            name, below = self._in_table(record, table)
            found.append((name, self._object(value, below, record) if isinstance(value, dict) else value))
        return said if _has_twice(name for name, _ in found) else dict(found)

    def _in_record(self, path: Path, name: str) -> str:
        """What records call a field that has this name among rows as they were."""
        before = (AS_IT_WAS, *path)
        return next(
            (own[-1] for own, to in self.renamed.items() if own[:-1] == before and to == name),
            name,
        )

    def _in_table(self, record: Path, table: Columns) -> tuple[str, Columns]:
        """What a field of records is called among these columns of the table, and the columns within it."""
        source = self.renamed.get(record, record[-1])
        column = next((one for one in table if source_of(one) == source), None)
        if column is None:
            return source, ()
        return str(column.name), list(column.type) if kinds.is_struct(column.type) else ()


def _is_called_otherwise(column: pa.Field) -> bool:
    within = list(column.type) if kinds.is_struct(column.type) else ()
    return source_of(column) != column.name or any(map(_is_called_otherwise, within))


def _has_twice(names: Iterator[str]) -> bool:
    folded = list(map(fold, names))
    return len(set(folded)) < len(folded)
