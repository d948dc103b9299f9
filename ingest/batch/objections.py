"""What stands against what a pass wrote: too many tables, columns too narrow or at odds, a policy that says `fail`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from distributary.codecs.base import load_codec
from distributary.errors import CommitImpossible, PolicyStopped
from distributary.ingest.batch.new_tables import NewTables
from distributary.ingest.batch.policies import check_counts, check_growth
from distributary.ingest.batch.written_layouts import as_new, granted, layouts
from distributary.ingest.columns.growth import GrowthRules, grown, holds
from distributary.ingest.columns.layout import Layout
from distributary.ingest.columns.safe_names import MEMORY_SUFFIX
from distributary.ingest.evolution.rules import Rules
from distributary.ingest.evolution.vetoes import Veto, Vetoes
from distributary.ingest.kafka.columns import payload_layout
from distributary.ingest.pins import PinnedTable, Pins, Verdict
from distributary.ingest.tables.known import REMEMBERS_PROPERTY, TableBook
from distributary.ingest.tables.state import fixed_columns
from distributary.ingest.worker.fields_seen import told_of_unrouted
from distributary.ingest.worker.report import TaskReport


class Objections:
    """Holds one batch's reports against the settings; `known` are the tables that were there when it began."""

    def __init__(self, rules: Rules, tables: TableBook, known: Mapping[str, PinnedTable]) -> None:
        self._rules, self._tables, self._known = rules, tables, known
        self.new_tables = NewTables(rules, known)

    def objection(self, total: TaskReport, pins: Pins) -> Pins | None:
        """The pins to do the whole batch again with, where what was written cannot stay; None where it can."""
        # Whatever else was met of a record type that a table does not take is of no concern.
        vetoed = self._vetoed(total, pins)
        if vetoed is not None:
            return vetoed
        if total.stops:
            raise PolicyStopped(f"batch {pins.batch.id}: {total.stops[0]}")
        self._require_no_memory(total)
        return (
            self._remembering(total, pins)
            or self.new_tables.over_the_limit(total, pins)
            or self._too_narrow(total, pins)
            or self._layouts_at_odds(total, pins)
        )

    def check_policies(self, total: TaskReport, pins: Pins) -> None:
        """Raises PolicyStopped or EvolutionStopped where the settings say `fail` to what was met."""
        new, unrouted = self.new_tables.written_to(total), told_of_unrouted(total.sightings.unrouted)
        check_counts(self._rules.policies, pins.batch.id, total.counts, new, unrouted)
        check_growth(self._rules, total.files.growths, self._known, layouts(total, pins))

    def _vetoed(self, total: TaskReport, pins: Pins) -> Pins | None:
        """Without the record types that tables do not take. Raises PolicyStopped where the settings say `fail` to one."""
        if not self._rules.vetoes_any:
            return None
        codec = load_codec(pins.rules.decoding.codec)
        vetoes = Vetoes(codec, pins.schemas.records, self._rules, self._known)
        new = {one.table: one.entity for one in total.files.written if one.entity is not None}
        found = vetoes.of(total.sightings.met, pins.tables.met, new)
        for one in found:
            if one.stops:
                where = "/".join(map(str, one.first))
                raise PolicyStopped(f"batch {pins.batch.id}: table {one.folder}: {one.why}, first at {where}")
        if not found:
            return None
        gone = {(one.folder, one.key) for one in found}
        growths = [one for one in total.files.growths if (one.table, one.key) not in gone]
        total.files.growths[:] = growths
        return with_vetoes(pins, found)

    def _remembering(self, total: TaskReport, pins: Pins) -> Pins | None:
        """Without tables for entities that are called as what remembers another's deletes, though no rule may have deletes any more."""
        new = self.new_tables.written_to(total)
        # In a store each question about a table that is not there costs a request.
        states = self._tables.states(folder for folder in new if folder.endswith(MEMORY_SUFFIX))
        taken = frozenset(folder for folder, one in states.items() if REMEMBERS_PROPERTY in one.properties)
        if not taken:
            return None
        return replace(pins, tables=replace(pins.tables, denied=pins.tables.denied | taken))

    def _require_no_memory(self, total: TaskReport) -> None:
        """Records without an entity have a table by name, which another pipeline over the same root may have for deletes: they were taken for such."""
        strays = self._rules.policies.no_entity
        if isinstance(strays, str) or not strays.table.endswith(MEMORY_SUFFIX):
            return
        written = {one.table for one in total.files.written if not one.remembers} & {strays.table}
        for state in self._tables.states(written).values():
            if table := state.properties.get(REMEMBERS_PROPERTY):
                raise CommitImpossible(
                    f"table {state.place} is where the deletes of table {table} are remembered, and `policies.no_entity.table` names it. Choose "
                    "another name there"
                )

    def _too_narrow(self, total: TaskReport, pins: Pins) -> Pins | None:
        """With the columns of tables as wide as records ask for."""
        if not total.files.wishes:
            return None
        wide = granted(total.files.wishes, pins.tables.known, layouts(total, pins), pins.rules)
        return replace(pins, tables=replace(pins.tables, known=wide))

    def _layouts_at_odds(self, total: TaskReport, pins: Pins) -> Pins | None:
        wanted = layouts(total, pins)
        fixed = self._of_tables_met(total, pins, wanted)
        agree: dict[tuple[Layout, Layout], bool] = {}
        for written in total.files.written:
            if written.entity is None:
                continue
            layout, folder = wanted[written.table], written.table
            key = (layout, written.layout)
            if key not in agree:
                agree[key] = holds(layout, written.layout)
            if not agree[key]:
                was = pins.tables.known.get(folder)
                pinned = (
                    as_new(written.entity, layout, pins.rules) if was is None else replace(was, layout=layout)
                )
                fixed.setdefault(folder, pinned)
        if not fixed:
            return None
        return replace(pins, tables=replace(pins.tables, known={**pins.tables.known, **fixed}))

    def _of_tables_met(
        self, total: TaskReport, pins: Pins, wanted: Mapping[str, Layout]
    ) -> dict[str, PinnedTable]:
        """Tables that somebody else made and whose columns do not go with what was written provisionally."""
        new = {
            written.table: written.entity
            for written in total.files.written
            if written.entity is not None and written.table not in pins.tables.known
        }
        columns = self._rules.columns
        states = self._tables.states(new)
        there = {folder: payload_layout(columns, state.layout) for folder, state in states.items()}
        return {
            folder: PinnedTable(
                new[folder],
                layout,
                fixed_columns(states[folder]),
                states[folder].native_partitions,
            )
            for folder, layout in there.items()
            if not holds(grown(layout, wanted[folder].columns, GrowthRules()), wanted[folder])
        }


def with_vetoes(pins: Pins, found: Iterable[Veto]) -> Pins:
    """The pins by which these record types' records go to quarantine."""
    vetoed = {folder: dict(keys) for folder, keys in pins.turn.vetoed.items()}
    for one in found:
        vetoed.setdefault(one.folder, {})[one.key] = Verdict(one.reason, one.why)
    return replace(pins, turn=replace(pins.turn, vetoed=vetoed))
