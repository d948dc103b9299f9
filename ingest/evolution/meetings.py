"""What it meant for each table of a batch that it met a record type for the first time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from distributary.ingest.checkpoint.histories import Histories, Met, newly_met
from distributary.ingest.columns.growth import changes, grown
from distributary.ingest.columns.layout import NO_COLUMNS, Layout
from distributary.ingest.evolution.rules import Rules
from distributary.ingest.evolution.transitions import Transitions
from distributary.ingest.evolution.verdicts import (
    TableVerdict,
    of_routes,
    unshapeable,
    verdicts,
    verdicts_of_table,
)
from distributary.ingest.pins import Coordinates, PinnedTable, RecordKey


@dataclass(frozen=True, slots=True)
class Meeting:
    """A table met a record type for the first time.

    old       the record type that was what this one is now; None for one that is new to the table
    first     the first record of it that was on its way to the table
    brought   the columns that come with it; none of an inferred schema's, which come with their values
    verdicts  what becomes of each change
    """

    folder: str
    old: RecordKey | None
    new: RecordKey
    first: Coordinates
    brought: frozenset[str]
    verdicts: tuple[TableVerdict, ...]


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What one transition means for all tables of the same columns, and the columns they have then."""

    grown: Layout
    brought: frozenset[str]
    verdicts: tuple[TableVerdict, ...]


_Transition = tuple[RecordKey | None, RecordKey, Layout, Layout, bool, bool, str]


@dataclass
class Meetings:
    """Holds what was met against the tables: `known` as they were before the batch, `layouts` as they are with it.

    `entities` are those of new ones, by folder.

    A thousand tables that go through the same transition share its outcome.
    """

    transitions: Transitions
    rules: Rules
    known: Mapping[str, PinnedTable]
    layouts: Mapping[str, Layout]
    entities: Mapping[str, str] = field(default_factory=dict)
    _outcomes: dict[_Transition, _Outcome] = field(default_factory=dict)

    def of(self, met: Met, histories: Histories) -> list[Meeting]:
        """Table after table, in the order in which each met what it met; `histories` are those before the batch."""
        return [
            meeting
            for folder, new in newly_met(met, histories).items()
            if folder in self.known or folder in self.layouts
            for meeting in self._of_table(folder, new, histories.get(folder, ()))
        ]

    def _of_table(
        self, folder: str, new: Sequence[tuple[RecordKey, Coordinates]], history: Sequence[RecordKey]
    ) -> Iterator[Meeting]:
        is_new = folder not in self.known
        before = NO_COLUMNS if is_new else self.known[folder].layout
        after = self.layouts.get(folder, before)
        entity = self.entities.get(folder, "" if is_new else self.known[folder].entity)
        rules = self.rules.of(entity)
        for key, first in new:
            old = self.transitions.before(key, history)
            created = is_new and not history
            transition = (old, key, before, after, is_new, created, rules.said.by)
            if transition not in self._outcomes:
                told = rules.of_new_table() if is_new else rules
                self._outcomes[transition] = self._outcome(old, key, (before, after), told, created)
            outcome = self._outcomes[transition]
            yield Meeting(folder, old, key, first, outcome.brought, outcome.verdicts)
            before, history = outcome.grown, (*history, key)

    def _outcome(
        self,
        old: RecordKey | None,
        new: RecordKey,
        layouts: tuple[Layout, Layout],
        rules: Rules,
        created: bool,
    ) -> _Outcome:
        (before, after), record = layouts, self.transitions.columns(new, rules.reshape)
        told: tuple[TableVerdict, ...] = ()
        why = self.transitions.unshapeable(new, rules.reshape)
        if why:
            told = (unshapeable(why, rules),)
        elif old is not None:
            changed = self.transitions.changes(old, new, rules.reshape)
            if rules.reshape is not None:
                unseen = self.transitions.changes(old, new)
                changed = [*changed, *of_routes(unseen, changed, before.columns, rules)]
            told = verdicts(changed, record, before, rules, after)
        elif not created:
            told = verdicts_of_table(record, before, rules, after)
        wanted = grown(before, record, rules.growth)
        inferred = self.transitions.inferred(new)
        brought = () if inferred else (change.column for change in changes(before.columns, wanted.columns))
        return _Outcome(before if inferred else wanted, frozenset(brought), told)
