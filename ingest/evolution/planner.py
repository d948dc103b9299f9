"""What the newest schemas would do to the tables that are there: the answer to `distributary plan`."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from distributary.codecs.base import Codec
from distributary.ingest.checkpoint.histories import History
from distributary.ingest.columns.layout import Layout
from distributary.ingest.evolution.candidates import Candidate, Candidates
from distributary.ingest.evolution.effects import Effects, Told
from distributary.ingest.evolution.pairing import Known, Pairing
from distributary.ingest.evolution.rules import Rules
from distributary.ingest.evolution.transitions import Transitions
from distributary.ingest.evolution.verdicts import TableVerdict
from distributary.ingest.pins import PinnedRecord, PinnedTable
from distributary.registry.base import SchemaRef

# One table's answer, before tables with the same answer are put together.
_Answer = tuple[str, int | None, Candidate, Told]

# As what tables met a record type last, where that matters.
_Last = TypeVar("_Last", bound=Hashable)


class Planner:
    """Holds tables against schemas. Tables share layouts, histories and so answers: each is worked out once."""

    def __init__(self, codec: Codec, candidates: Candidates, rules: Rules, known: Known) -> None:
        transitions = Transitions(codec, known.records())
        self._candidates, self._known, self._rules = candidates, known, rules
        self._pairing = Pairing(candidates, known, transitions, rules.route.fold_case)
        self._effects = Effects(codec, candidates, rules, transitions, known.schemas)
        self._answers: dict[tuple[Layout, frozenset[str], History, str | None, str], list[_Answer]] = {}

    def plan(self) -> TablePlan:
        """Every table against the schemas that its records will come with."""
        grouped: dict[_Answer, list[str]] = {}
        strangers, led_to = [], set[SchemaRef]()
        for folder, table in sorted(self._known.tables.items()):
            history = self._pairing.history(folder)
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

    def _of_table(self, table: PinnedTable, history: History) -> list[_Answer]:
        own = self._pairing.own(table)
        key = (table.layout, table.fixed, history, own, self._by(table))
        if key not in self._answers:
            found = self._with_history(table, history, own) if history else self._without_history(table, own)
            self._answers[key] = list(found)
        return self._answers[key]

    def _by(self, table: PinnedTable) -> str:
        """The rule of tables whose policies are the table's; empty where it has those of all."""
        return self._rules.of(table.entity).said.by

    def _with_history(self, table: PinnedTable, history: History, own: str | None) -> Iterator[_Answer]:
        for before, candidate in self._pairing.successors(history, own):
            met = (candidate.ref, before.key[1]) in history
            told = self._effects.after(before, candidate, table, met=met)
            yield self._effects.name(candidate, before.key[1]), before.schema.id, candidate, told

    def _without_history(self, table: PinnedTable, own: str | None) -> Iterator[_Answer]:
        for candidate, told in self._effects.on_unknown(self._pairing.may_come(own), table):
            yield self._effects.name(candidate), None, candidate, told

    def _of_unmet(self, candidate: Candidate, *, alone: bool) -> Iterator[Step]:
        """A schema that no table's history leads to, for those that met its record type, else for all it may reach.

        `alone` is one that was not held against any table yet.
        """
        histories = self._pairing.tables_for(candidate)
        met = {
            folder: before
            for folder, history in histories.items()
            if (before := self._pairing.met_as(candidate, history))
        }
        if met:
            yield from self._of_other_subject(candidate, met)
            return
        told, name = self._effects.in_new_tables(candidate), self._effects.name(candidate)
        reached = histories if self._effects.may_go_anywhere(candidate) else {}
        if alone and (told or not reached):
            yield Step((), name, None, candidate, told)
        for (_, there), folders in self._alike(
            dict.fromkeys(reached), lambda _, table: self._effects.on_reached(candidate, table)
        ).items():
            yield Step(tuple(folders), name, None, candidate, there, unmet=True)

    def _of_other_subject(self, candidate: Candidate, met: Mapping[str, PinnedRecord]) -> Iterator[Step]:
        """For tables that met the candidate's record type as these, and go on with another schema after it."""
        before = {one.key: one for one in met.values()}
        for (key, told), folders in self._alike(
            {folder: one.key for folder, one in met.items()},
            lambda key, table: self._effects.after(before[key], candidate, table, met=False),
        ).items():
            name = self._effects.name(candidate, key[1])
            yield Step(tuple(folders), name, before[key].schema.id, candidate, told)

    def _alike(
        self, tables: Mapping[str, _Last], told: Callable[[_Last, PinnedTable], Told]
    ) -> dict[tuple[_Last, Told], list[str]]:
        """Tables by what is told of them, which is worked out once for those of the same columns."""
        answers: dict[tuple[_Last, Layout, frozenset[str], str], Told] = {}
        grouped: dict[tuple[_Last, Told], list[str]] = {}
        for folder, last in tables.items():
            table = self._known.tables[folder]
            key = (last, table.layout, table.fixed, self._by(table))
            if key not in answers:
                answers[key] = told(last, table)
            grouped.setdefault((last, answers[key]), []).append(folder)
        return grouped


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
