"""What the newest schemas would do to the tables that are there: the answer to `distributary plan`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

import pyarrow as pa

from distributary.codecs.base import Codec, RecordPath
from distributary.codecs.changes.classify import SchemaChange, classify
from distributary.codecs.types.fields import part
from distributary.errors import BadSchema
from distributary.ingest.checkpoint.histories import Histories, History
from distributary.ingest.columns.layout import NO_COLUMNS, Layout, source_of, spark_type
from distributary.ingest.evolution.candidates import Candidate, Candidates
from distributary.ingest.evolution.rules import Rules
from distributary.ingest.evolution.transitions import Transitions, same_name
from distributary.ingest.evolution.verdicts import (
    TableVerdict,
    absent,
    unreadable,
    unroutable,
    verdicts,
    verdicts_of_table,
)
from distributary.ingest.kafka.columns import without_rescued
from distributary.ingest.pins import PinnedRecord, PinnedTable, RecordKey
from distributary.ingest.schemas.entity_location import entity_name
from distributary.registry.base import Schema, SchemaRef


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of the past: tables as they are, what each met, and the schemas that were pinned.

    unread  tables that cannot be looked at without Spark, and why
    """

    tables: Mapping[str, PinnedTable]
    met: Histories
    schemas: Mapping[RecordKey, Schema]
    unread: Mapping[str, str] = field(default_factory=dict)


Told: TypeAlias = tuple[TableVerdict, ...]

# One table's answer, before tables with the same answer are put together.
_Answer = tuple[str, int | None, Candidate, Told]

# As what tables met a record type last, where that matters.
_Last = TypeVar("_Last")


class Planner:
    """Holds tables against schemas. Tables share layouts, histories and so answers: each is worked out once."""

    def __init__(self, codec: Codec, candidates: Candidates, rules: Rules, known: Known) -> None:
        self._codec, self._candidates, self._rules, self._known = codec, candidates, rules, known
        records = [PinnedRecord(key, schema) for key, schema in known.schemas.items()]
        self._transitions = Transitions(codec, records)
        self._answers: dict[tuple[Layout, frozenset[str], History, str | None], list[_Answer]] = {}
        self._nowhere: frozenset[tuple[str, ...]] | None = None

    def plan(self) -> TablePlan:
        """Every table against the schemas that its records will come with."""
        grouped: dict[_Answer, list[str]] = {}
        strangers, led_to = [], set[SchemaRef]()
        for folder, table in sorted(self._known.tables.items()):
            history = self._history(folder)
            answers = self._of_table(table, history)
            for answer in answers:
                grouped.setdefault(answer, []).append(folder)
            if history:
                led_to.update(candidate.ref for _, _, candidate, _ in answers)
            if not answers:
                strangers.append(folder)
        steps = [Step(tuple(folders), *answer) for answer, folders in grouped.items()]
        held = {step.candidate.ref for step in steps}
        for one in self._candidates.newest:
            if one.ref not in led_to:
                steps += self._of_unmet(one, alone=one.ref not in held)
        ordered = sorted(steps, key=lambda step: -len(step.tables))
        return TablePlan(tuple(ordered), tuple(strangers), self._known.unread)

    def _history(self, folder: str) -> History:
        """The record types that a table met, of those that are known."""
        return tuple(key for key in self._known.met.get(folder, ()) if self._transitions.knows(key))

    def _of_table(self, table: PinnedTable, known: History) -> list[_Answer]:
        layout = table.layout
        own = self._own(table)
        key = (layout, table.fixed, known, own)
        if key not in self._answers:
            rules = self._rules.with_fixed(table.fixed)
            found = (
                self._with_history(layout, known, rules, own)
                if known
                else self._without_history(layout, rules, own)
            )
            self._answers[key] = list(found)
        return self._answers[key]

    def _own(self, table: PinnedTable) -> str | None:
        """What schemas of this table's entity alone say that they are for; None where there is no such schema."""
        name = entity_name(table.entity, self._rules.route.fold_case)
        return name if name in self._candidates.of_entities else None

    def _with_history(
        self, layout: Layout, history: History, rules: Rules, own: str | None
    ) -> Iterator[_Answer]:
        for last in self._last_of_each_type(history):
            before = PinnedRecord(last, self._known.schemas[last])
            candidate = self._candidates.successor(before)
            if own is not None and before.schema.inferred:
                candidate = self._candidates.of_entities[own]
            if candidate is None:
                continue
            key = (candidate.ref, last[1])
            told = () if key in history else self._judged(layout, before, candidate, rules)
            name, columns = self._name(key, candidate), self._of_kind(before, candidate)
            yield name, before.schema.id, candidate, self._routed(told, name, columns)

    def _last_of_each_type(self, history: History) -> list[RecordKey]:
        lasts: list[RecordKey] = []
        for key in reversed(history):
            if all(self._transitions.before(last, (key,)) is None for last in lasts):
                lasts.append(key)
        return lasts

    def _judged(
        self, layout: Layout, before: PinnedRecord, candidate: Candidate, rules: Rules
    ) -> tuple[TableVerdict, ...]:
        old, new = before.schema.type, candidate.schema.type
        if old != new and not self._rules.any_format:
            return verdicts([SchemaChange("format_switched", "", old, new)], _NOTHING, layout, self._rules)
        key = (candidate.ref, before.key[1])
        described = self._candidates.description(key, candidate.schema)
        was = self._candidates.description(before.key, before.schema)
        if why := self._candidates.unusable(candidate, before.key[1]):
            return (unreadable(why, self._rules),)
        record = self._codec.reader(candidate.schema, before.key[1]).schema
        if described is None or was is None:
            return verdicts_of_table(record, layout, rules)
        return verdicts(classify(was, described), record, layout, rules)

    def _of_kind(self, before: PinnedRecord, candidate: Candidate) -> pa.Schema | None:
        """The columns of the candidate's records of this kind; None where they cannot be decoded."""
        decodable = before.schema.type == candidate.schema.type or self._rules.any_format
        return self._columns(candidate, before.key[1]) if decodable else None

    def _without_history(self, layout: Layout, rules: Rules, own: str | None) -> Iterator[_Answer]:
        """Against all that may come; a column is gone only where none of it has it."""
        may_come = [one for one in self._candidates.newest if one.schema.entity in (None, own)]
        records = {one: self._columns(one) for one in may_come}
        fields = {field.name for columns in records.values() if columns for field in columns}
        gone = [
            SchemaChange("dropped", part(source_of(column)), spark_type(column.type))
            for column in without_rescued(self._rules.columns, layout).columns
            if source_of(column) not in fields
        ]
        for candidate, columns in records.items():
            key = (candidate.ref, self._codec.default_path)
            told = self._unreadable(candidate)
            if columns is not None:
                told = (
                    *verdicts_of_table(columns, layout, rules),
                    *verdicts([*gone, *self._unrouted(columns, gone)], columns, layout, rules),
                )
            name = self._name(key, candidate)
            yield name, None, candidate, self._routed(told, name, columns, new=True)

    def _of_unmet(self, candidate: Candidate, *, alone: bool) -> Iterator[Step]:
        """A schema that no table's history leads to, for those that met its record type, else for all it may reach.

        `alone` is one that was not held against any table yet.
        """
        histories = {
            folder: history
            for folder, table in sorted(self._known.tables.items())
            if self._is_for(candidate, table) and (history := self._history(folder))
        }
        met = {
            folder: key for folder, history in histories.items() if (key := self._met_as(candidate, history))
        }
        if met:
            yield from self._of_other_subject(candidate, met)
            return
        step = self._of_new_tables(candidate)
        reached = histories if self._may_go_anywhere(candidate) else {}
        if alone and (step.verdicts or not reached):
            yield step
        yield from self._of_reached(candidate, reached)

    def _is_for(self, candidate: Candidate, table: PinnedTable) -> bool:
        """Whether a table may get records of this schema: those without one come by that of their entity, if it has one."""
        own, schema = self._own(table), candidate.schema
        return schema.entity == own if schema.inferred else schema.entity in (None, own)

    def _met_as(self, candidate: Candidate, history: History) -> RecordKey | None:
        """The last in a history that has the name of the candidate's record type, whatever came after it."""
        for key in reversed(history):
            schema = self._known.schemas[key]
            was = (
                self._candidates.description(key, schema)
                if schema.entity == candidate.schema.entity
                else None
            )
            now = self._candidates.description((candidate.ref, key[1]), candidate.schema)
            if was and now and same_name(was, now):
                return key
        return None

    def _of_other_subject(self, candidate: Candidate, met: Mapping[str, RecordKey]) -> Iterator[Step]:
        """For tables that met the candidate's record type as these, and go on with another schema after it."""

        def told(key: RecordKey, layout: Layout, rules: Rules) -> Told:
            before = PinnedRecord(key, self._known.schemas[key])
            name = self._name((candidate.ref, key[1]), candidate)
            columns = self._of_kind(before, candidate)
            return self._routed(self._judged(layout, before, candidate, rules), name, columns)

        for (key, verdicts_), folders in self._alike(met, told).items():
            name = self._name((candidate.ref, key[1]), candidate)
            yield Step(tuple(folders), name, self._known.schemas[key].id, candidate, verdicts_)

    def _may_go_anywhere(self, candidate: Candidate) -> bool:
        """Whether records of this schema may go to any table: they have an entity, and their name is not it."""
        columns = self._columns(candidate)
        return self._rules.route.by != "record" and columns is not None and not [*self._unrouted(columns, ())]

    def _of_reached(self, candidate: Candidate, tables: Iterable[str]) -> Iterator[Step]:
        columns = self._columns(candidate) or _NOTHING
        name = self._name((candidate.ref, self._codec.default_path), candidate)

        def told(_: None, layout: Layout, rules: Rules) -> Told:
            return verdicts_of_table(columns, layout, rules)

        for (_, verdicts_), folders in self._alike(dict.fromkeys(tables), told).items():
            yield Step(tuple(folders), name, None, candidate, verdicts_, unmet=True)

    def _alike(
        self, tables: Mapping[str, _Last], told: Callable[[_Last, Layout, Rules], Told]
    ) -> dict[tuple[_Last, Told], list[str]]:
        """Tables by what is told of them, which is worked out once for those of the same columns."""
        answers: dict[tuple[_Last, Layout, frozenset[str]], Told] = {}
        grouped: dict[tuple[_Last, Told], list[str]] = {}
        for folder, last in tables.items():
            table = self._known.tables[folder]
            key = (last, table.layout, table.fixed)
            if key not in answers:
                answers[key] = told(last, table.layout, self._rules.with_fixed(table.fixed))
            grouped.setdefault((last, answers[key]), []).append(folder)
        return grouped

    def _of_new_tables(self, candidate: Candidate) -> Step:
        """A record type that no table has met: its tables fit it, as long as it can be read and routed."""
        columns = self._columns(candidate)
        told = self._unreadable(candidate)
        if columns is not None:
            told = verdicts(list(self._unrouted(columns, ())), columns, NO_COLUMNS, self._rules)
        key = (candidate.ref, self._codec.default_path)
        name = self._name(key, candidate)
        return Step((), name, None, candidate, self._routed(told, name, columns, new=True))

    def _columns(self, candidate: Candidate, path: RecordPath | None = None) -> pa.Schema | None:
        path = self._codec.default_path if path is None else path
        if self._candidates.unusable(candidate, path):
            return None
        return self._codec.reader(candidate.schema, path).schema

    def _unreadable(self, candidate: Candidate) -> tuple[TableVerdict, ...]:
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
        blamed = why is None or any(verdict.detail == why for verdict in told)
        return (*told, *more) if blamed else (*told, *more, unroutable(why or ""))

    def _in_no_schema(self) -> frozenset[tuple[str, ...]]:
        """The fields of the routing expression that no record has, of those that came and those that may come."""
        if self._nowhere is None:
            expression = self._rules.expression
            came = map(self._columns_of, self._known.schemas)
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

    def _name(self, key: RecordKey, candidate: Candidate) -> str:
        described = self._candidates.description(key, candidate.schema)
        return "" if described is None else described.name


_NOTHING = pa.schema([])


def _has(columns: pa.Schema, path: Sequence[str]) -> bool:
    """Whether a record has a field at this path that can name an entity."""
    found: pa.DataType = pa.struct(list(columns))
    for name in path:
        if not pa.types.is_struct(found) or found.get_field_index(name) < 0:
            return False
        found = found.field(name).type
    return not pa.types.is_nested(found)


@dataclass(frozen=True, slots=True)
class Step:
    """What a schema means for some tables.

    tables   their folders; none where it is for tables that are not there yet
    record   the record type's name
    before   the id that these tables met last; None where nobody knows, or there is none
    unmet    whether no table has met this record type, and its records may go to these all the same
    """

    tables: tuple[str, ...]
    record: str
    before: int | None
    candidate: Candidate
    verdicts: tuple[TableVerdict, ...]
    unmet: bool = False

    @property
    def open(self) -> bool:
        """Whether something needs a decision."""
        return any(verdict.open for verdict in self.verdicts)


@dataclass(frozen=True, slots=True)
class TablePlan:
    """All steps, those of the most tables first.

    strangers  tables whose records' schemas are of no watched subject
    unread     tables that nobody could look at, and why
    """

    steps: tuple[Step, ...]
    strangers: tuple[str, ...]
    unread: Mapping[str, str]

    @property
    def open(self) -> bool:
        """Whether something needs a decision, which it does where nobody could look."""
        return bool(self.unread) or any(step.open for step in self.steps)
