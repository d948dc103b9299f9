"""What led from one record type to another, classified once a pair, however many tables went through it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import chain
from typing import TypeAlias

import pyarrow as pa

from distributary.codecs.base import Codec
from distributary.codecs.changes.classify import SchemaChange, classify
from distributary.codecs.changes.description import RecordDescription, described_columns
from distributary.errors import BadSchema
from distributary.ingest.pins import PinnedRecord, RecordKey
from distributary.ingest.reshaping.descriptions import described
from distributary.ingest.reshaping.rule import Reshape
from distributary.ingest.reshaping.shape import columns_of, why_unshapeable
from distributary.ingest.reshaping.shown import called_before, called_otherwise, shown

# Record types of which so much of all top-level fields is alike count as one whose name changed.
_ALIKE = 0.5

# What packages have in their names: https://buf.build/docs/lint/rules/#package_version_suffix
_VERSION = re.compile(r"v\d\w*")

# What led to a record type, the columns of its records, and what other schemas of it tell.
Renames: TypeAlias = tuple[Sequence[SchemaChange], pa.Schema, Sequence[SchemaChange]]


class Transitions:
    """What led from one known record type to another."""

    def __init__(self, codec: Codec, records: Iterable[PinnedRecord]) -> None:
        self._codec = codec
        self._records = {record.key: record for record in records}
        self._own_columns: Callable[[RecordKey], pa.Schema] = lru_cache(maxsize=None)(self._decoded)
        self._found = lru_cache(maxsize=None)(self._changes)
        self._made = lru_cache(maxsize=None)(self._reshaped)
        self._description = lru_cache(maxsize=None)(self._described)
        self._renames = lru_cache(maxsize=None)(self._renames_of)
        self._shown = lru_cache(maxsize=None)(self._newly_shown)

    def before(self, key: RecordKey, history: Sequence[RecordKey]) -> RecordKey | None:
        """The last in a history that is an earlier state of this record type, and not another event."""
        known = (one for one in reversed(history) if one != key and one in self._records)
        return next((one for one in known if self._is_one(one, key)), None)

    def knows(self, key: RecordKey) -> bool:
        """Whether the record type is among those known."""
        return key in self._records

    def inferred(self, key: RecordKey) -> bool:
        """Whether nobody registered its schema."""
        return self._records[key].schema.inferred

    def schema_id(self, key: RecordKey) -> int:
        """The id that the ledger tells of a record type's schema."""
        return self._records[key].schema.id

    def columns(self, key: RecordKey, rule: Reshape | None = None) -> pa.Schema:
        """The columns that a record type brings to tables of a rule."""
        return self._made(key, rule)

    def changes(
        self, before: RecordKey, after: RecordKey, rule: Reshape | None = None
    ) -> Sequence[SchemaChange]:
        """What led from one to the other, as tables of a rule know it."""
        return self._found(before, after, rule)

    def unshapeable(self, key: RecordKey, rule: Reshape | None) -> str:
        """Why records of a type cannot have the columns that a rule wants; empty where they can."""
        return "" if rule is None else why_unshapeable(rule, self._own_columns(key))

    def shown(self, key: RecordKey, rule: Reshape | None) -> SchemaChange | None:
        """The field by which records of a type would show what a rule hides, as their producers call it otherwise; None where there is none."""
        return None if rule is None or not rule.hides or self.inferred(key) else self._shown(key, rule)

    def _newly_shown(self, key: RecordKey, rule: Reshape) -> SchemaChange | None:
        return shown(rule, *self._renames(key))

    def _renames_of(self, key: RecordKey) -> Renames:
        return self.renames(key, self._description(key), self._own_columns(key))

    def renames(self, key: RecordKey, now: RecordDescription, columns: pa.Schema) -> Renames:
        """How the fields of a record type were called, by its own schema and by all others of it that are known; it may not be known itself."""
        known = (one for one in self._records if one != key and not self.inferred(one))
        others = [
            one
            for one in map(self._description, known)
            if _are_states_of_one(one, now) and not _are_two_by_numbers(one, now)
        ]
        led = chain(
            called_before(now),
            *(called_otherwise(one, now, anew=not _are_called_alike(one, now)) for one in others),
        )
        told = chain.from_iterable(map(called_before, others))
        return [*dict.fromkeys(led)], columns, [*dict.fromkeys(told)]

    def _decoded(self, key: RecordKey) -> pa.Schema:
        return self._codec.reader(self._records[key].schema, key[1]).schema

    def _reshaped(self, key: RecordKey, rule: Reshape | None) -> pa.Schema:
        return columns_of(rule, self._own_columns(key))

    def _changes(self, before: RecordKey, after: RecordKey, rule: Reshape | None) -> Sequence[SchemaChange]:
        old, new = self._description(before), self._description(after)
        if rule is not None:
            # Records that cannot have the columns are in no table: nothing has changed for what is there.
            if any(self.unshapeable(key, rule) for key in (before, after)):
                return []
            old = described(rule, old, self._own_columns(before))
            new = described(rule, new, self._own_columns(after))
        return classify(old, new)

    def _described(self, key: RecordKey) -> RecordDescription:
        schema, path = self._records[key].schema, key[1]
        try:
            return self._codec.description(schema, path)
        except BadSchema:
            # Its records were decoded: what is told of them must never be what stops a batch.
            reader = self._codec.reader(schema, path)
            return RecordDescription(schema.type, reader.name, described_columns(reader.schema))

    def _is_one(self, before: RecordKey, after: RecordKey) -> bool:
        return same_record(self._description(before), self._description(after))


def same_record(before: RecordDescription, after: RecordDescription) -> bool:
    """Whether two descriptions are of one record type at two times: by name, by alias, or by most of its fields.

    Several event types may share a table: from one of them to the next nothing changed.
    """
    if same_name(before, after):
        return True
    old, new = ({field.name for field in one.fields} for one in (before, after))
    return bool(old | new) and len(old & new) / len(old | new) > _ALIKE


def same_name(before: RecordDescription, after: RecordDescription) -> bool:
    """Whether two descriptions are of one record type at two times by what they are called, whatever became of its fields."""
    return before.format == after.format and (before.name == after.name or before.name in after.aliases)


def _are_states_of_one(one: RecordDescription, other: RecordDescription) -> bool:
    """Whether two descriptions are of one record type by what they are called, whichever of them came first, and in whichever version of a package."""
    alike = one.format == other.format and _unversioned(one.name) == _unversioned(other.name)
    return alike or _are_called_alike(one, other)


def _are_called_alike(one: RecordDescription, other: RecordDescription) -> bool:
    return same_name(one, other) or same_name(other, one)


def _unversioned(name: str) -> list[str]:
    *package, own = name.split(".")
    return [*(part for part in package if not _VERSION.fullmatch(part)), own]


def _are_two_by_numbers(one: RecordDescription, other: RecordDescription) -> bool:
    """Whether of the fields with the same numbers most have other names, and of these most other types: such messages are only called alike, as all of Kafka Connect's are."""
    numbered = {field.number: field for field in one.fields if field.number is not None}
    same = [(numbered[field.number], field) for field in other.fields if field.number in numbered]
    named = [(was, now) for was, now in same if was.name != now.name]
    typed = [now for was, now in named if was.type.column != now.type.column]
    return len(named) * 2 > len(same) and len(typed) * 2 > len(named)
