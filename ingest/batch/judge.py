"""What the driver decides about a pass over a batch, from what its tasks reported; nothing is visible yet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import get_args

from distributary.codecs.base import RecordPath
from distributary.errors import EvolutionStopped, PolicyStopped
from distributary.ingest import pins as reasons
from distributary.ingest.columns.differences import differences
from distributary.ingest.columns.growth import GrowthRules, changes, grown
from distributary.ingest.columns.layout import NO_COLUMNS, Layout
from distributary.ingest.columns.names import table_name
from distributary.ingest.conform.misfits import Kind
from distributary.ingest.evolution.rules import growth_rules
from distributary.ingest.kafka.columns import payload_layout
from distributary.ingest.pins import PinnedKeys, PinnedRecord, PinnedSchemas, PinnedTable, Pins, describe
from distributary.ingest.schemas.book import SchemaBook
from distributary.ingest.schemas.entity_location import entity_name
from distributary.ingest.settings.model import Settings
from distributary.ingest.tables.book import TableBook
from distributary.ingest.tables.state import fixed_columns
from distributary.ingest.worker.report import TaskReport, Wish


class Judge:
    """Holds a batch's reports against the settings; `known` are the tables that were there when it began."""

    def __init__(
        self,
        settings: Settings,
        schemas: SchemaBook,
        tables: TableBook,
        known: Mapping[str, PinnedTable],
        keys: SchemaBook | None = None,
    ) -> None:
        """`keys` are the schemas of keys, where those are decoded."""
        self._settings, self._schemas, self._tables, self._known = settings, schemas, tables, known
        self._keys = keys
        strays = settings.policies.no_entity
        # No entity's: the settings want it by name, whatever they say of entities.
        self._strays = None if isinstance(strays, str) else strays.table
        self._refused = self._keys_refused = 0

    def layouts(self, total: TaskReport, pins: Pins) -> dict[str, Layout]:
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
        policies, new = self._settings.policies, self._new_folders(total)
        stray, undecodable = total.counts.quarantined[reasons.NO_ENTITY.reason], _undecodable(total)
        stops = [
            (policies.new_entity, new, "new_entity", f"a new entity came, for {_few(new)}"),
            (policies.no_entity, stray, "no_entity", "a record has no value in the routing field"),
            (policies.undecodable, undecodable, "undecodable", "a record cannot be decoded"),
        ]
        for policy, met, name, what in stops:
            if met and policy == "fail":
                raise PolicyStopped(
                    f"batch {pins.batch.id}: {what}, and policies.{name} is `fail`: {_account(total)}"
                )
        self._check_growth(total, pins)

    def answer(self, total: TaskReport, pins: Pins, last: bool) -> Pins:
        """The pins for the rows that were set aside. Raises RestartToEvolve or EvolutionStopped."""
        asked_at_most = self._settings.registry.max_unknown_ids
        left = max(asked_at_most - self._refused, 0)
        questions = [key for key, _ in total.questions.records.most_common(left)]
        learned = self._schemas.learn(questions)
        self._refused += len(learned.refused)
        pins = self._with_keys(total, pins, last)
        pins = self._admit(total, pins, last)
        grown = self._schemas.grown(total.questions.proposals, self._settings.decode.max_fields)
        records = [*learned.records, *self._met(total, pins), *grown]
        self._decide_evolution(records)
        self._schemas.pin(records)
        turn = replace(
            pins.turn,
            # What is asked for in vain is bounded; answers may bring new questions, such as which message it is.
            schemas_final=last or pins.turn.schemas_final or self._refused >= asked_at_most,
            inferred_final=last
            or pins.turn.inferred_final
            or (bool(total.questions.proposals) and not grown),
            count_input=False,
        )
        refused = {**pins.schemas.refused, **learned.refused}
        return replace(pins, schemas=PinnedSchemas(self._schemas.records, refused), turn=turn)

    def _met(self, total: TaskReport, pins: Pins) -> list[PinnedRecord]:
        """The schemas of entities that had none of their own, as far as they have a table or may have one."""
        unmet = {
            entity: texts
            for entity, texts in total.questions.unmet.items()
            if (folder := self._folder(entity)) in self._known or folder in pins.tables.admitted
        }
        return self._schemas.met(unmet, self._schema_name, self._settings.decode.max_fields)

    def _folder(self, entity: str) -> str:
        route = self._settings.route
        return table_name(route.table, entity, route.fold_case)

    def _schema_name(self, entity: str) -> str:
        return entity_name(entity, self._settings.route.fold_case)

    def _with_keys(self, total: TaskReport, pins: Pins, last: bool) -> Pins:
        """The pins with what the registry says of the schemas of keys, within a bound of their own: a key may only look as if it named one."""
        known, asked_at_most = pins.keys, self._settings.registry.max_unknown_ids
        if known is None:
            return pins
        if self._keys is None or not total.questions.keys:
            return replace(pins, keys=replace(known, final=last or known.final))
        left = max(asked_at_most - self._keys_refused, 0)
        learned = self._keys.learn([key for key, _ in total.questions.keys.most_common(left)])
        self._keys_refused += len(learned.refused)
        self._keys.pin(learned.records)
        known = PinnedKeys(
            decoded=True,
            records=self._keys.records,
            refused={**known.refused, **learned.refused},
            final=last or known.final or self._keys_refused >= asked_at_most,
        )
        return replace(pins, keys=known)

    def _decide_evolution(self, records: Iterable[PinnedRecord]) -> None:
        if not self._known:
            return
        changing = self._changing(records)
        # Whether tables get columns or leave them out, this is what they would get.
        rules = replace(growth_rules(self._settings), adds=True)
        brought = [(record, self._schemas.brings(record, rules)) for record in changing]
        evolved = [
            f"schema {describe(record)} brings {', '.join(names)}" for record, names in brought if names
        ]
        mode = self._settings.decode.evolution
        if evolved and mode == "fail":
            raise EvolutionStopped(
                f"{'; '.join(evolved)}, and decode.evolution is `fail`. Run once with `restart` or `inline` to take it in"
            )
        if evolved and mode == "restart":
            self._schemas.pin(records)
            raise RestartToEvolve(evolved)

    def _changing(self, records: Iterable[PinnedRecord]) -> list[PinnedRecord]:
        """Those that may change a table: one that is only coming is not changed by what its first records bring."""
        there = {None, *(self._schema_name(table.entity) for table in self._known.values())}
        return [record for record in records if record.schema.entity in there]

    def _admit(self, total: TaskReport, pins: Pins, last: bool) -> Pins:
        names = [
            name
            for name, _ in sorted(total.questions.newcomers.items(), key=lambda item: (-item[1], item[0]))
        ]
        folders = dict.fromkeys(map(self._folder, names))
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
        if self._settings.policies.new_entity == "quarantine":
            return 0
        known = sum(folder != self._strays for folder in self._known)
        return max(self._settings.route.max_tables - known, 0)

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
        wide = granted(total.files.wishes, pins.tables.known, self.layouts(total, pins))
        return replace(pins, tables=replace(pins.tables, known=wide))

    def _layouts_at_odds(self, total: TaskReport, pins: Pins) -> Pins | None:
        layouts = self.layouts(total, pins)
        fixed = self._of_tables_met(total, pins, layouts)
        holds: dict[tuple[Layout, Layout], bool] = {}
        for written in total.files.written:
            if written.entity is None:
                continue
            layout, folder = layouts[written.file.table], written.file.table
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
        self, total: TaskReport, pins: Pins, layouts: Mapping[str, Layout]
    ) -> dict[str, PinnedTable]:
        """Tables that somebody else made and whose columns do not go with what was written provisionally."""
        new = {
            written.file.table: written.entity
            for written in total.files.written
            if written.entity is not None and written.file.table not in pins.tables.known
        }
        columns = self._settings.sink.columns
        states = self._tables.states(new)
        there = {folder: payload_layout(columns, state.layout) for folder, state in states.items()}
        return {
            folder: PinnedTable(new[folder], layout, fixed_columns(states[folder]))
            for folder, layout in there.items()
            if not _holds(grown(layout, layouts[folder].columns, GrowthRules()), layouts[folder])
        }

    def _check_growth(self, total: TaskReport, pins: Pins) -> None:
        if self._settings.decode.evolution != "fail" and self._settings.policies.new_field != "fail":
            return
        grown = {growth.table: growth for growth in total.files.growths if growth.table in self._known}
        layouts = self.layouts(total, pins) if grown else {}
        for folder, growth in grown.items():
            layout = layouts.get(folder, self._known[folder].layout)
            found = changes(self._known[folder].layout.columns, layout.columns)
            names = ", ".join(change.column for change in found)
            added = ", ".join(change.column for change in found if change.kind == "added")
            where = "/".join(map(str, growth.first))
            if names and self._settings.decode.evolution == "fail":
                raise EvolutionStopped(
                    f"table {folder}: schema {growth.schema_id} brings {names}, first at {where}, and "
                    "decode.evolution is `fail`. Run once with `restart` or `inline` to take it in"
                )
            if added and self._settings.policies.new_field == "fail":
                raise PolicyStopped(
                    f"table {folder}: schema {growth.schema_id} brings {added}, first at {where}, and "
                    "policies.new_field is `fail`"
                )


def _holds(whole: Layout, part: Layout) -> bool:
    """Whether every column of `part` is in `whole` by the same name, type and origin."""
    return not changes(whole.columns, part.columns) and not any(differences(whole.columns, part.columns))


def _undecodable(total: TaskReport) -> int:
    decoded = {reasons.NO_ENTITY.reason, reasons.TABLE_LIMIT.reason, reasons.CONSTRAINT, *get_args(Kind)}
    return sum(count for reason, count in total.counts.quarantined.items() if reason not in decoded)


def _account(total: TaskReport) -> str:
    """How many were refused for which reason, and where the first of them stands."""
    counts = []
    for reason, count in sorted(total.counts.quarantined.items()):
        first = total.counts.first.get(reason)
        counts.append(f"{count} {reason}" + (f" (first at {'/'.join(map(str, first))})" if first else ""))
    return ", ".join(counts) or "none quarantined"


def _few(folders: Iterable[str]) -> str:
    names = sorted(folders)
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def granted(
    wishes: Sequence[Wish], tables: Mapping[str, PinnedTable], written: Mapping[str, Layout]
) -> dict[str, PinnedTable]:
    """The tables with columns as wide as wished for; the oldest schema's wish counts where two do not go together.

    `written` are the payload columns of those that were written to, new ones among them.
    """
    found = dict(tables)
    merged: dict[tuple[Layout, Layout, frozenset[str]], Layout] = {}
    for wish in sorted(wishes, key=_age):
        was = found.get(wish.table) or PinnedTable(wish.entity, written.get(wish.table, NO_COLUMNS))
        key = (was.layout, wish.layout, was.fixed)
        if key not in merged:
            rules = GrowthRules(widens=True, fixed=was.fixed)
            merged[key] = grown(was.layout, wish.layout.columns, rules)
        found[wish.table] = replace(was, layout=merged[key])
    return found


def _age(wish: Wish) -> tuple[str, str, RecordPath]:
    ref, path = wish.key
    return wish.table, str(ref).zfill(20), path


class RestartToEvolve(Exception):
    """The attempt is given up, nothing of it visible, so that the next one starts with the new schemas pinned."""

    def __init__(self, changes: Sequence[str]) -> None:
        super().__init__("; ".join(changes))
        self.changes = tuple(changes)
