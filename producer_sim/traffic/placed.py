"""What a correct pipeline with the default policies makes of records whose types are not those of their table's columns.

A table keeps the types that it was made with. A value goes into its column where the column can hold exactly that value;
a number that it cannot hold goes to the rescued values; a value of another kind sends its whole record to quarantine.
Written from docs/reference/names-and-layouts.md, value by value, so that it can testify about the pipeline, which does it by the column.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as kinds

from distributary.producer_sim.truth.rescued_text import RESCUED, canonical_text

Rescued = dict[str, Any]

# What events' types may become, of what Delta can make wider.
_WIDER = {("int32", "int64"), ("int32", "double"), ("float", "double")}


class Placed(NamedTuple):
    """The rows as their tables have them, and which of them, at the same places, do not get into any."""

    rows: pa.RecordBatch
    refused: npt.NDArray[np.bool_]


class _RefusedError(Exception):
    """A value that no column of this kind takes in whole or in part."""


@dataclass(frozen=True, slots=True)
class Placer:
    """Places records of one schema in tables that met schemas before it.

    record  the types of the records' columns
    table   those of the tables' columns
    infers  whether records have no types but those of the tables, so that every value which is of another is rescued
    """

    record: pa.StructType
    table: pa.StructType
    infers: bool = False

    @classmethod
    def after(cls, schemas: Iterable[pa.Schema], *, infers: bool = False, widens: bool = False) -> Placer:
        """For records of the last of these schemas, in tables that all of them have reached in this order.

        `widens`: their columns become as wide as records ask for, by what docs/reference/evolution.md says of that.
        """
        table = record = pa.struct([])
        for schema in schemas:
            record = pa.struct(list(schema))
            table = _grown(table, record, widens)
        return cls(record, table, infers)

    def place(self, rows: pa.RecordBatch) -> Placed:
        """The rows with the values that fit, the others as JSON text in a column of their own."""
        columns = {about.name: about.type for about in self.table}
        odd = [about for about in self.record if _stored(about.type, columns[about.name]) != about.type]
        refused, rescued = np.zeros(rows.num_rows, np.bool_), [Rescued() for _ in range(rows.num_rows)]
        for about in odd:
            kept = self._column(rows[about.name], about, columns[about.name], rescued, refused)
            number = rows.schema.get_field_index(about.name)
            rows = rows.set_column(number, about.name, kept)
        if odd:
            texts = [canonical_text(values) if values else None for values in rescued]
            rows = rows.append_column(RESCUED, pa.array(texts, pa.string()))
        return Placed(rows, refused)

    def _column(
        self,
        values: pa.Array,
        about: pa.Field,
        column: pa.DataType,
        rescued: list[Rescued],
        refused: npt.NDArray[np.bool_],
    ) -> pa.Array:
        kept = []
        for row, value in enumerate(values.to_pylist()):
            try:
                kept.append(self._placed(value, about.type, column, [about.name], rescued[row]))
            except _RefusedError:
                refused[row] = True
                kept.append(None)
        return pa.array(kept, _stored(about.type, column))

    def _placed(
        self, value: Any, record: pa.DataType, column: pa.DataType, path: list[str], rescued: Rescued
    ) -> Any:
        """What the column gets of a value; what it cannot hold is put into `rescued`. Raises _RefusedError."""
        if value is None or record == column:
            return value
        if kinds.is_struct(record) and kinds.is_struct(column):
            fields = {about.name: about.type for about in column}
            return {
                about.name: self._placed(
                    value.get(about.name), about.type, fields[about.name], [*path, about.name], rescued
                )
                for about in record
            }
        if kinds.is_list(record) and kinds.is_list(column):
            inner = record.value_type, column.value_type
            return [self._placed(each, *inner, [*path, str(n)], rescued) for n, each in enumerate(value)]
        if kinds.is_map(record) and kinds.is_map(column):
            inner = record.item_type, column.item_type
            return [(key, self._placed(each, *inner, [*path, key], rescued)) for key, each in value]
        if not self.infers and not (_is_number(record) and _is_number(column)):
            raise _RefusedError
        if self.infers or not _holds(value, column):
            rescued[".".join(map(_part, path))] = value
            return None
        return int(value) if kinds.is_integer(column) else float(value)


def _grown(table: pa.DataType, record: pa.DataType, widens: bool) -> pa.DataType:
    """A column's type once it has met another of a record."""
    if kinds.is_struct(table) and kinds.is_struct(record):
        fields = {about.name: about.type for about in table}
        for about in record:
            known = fields.get(about.name)
            fields[about.name] = about.type if known is None else _grown(known, about.type, widens)
        return pa.struct(list(fields.items()))
    if kinds.is_list(table) and kinds.is_list(record):
        return pa.list_(_grown(table.value_type, record.value_type, widens))
    if kinds.is_map(table) and kinds.is_map(record):
        return pa.map_(table.key_type, _grown(table.item_type, record.item_type, widens))
    return record if widens and (str(table), str(record)) in _WIDER else table


def _stored(record: pa.DataType, column: pa.DataType) -> pa.DataType:
    """The part of a column's type that a record's values fill."""
    if kinds.is_struct(column) and kinds.is_struct(record):
        fields = {about.name: about.type for about in column}
        return pa.struct([(about.name, _stored(about.type, fields[about.name])) for about in record])
    if kinds.is_list(column) and kinds.is_list(record):
        return pa.list_(_stored(record.value_type, column.value_type))
    if kinds.is_map(column) and kinds.is_map(record):
        return pa.map_(column.key_type, _stored(record.item_type, column.item_type))
    return column


def _holds(number: float, column: pa.DataType) -> bool:
    """Whether a column of numbers can hold exactly this one."""
    if kinds.is_integer(column):
        bound = 2 ** (column.bit_width - 1)
        return -bound <= number < bound and number == int(number)
    stored = float(np.float32(number)) if column.bit_width == 32 else float(number)
    return stored == number


def _is_number(kind: pa.DataType) -> bool:
    return bool(kinds.is_integer(kind) or kinds.is_floating(kind))


def _part(name: str) -> str:
    return name if name and not {*name} & {".", "`"} else "`{}`".format(name.replace("`", "``"))
