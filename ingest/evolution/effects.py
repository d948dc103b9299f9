"""What records of a schema would do in a table, or on their way to one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import TypeAlias

import pyarrow as pa

from distributary.codecs.base import Codec, RecordPath
from distributary.codecs.changes.classify import SchemaChange, classify
from distributary.codecs.types.fields import part, parts
from distributary.codecs.types.spark_struct import type_name
from distributary.errors import BadSchema
from distributary.ingest.columns.layout import NO_COLUMNS, source_of
from distributary.ingest.evolution.candidates import Candidate, Candidates
from distributary.ingest.evolution.rules import Rules
from distributary.ingest.evolution.transitions import Renames, Transitions
from distributary.ingest.evolution.verdicts import (
    TableVerdict,
    absent,
    of_routes,
    shows,
    unreadable,
    unroutable,
    unshapeable,
    verdicts,
    verdicts_of_table,
)
from distributary.ingest.kafka.columns import of_records
from distributary.ingest.pins import PinnedRecord, PinnedTable, RecordKey
from distributary.ingest.reshaping.descriptions import described as reshaped
from distributary.ingest.reshaping.shape import columns_of, why_unshapeable
from distributary.ingest.reshaping.shown import shown, why_shown

Told: TypeAlias = tuple[TableVerdict, ...]

_NOTHING = pa.schema([])


class Effects:
    """Holds schemas against tables. `came` are the record types that records have come with."""

    def __init__(
        self,
        codec: Codec,
        candidates: Candidates,
        rules: Rules,
        transitions: Transitions,
        came: Iterable[RecordKey],
    ) -> None:
        self._codec, self._candidates, self._rules = codec, candidates, rules
        self._transitions, self._came = transitions, tuple(came)
        self._nowhere: frozenset[tuple[str, ...]] | None = None
        self._renames = lru_cache(maxsize=None)(self._renames_of)

    def name(self, candidate: Candidate, path: RecordPath | None = None) -> str:
        """What a schema calls its record type at this place; empty where it cannot be decoded with."""
        path = self._codec.default_path if path is None else path
        described = self._candidates.description((candidate.ref, path), candidate.schema)
        return "" if described is None else described.name

    def after(self, before: PinnedRecord, candidate: Candidate, table: PinnedTable, *, met: bool) -> Told:
        """In a table whose records came as `before` so far; `met` where it has met the candidate's too."""
        columns = self._columns_after(before, candidate)
        told = self._by_rule(candidate, columns, table) if met else self._judged(before, candidate, table)
        return self._routed(told, self.name(candidate, before.key[1]), columns)

    def _by_rule(self, candidate: Candidate, columns: pa.Schema | None, table: PinnedTable) -> Told:
        """What records that a table knows bring to it by a rule that had other columns before, or none.

        Those of an inferred schema come with their values, which nobody knows ahead.
        """
        rules = self._rules.of(table.entity).with_fixed(table.fixed)
        if rules.reshape is None or columns is None or candidate.schema.inferred:
            return ()
        if refused := self._unshapeable(columns, rules):
            return refused
        shaped = columns_of(rules.reshape, columns)
        made = {field.name for field in shaped if field not in list(columns)}
        told = verdicts_of_table(shaped, table.layout, rules)
        return tuple(one for one in told if parts(one.column)[:1] and parts(one.column)[0] in made)

    def on_unknown(
        self, may_come: Sequence[Candidate], table: PinnedTable
    ) -> Iterator[tuple[Candidate, Told]]:
        """In a table of which nobody knows what it met, of each that may come; a column is gone only where none has it."""
        rules = self._rules.of(table.entity).with_fixed(table.fixed)
        records = {one: self._columns(one) for one in may_come}
        shaped = {
            one: columns_of(rules.reshape, columns) for one, columns in records.items() if columns is not None
        }
        fields = {field.name for columns in shaped.values() for field in columns}
        gone = [
            SchemaChange("dropped", part(source_of(column)), type_name(column.type))
            for column in of_records(self._rules.columns, table.layout).columns
            if source_of(column) not in fields
        ]
        for candidate, columns in records.items():
            told = self._unreadable(candidate)
            if columns is not None:
                own = shaped[candidate]
                told = self._refused(candidate, columns, table, rules) or (
                    *verdicts_of_table(own, table.layout, rules),
                    *verdicts([*gone, *self._unrouted(columns, gone)], own, table.layout, rules),
                )
            yield candidate, self._routed(told, self.name(candidate), columns, new=True)

    def on_reached(self, candidate: Candidate, table: PinnedTable) -> Told:
        """In a table that has met nothing like it, should records go there all the same."""
        columns, rules = self._columns(candidate) or _NOTHING, self._rules.of(table.entity)
        return self._refused(candidate, columns, table, rules) or verdicts_of_table(
            columns_of(rules.reshape, columns), table.layout, rules.with_fixed(table.fixed)
        )

    def in_new_tables(self, candidate: Candidate) -> Told:
        """Of a record type that no table has met: its tables fit it, as long as it can be read and routed."""
        columns = self._columns(candidate)
        told = self._unreadable(candidate)
        if columns is not None:
            told = verdicts(list(self._unrouted(columns, ())), columns, NO_COLUMNS, self._rules)
        return self._routed(told, self.name(candidate), columns, new=True)

    def may_go_anywhere(self, candidate: Candidate) -> bool:
        """Whether records of this schema may go to any table: they have an entity, and their name is not it."""
        columns = self._columns(candidate)
        return self._rules.route.by != "record" and columns is not None and not [*self._unrouted(columns, ())]

    def _judged(self, before: PinnedRecord, candidate: Candidate, table: PinnedTable) -> Told:
        rules = self._rules.of(table.entity).with_fixed(table.fixed)
        old, new = before.schema.type, candidate.schema.type
        if old != new and not rules.any_format:
            return verdicts([SchemaChange("format_switched", "", old, new)], _NOTHING, table.layout, rules)
        path = before.key[1]
        if why := self._candidates.unusable(candidate, path):
            return (unreadable(why, rules),)
        described = self._candidates.description((candidate.ref, path), candidate.schema)
        was = self._candidates.description(before.key, before.schema)
        record = self._codec.reader(candidate.schema, path).schema
        if refused := self._unshapeable(record, rules):
            return refused
        shaped = columns_of(rules.reshape, record)
        if refused := self._shown(candidate, path, table, rules):
            return refused
        if described is None or was is None:
            return verdicts_of_table(shaped, table.layout, rules)
        found = classify(was, described)
        if rules.reshape is not None:
            raw, earlier = found, self._codec.reader(before.schema, path).schema
            found = classify(
                reshaped(rules.reshape, was, earlier), reshaped(rules.reshape, described, record)
            )
            found = [*found, *of_routes(raw, found, table.layout.columns, rules)]
        return verdicts(found, shaped, table.layout, rules)

    def _refused(self, candidate: Candidate, columns: pa.Schema, table: PinnedTable, rules: Rules) -> Told:
        """What is told of a schema whose records a table does not take by its rule, whatever it met."""
        path = self._codec.default_path
        return self._unshapeable(columns, rules) or self._shown(candidate, path, table, rules)

    def _shown(self, candidate: Candidate, path: RecordPath, table: PinnedTable, rules: Rules) -> Told:
        """What is told of records that would show what a rule hides, by another name."""
        change = None
        if rules.reshape is not None and rules.reshape.hides and not candidate.schema.inferred:
            change = shown(rules.reshape, *self._renames(candidate, path))
        if change is None or not shows(change, table.layout, rules):
            return ()
        return (unshapeable(why_shown(change), rules),)

    def _renames_of(self, candidate: Candidate, path: RecordPath) -> Renames:
        key, columns = (candidate.ref, path), self._columns(candidate, path) or _NOTHING
        described = self._candidates.description(key, candidate.schema)
        if described is None:
            return (), columns, ()
        return self._transitions.renames(key, described, columns)

    def _unshapeable(self, columns: pa.Schema, rules: Rules) -> Told:
        """What is told of records with these columns where they cannot have those that a rule wants."""
        why = "" if rules.reshape is None else why_unshapeable(rules.reshape, columns)
        return (unshapeable(why, rules),) if why else ()

    def _columns_after(self, before: PinnedRecord, candidate: Candidate) -> pa.Schema | None:
        """The columns of the candidate's records of this kind; None where they cannot be decoded."""
        decodable = before.schema.type == candidate.schema.type or self._rules.any_format
        return self._columns(candidate, before.key[1]) if decodable else None

    def _columns(self, candidate: Candidate, path: RecordPath | None = None) -> pa.Schema | None:
        path = self._codec.default_path if path is None else path
        if self._candidates.unusable(candidate, path):
            return None
        return self._codec.reader(candidate.schema, path).schema

    def _unreadable(self, candidate: Candidate) -> Told:
        why = self._candidates.unusable(candidate, self._codec.default_path)
        return (unreadable(why, self._rules),) if why else ()

    def _unrouted(self, columns: pa.Schema, told: Iterable[SchemaChange]) -> Iterator[SchemaChange]:
        """The routing field as a field that is gone, where a record lacks it and nobody said so."""
        route = self._rules.route.field
        if route is None or _has(columns, route.split(".")):
            return
        outer = part(route.split(".")[0])
        if all(change.column != outer for change in told):
            yield SchemaChange("dropped", ".".join(map(part, route.split("."))))

    def _routed(self, told: Told, record: str, columns: pa.Schema | None, *, new: bool = False) -> Told:
        """With what the routing expression makes of records with these columns, where no change told is the reason.

        `new` are those of which nobody knows that some have been routed.
        """
        expression = self._rules.expression
        if expression is None or columns is None:
            return told
        lacked = expression.lacked_by(columns)
        if not (new and len(lacked) == len(expression.fields)):
            lacked = [path for path in lacked if path in self._in_no_schema()]
        named = {verdict.column for verdict in told if verdict.routing}
        more = [
            absent(path, record, self._rules) for path in lacked if ".".join(map(part, path)) not in named
        ]
        why = expression.refusal(columns)
        blamed = why is None or any((why or "") in verdict.detail for verdict in told)
        return (*told, *more) if blamed else (*told, *more, unroutable(why or "", self._rules))

    def _in_no_schema(self) -> frozenset[tuple[str, ...]]:
        """The fields of the routing expression that no record has, of those that came and those that may come."""
        if self._nowhere is None:
            expression = self._rules.expression
            came = map(self._columns_of, self._came)
            may_come = map(self._columns, self._candidates.newest)
            left = set(expression.fields if expression else ())
            for columns in (*came, *may_come):
                if expression and columns is not None:
                    left.intersection_update(expression.lacked_by(columns))
            self._nowhere = frozenset(left)
        return self._nowhere

    def _columns_of(self, key: RecordKey) -> pa.Schema | None:
        try:
            return self._transitions.columns(key)
        except BadSchema:  # of a format that is not decoded any more
            return None


def _has(columns: pa.Schema, path: Sequence[str]) -> bool:
    """Whether a record has a field at this path that can name an entity."""
    found: pa.DataType = pa.struct(list(columns))
    for name in path:
        if not pa.types.is_struct(found) or found.get_field_index(name) < 0:
            return False
        found = found.field(name).type
    return not pa.types.is_nested(found)
