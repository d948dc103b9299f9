"""A record's rows as rows of its table: every value in its column, in the rescued text, or its record rejected."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.types as kinds

from distributary.codecs.types.fields import part
from distributary.codecs.types.fit import Fit, fit
from distributary.codecs.types.walk import alike, pairs
from distributary.ingest.columns.layout import restrict, source_of
from distributary.ingest.conform.converters import (
    FREE,
    FREE_OF_EACH,
    Cast,
    Converter,
    Fields,
    Keep,
    Lists,
    Maps,
    Narrow,
    Structs,
)
from distributary.ingest.conform.misfits import FitPolicies, Kind, Misfit, Trouble, trouble
from distributary.ingest.conform.rescued_text import json_text

_NOTHING = pa.schema([])


@dataclass(frozen=True, slots=True)
class Conformed:
    """What became of a batch of records.

    rows      as many as were given, with the conversion's target columns; a value that does not fit is null
    rescued   per row, JSON text of an object {path of the field: value}; null where nothing was rescued; None for no row
    rejected  (row, reason, detail) of the rows that must not be stored, each once, ascending; the reason is the kind of
              the first trouble, the detail names fields and types, never a value
    """

    rows: pa.RecordBatch
    rescued: pa.Array | None
    rejected: list[tuple[int, str, str]]


@dataclass(frozen=True, slots=True)
class Conversion:
    """How records of one schema become rows of one table; made by `conversion_for`, used in the workers.

    target   the columns of the table that the record carries, nested ones too, with the table's names and types
    trouble  the fields that do not fit, and what is done about each
    lost     the columns of the table, as dotted paths, that the record has as types none of whose values goes into them
    """

    target: pa.Schema
    trouble: tuple[Trouble, ...]
    fields: Fields
    lost: tuple[str, ...] = ()

    def apply(self, rows: pa.RecordBatch) -> Conformed:
        """The rows as rows of the table; columns of the same type are passed on, not copied."""
        columns, found = self.fields.convert(rows.columns)
        # A batch made of no columns would forget how many rows it has.
        stored = pa.RecordBatch.from_arrays(columns, schema=self.target) if columns else rows.select([])
        rejected = _rejected(found)
        return Conformed(stored, _rescued(found, {row for row, _, _ in rejected}, rows.num_rows), rejected)


def conversion_for(record: pa.Schema, full: pa.Schema, policies: FitPolicies) -> Conversion:
    """The conversion for records of the schema `record` and a table whose layout is, or will be, within `full`.

    Raises PolicyStopped if a field does not fit and its policy is `fail`.
    """
    target = restrict(full, _NOTHING, [record])
    walk = _Walk(policies)
    fields = walk.fields(list(record), list(target), list(full), "")
    return Conversion(
        target, tuple(walk.trouble), fields, tuple(_lost(list(record), list(target), list(full)))
    )


def _lost(
    record: Sequence[pa.Field], target: Sequence[pa.Field], full: Sequence[pa.Field], above: str = ""
) -> Iterator[str]:
    own = {source_of(field): field.type for field in record}
    kept = {field.name: field.type for field in target}
    for column in full:
        of, path = own.get(source_of(column)), f"{above}{column.name}"
        if of is None:
            continue
        if column.name not in kept:
            if not _only_new(of, column.type):
                yield path
        elif kinds.is_struct(column.type):
            yield from _lost(list(of), list(kept[column.name]), list(column.type), f"{path}.")


class _Walk:
    """Walks a record's schema beside the table's and collects the trouble."""

    def __init__(self, policies: FitPolicies) -> None:
        self._policies = policies
        self.trouble: list[Trouble] = []
        # How many lists and maps there are around.
        self._within = 0

    def fields(
        self, record: Sequence[pa.Field], target: Sequence[pa.Field], full: Sequence[pa.Field], above: str
    ) -> Fields:
        places = {source_of(field): (place, field.type) for place, field in enumerate(record)}
        columns = {source_of(column): column.type for column in full}
        kept = []
        for column in target:
            source = source_of(column)
            place, of = places.pop(source)
            kept.append(
                (place, source, self._converter(of, column.type, columns[source], above + part(source)))
            )
        lost = [
            (place, source, self._lost(of, columns.get(source), above + part(source)))
            for source, (place, of) in places.items()
        ]
        return Fields(tuple(kept), tuple(one for one in lost if one[2].done != "ignored"))

    def _converter(self, record: pa.DataType, target: pa.DataType, full: pa.DataType, path: str) -> Converter:
        if kinds.is_struct(target):
            fields = self.fields(list(record), list(target), list(full), f"{path}.")
            return Keep() if record == target and not fields.lost else Structs(target, fields)
        if kinds.is_list(target):
            element = self._each(record.value_type, target.value_type, full.value_type, f"{path}.element")
            return Keep() if _same(record, target, element) else Lists(target, element)
        if kinds.is_map(target):
            return self._map(record, target, full, path)
        how = fit(record, target)
        if how is Fit.PARTLY:
            return Narrow(target, self._note(path, "wider_type", record, target))
        return Keep() if how is Fit.SAME else Cast(target)

    def _each(self, record: pa.DataType, target: pa.DataType, full: pa.DataType, path: str) -> Converter:
        self._within += 1
        found = self._converter(record, target, full, path)
        self._within -= 1
        return found

    def _map(self, record: pa.MapType, target: pa.MapType, full: pa.MapType, path: str) -> Converter:
        before = len(self.trouble)
        key = self._converter(record.key_type, target.key_type, full.key_type, f"{path}.key")
        whole = self.trouble[before] if len(self.trouble) > before else None
        value = self._each(record.item_type, target.item_type, full.item_type, f"{path}.value")
        if isinstance(key, Keep) and _same(record, target, value):
            return Keep()
        return Maps(target, key, value, whole, FREE_OF_EACH if self._within else FREE)

    def _lost(self, record: pa.DataType, full: pa.DataType | None, path: str) -> Trouble:
        new = full is None or _only_new(record, full)
        return self._note(path, "new_field" if new else "incompatible_type", record, full)

    def _note(self, path: str, kind: Kind, record: pa.DataType, table: pa.DataType | None) -> Trouble:
        found = trouble(path, kind, record, table, self._policies)
        self.trouble.append(found)
        return found


def _same(record: pa.DataType, target: pa.DataType, inside: Converter) -> bool:
    return record == target and isinstance(inside, Keep)


def _only_new(record: pa.DataType, full: pa.DataType) -> bool:
    """Whether nothing of a record's type is in the table's only because its nested fields are all new."""
    if not alike(full, record):
        return False
    inside = pairs(full, record, source_of)
    if kinds.is_map(record):
        inside = inside[1:]
        if fit(record.key_type, full.key_type) is Fit.NEVER:
            return False
    return all(column is None or _only_new(field.type, column.type) for column, field in inside)


def _rejected(found: list[Misfit]) -> list[tuple[int, str, str]]:
    reasons: dict[int, list[Trouble]] = {}
    for one in found:
        if one.trouble.done == "rejected":
            for row in set(one.rows.tolist()):
                reasons.setdefault(row, []).append(one.trouble)
    return [
        (row, all_[0].kind, "; ".join(each.sentence() for each in all_))
        for row, all_ in sorted(reasons.items())
    ]


def _rescued(found: list[Misfit], rejected: set[int], count: int) -> pa.Array | None:
    texts: dict[int, dict[str, object]] = {}
    for one in found:
        if one.trouble.done == "rescued":
            for row, path, value in zip(one.rows.tolist(), one.paths, one.values, strict=True):
                texts.setdefault(row, {})[path] = value
    kept = {row: json_text(values) for row, values in texts.items() if row not in rejected}
    return pa.array([kept.get(row) for row in range(count)], pa.string()) if kept else None
