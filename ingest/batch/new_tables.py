"""New tables: how many there may be, which entities get one, and which have to do without; and those that remember deletes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from distributary.ingest.columns.layout import Layout
from distributary.ingest.evolution.rules import Rules
from distributary.ingest.merge.rule import memory_folder
from distributary.ingest.pins import PinnedTable, Pins
from distributary.ingest.worker.keyed import whole_layout
from distributary.ingest.worker.report import TaskReport


def memories(pins: Pins, total: TaskReport, layouts: Mapping[str, Layout]) -> dict[str, Layout]:
    """The columns of what is to remember the deletes of those tables that are written to, by its folders."""
    found: dict[str, Layout] = {}
    for written in total.files.written:
        upsert = None if written.entity is None else pins.rules.tables.upsert(written.entity)
        folder = memory_folder(written.table)
        if upsert is not None and upsert.remembers and folder not in found:
            found[folder] = whole_layout(pins, folder, written.entity, layouts[written.table])
    return found


class NewTables:
    """The tables that one batch may bring; `known` are those that were there when it began."""

    def __init__(self, rules: Rules, known: Mapping[str, PinnedTable]) -> None:
        self._rules, self._known = rules, known
        strays = rules.policies.no_entity
        # No entity's: the settings want it by name, whatever they say of entities.
        self._strays = None if isinstance(strays, str) else strays.table

    def room(self) -> int:
        """How many tables there may be beside the known ones."""
        if self._rules.policies.new_entity == "quarantine":
            return 0
        known = sum(folder != self._strays for folder in self._known)
        return max(self._rules.route.max_tables - known, 0)

    def written_to(self, total: TaskReport) -> dict[str, int]:
        """Tables of entities that are written to and were not there, and their rows."""
        found: dict[str, int] = {}
        for written in total.files.written:
            folder = written.table
            if written.entity is not None and folder not in self._known and folder != self._strays:
                found[folder] = found.get(folder, 0) + written.file.rows
        return found

    def admitted(self, total: TaskReport, pins: Pins, *, last: bool) -> Pins:
        """The pins with the new tables that there may be; those that most records wait for come first."""
        names = [
            name
            for name, _ in sorted(total.questions.newcomers.items(), key=lambda item: (-item[1], item[0]))
        ]
        folders = dict.fromkeys(map(self._rules.route.folder, names))
        provisional = self.written_to(total)
        room = self.room() - len(provisional)
        waiting = [folder for folder in folders if folder not in provisional and folder not in self._known]
        final = last or len(waiting) > room
        tables = replace(
            pins.tables,
            admitted=frozenset([*pins.tables.admitted, *provisional, *waiting[: max(room, 0)]]),
            # Whoever has not been named so far does not get in by being first in a task.
            new_tables=0 if final else max(room, 0),
        )
        return replace(pins, tables=tables, turn=replace(pins.turn, tables_final=final))

    def over_the_limit(self, total: TaskReport, pins: Pins) -> Pins | None:
        """The pins that give tables to as many entities as may have one, those with most rows first; None where all may."""
        new, room = self.written_to(total), self.room()
        if len(new) <= room:
            return None
        ranked = sorted(new, key=lambda folder: (-new[folder], folder))
        tables = replace(
            pins.tables,
            admitted=frozenset(ranked[:room]),
            denied=pins.tables.denied | frozenset(ranked[room:]),
            new_tables=0,
        )
        return replace(pins, tables=tables, turn=replace(pins.turn, tables_final=True))
