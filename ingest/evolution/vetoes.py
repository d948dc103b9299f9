"""Record types that a table does not take: the settings say so of a class of change that they bring to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from distributary.codecs.base import Codec
from distributary.codecs.changes.classify import ChangeClass, SchemaChange
from distributary.ingest.checkpoint.histories import Histories, Met, newly_met
from distributary.ingest.evolution.rules import Rules
from distributary.ingest.evolution.transitions import Transitions
from distributary.ingest.evolution.verdicts import is_for_the_table, shows, veto_on
from distributary.ingest.pins import (
    COLUMNS,
    SCHEMA_CHANGE,
    Coordinates,
    PinnedRecord,
    PinnedTable,
    RecordKey,
    by_age,
)
from distributary.ingest.reshaping.shown import why_shown

_NONE_NEW: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Veto:
    """A table does not take a record type.

    stops   whether the run ends for it; otherwise its records wait in quarantine
    why     the change and the setting, in words
    first   the first record of it that was on its way to the table
    reason  the one that quarantine has for its records
    """

    folder: str
    key: RecordKey
    stops: bool
    why: str
    first: Coordinates
    reason: str = SCHEMA_CHANGE


class Vetoes:
    """Holds what was met against the tables that were there and what each of them had met.

    A record type is held against the one that it came after, so that the records of old producers, which bring no change, are taken.
    """

    def __init__(
        self, codec: Codec, records: Sequence[PinnedRecord], rules: Rules, known: Mapping[str, PinnedTable]
    ) -> None:
        self._transitions, self._rules, self._known = Transitions(codec, records), rules, known

    def of(self, met: Met, histories: Histories, new: Mapping[str, str] = _NONE_NEW) -> list[Veto]:
        """Table after table; of several record types that are new to one, each is held against those that it takes.

        new  the entities of tables that are not there yet, by their folders: they take whatever changes, and show nothing that is hidden
        """
        found: list[Veto] = []
        for folder, unmet in newly_met(met, histories).items():
            table = self._known.get(folder)
            if table is not None:
                rules = self._rules.of(table.entity)
            elif folder in new:
                rules = self._rules.of(new[folder]).of_new_table()
            else:
                continue
            if rules.vetoes or rules.hides:
                found += self._of_table(folder, unmet, list(histories.get(folder, ())), rules)
        return found

    def _of_table(
        self,
        folder: str,
        unmet: Sequence[tuple[RecordKey, Coordinates]],
        taken: list[RecordKey],
        rules: Rules,
    ) -> Iterator[Veto]:
        layout = self._known[folder].layout if folder in self._known else None
        for key, first in unmet:
            change = self._transitions.shown(key, rules.reshape)
            if change is not None and shows(change, layout, rules):
                yield Veto(folder, key, stops=False, why=why_shown(change), first=first, reason=COLUMNS)
            elif (veto := self._veto(key, taken, rules)) is not None:
                yield Veto(folder, key, veto[0] == "fail", veto[1], first)
            else:
                taken.append(key)

    def _veto(
        self, key: RecordKey, taken: Sequence[RecordKey], rules: Rules
    ) -> tuple[Literal["fail", "quarantine"], str] | None:
        before = self._transitions.before(key, [one for one in taken if _is_older(one, key)])
        if before is None:
            return None
        changes = self._transitions.changes(before, key, rules.reshape)
        found = [
            (veto[0], f"{_told(change)} with schema {key[0]}, and {veto[1]} is `{veto[0]}`")
            for change in changes
            if is_for_the_table(change, rules) and (veto := veto_on(change.kind, rules)) is not None
        ]
        # What stops the run goes before what waits.
        return min(found, key=lambda one: one[0] != "fail", default=None)


def _is_older(one: RecordKey, key: RecordKey) -> bool:
    """Whether a record type was registered before another; of GUIDs nobody knows, so that they count in the order of their coming."""
    return isinstance(key[0], str) or isinstance(one[0], str) or by_age(one) < by_age(key)


_WORDS: Mapping[ChangeClass, str] = {
    "dropped": "field {0} is gone",
    "renamed": "field {1} is called {0}",
    "narrowed": "field {0} went from {1} to {2}",
    "made_required": "field {0} became required",
    "enum_value_added": "enum {0} got {2}",
    "enum_value_removed": "enum {0} lost {1}",
    "record_renamed": "record {1} is called {2}",
}


def _told(change: SchemaChange) -> str:
    return _WORDS[change.kind].format(change.column, change.before, change.after)
