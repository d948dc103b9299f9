"""What the tables' rules say of a pass: how many there may be, and whether what was written goes with their columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from distributary.errors import PolicyStopped
from distributary.ingest.batch.policies import check_counts, check_growth
from distributary.ingest.columns.differences import differences
from distributary.ingest.columns.growth import GrowthRules, changes, grown
from distributary.ingest.columns.layout import NO_COLUMNS, Layout
from distributary.ingest.evolution.rules import Rules
from distributary.ingest.kafka.columns import payload_layout
from distributary.ingest.pins import PinnedTable, Pins, by_age
from distributary.ingest.tables.known_tables import TableBook
from distributary.ingest.tables.state import fixed_columns
from distributary.ingest.worker.report import TaskReport, Wish


class TableRules:
    """Holds one batch's reports against the settings; `known` are the tables that were there when it began."""

    def __init__(self, rules: Rules, tables: TableBook, known: Mapping[str, PinnedTable]) -> None:
        self._rules, self._tables, self._known = rules, tables, known
        strays = rules.policies.no_entity
        # No entity's: the settings want it by name, whatever they say of entities.
        self._strays = None if isinstance(strays, str) else strays.table

    def objection(self, total: TaskReport, pins: Pins) -> Pins | None:
        """The pins to do the whole batch again with, where what was written cannot stay; None where it can."""
        if total.stops:
            raise PolicyStopped(f"batch {pins.batch.id}: {total.stops[0]}")
        return (
            self._too_many_tables(total, pins)
            or self._too_narrow(total, pins)
            or self._layouts_at_odds(total, pins)
        )

    def check_policies(self, total: TaskReport, pins: Pins) -> None:
        """Raises PolicyStopped or EvolutionStopped where the settings say `fail` to what was met."""
        check_counts(self._rules.policies, pins.batch.id, total.counts, self._new_folders(total))
        check_growth(self._rules, total.files.growths, self._known, layouts(total, pins))

    def admitted(self, total: TaskReport, pins: Pins, *, last: bool) -> Pins:
        """The pins with the new tables that there may be; those that most records wait for come first."""
        names = [
            name
            for name, _ in sorted(total.questions.newcomers.items(), key=lambda item: (-item[1], item[0]))
        ]
        folders = dict.fromkeys(map(self._rules.route.folder, names))
        provisional = self._new_folders(total)
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

    def room(self) -> int:
        """How many tables there may be beside the known ones."""
        if self._rules.policies.new_entity == "quarantine":
            return 0
        known = sum(folder != self._strays for folder in self._known)
        return max(self._rules.route.max_tables - known, 0)

    def _new_folders(self, total: TaskReport) -> dict[str, int]:
        """Tables of entities that are written to and were not there, and their rows."""
        found: dict[str, int] = {}
        for written in total.files.written:
            folder = written.file.table
            if written.entity is not None and folder not in self._known and folder != self._strays:
                found[folder] = found.get(folder, 0) + written.file.rows
        return found

    def _too_many_tables(self, total: TaskReport, pins: Pins) -> Pins | None:
        new, room = self._new_folders(total), self.room()
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

    def _too_narrow(self, total: TaskReport, pins: Pins) -> Pins | None:
        """With the columns of tables as wide as records ask for."""
        if not total.files.wishes:
            return None
        wide = granted(total.files.wishes, pins.tables.known, layouts(total, pins))
        return replace(pins, tables=replace(pins.tables, known=wide))

    def _layouts_at_odds(self, total: TaskReport, pins: Pins) -> Pins | None:
        wanted = layouts(total, pins)
        fixed = self._of_tables_met(total, pins, wanted)
        holds: dict[tuple[Layout, Layout], bool] = {}
        for written in total.files.written:
            if written.entity is None:
                continue
            layout, folder = wanted[written.file.table], written.file.table
            key = (layout, written.layout)
            if key not in holds:
                holds[key] = _holds(layout, written.layout)
            if not holds[key]:
                was = pins.tables.known.get(folder, PinnedTable(written.entity, NO_COLUMNS))
                fixed.setdefault(folder, replace(was, layout=layout))
        if not fixed:
            return None
        return replace(pins, tables=replace(pins.tables, known={**pins.tables.known, **fixed}))

    def _of_tables_met(
        self, total: TaskReport, pins: Pins, wanted: Mapping[str, Layout]
    ) -> dict[str, PinnedTable]:
        """Tables that somebody else made and whose columns do not go with what was written provisionally."""
        new = {
            written.file.table: written.entity
            for written in total.files.written
            if written.entity is not None and written.file.table not in pins.tables.known
        }
        columns = self._rules.columns
        states = self._tables.states(new)
        there = {folder: payload_layout(columns, state.layout) for folder, state in states.items()}
        return {
            folder: PinnedTable(new[folder], layout, fixed_columns(states[folder]))
            for folder, layout in there.items()
            if not _holds(grown(layout, wanted[folder].columns, GrowthRules()), wanted[folder])
        }


def layouts(total: TaskReport, pins: Pins) -> dict[str, Layout]:
    """The payload columns that each table written to must have, by folder."""
    found = {folder: table.layout for folder, table in pins.tables.known.items()}
    merged: dict[tuple[Layout, Layout], Layout] = {}
    touched: dict[str, Layout] = {}
    for written in total.files.written:
        if written.entity is None:
            continue
        before = touched.get(written.file.table, found.get(written.file.table, NO_COLUMNS))
        key = (before, written.layout)
        if key not in merged:
            merged[key] = grown(before, written.layout.columns, GrowthRules())
        touched[written.file.table] = merged[key]
    return touched


def _holds(whole: Layout, part: Layout) -> bool:
    """Whether every column of `part` is in `whole` by the same name, type and origin."""
    return not changes(whole.columns, part.columns) and not any(differences(whole.columns, part.columns))


def granted(
    wishes: Sequence[Wish], tables: Mapping[str, PinnedTable], written: Mapping[str, Layout]
) -> dict[str, PinnedTable]:
    """The tables with columns as wide as wished for; the oldest schema's wish counts where two do not go together.

    `written` are the payload columns of those that were written to, new ones among them.
    """
    found = dict(tables)
    merged: dict[tuple[Layout, Layout, frozenset[str]], Layout] = {}
    for wish in sorted(wishes, key=lambda wish: (wish.table, by_age(wish.key))):
        was = found.get(wish.table) or PinnedTable(wish.entity, written.get(wish.table, NO_COLUMNS))
        key = (was.layout, wish.layout, was.fixed)
        if key not in merged:
            rules = GrowthRules(widens=True, fixed=was.fixed)
            merged[key] = grown(was.layout, wish.layout.columns, rules)
        found[wish.table] = replace(was, layout=merged[key])
    return found
