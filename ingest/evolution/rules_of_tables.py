"""Which rule each table gets, and what it has otherwise than that says: a part of the answer to `distributary plan`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from distributary.ingest.pins import PinnedTable
from distributary.ingest.settings.rule_book import RuleBook
from distributary.ingest.tables.properties import Setting, differing
from distributary.ingest.tables.state import TableState


@dataclass(frozen=True, slots=True)
class TableSettings:
    """Tables that have the same otherwise than their rule says: with their next rows they get it.

    tables    their folders
    settings  what each of them has otherwise
    """

    tables: tuple[str, ...]
    settings: tuple[Setting, ...]


@dataclass(frozen=True, slots=True)
class RuleInPlan:
    """A rule, and the tables that are there which get it.

    place     its place in the settings' `tables`; None for `sink`, which is for all tables that no rule is for
    match     its pattern; empty for `sink`
    tables    their folders
    earlier   those that it fits, too, and that a rule before it is for
    changes   what becomes of those that have something otherwise
    """

    place: int | None
    match: str
    tables: tuple[str, ...]
    earlier: tuple[str, ...] = ()
    changes: tuple[TableSettings, ...] = ()


def rules_in_plan(
    book: RuleBook, tables: Mapping[str, PinnedTable], states: Mapping[str, TableState]
) -> tuple[RuleInPlan, ...]:
    """Every rule in its order, `sink` last, with the tables that it is for."""
    place_of = {folder: book.of(table.entity).place for folder, table in sorted(tables.items())}
    found = []
    for spec in (*book.specs, book.defaults):
        mine = tuple(folder for folder, place in place_of.items() if place == spec.place)
        earlier = tuple(
            folder
            for folder, place in place_of.items()
            if spec.place is not None
            and place is not None
            and place < spec.place
            and book.patterns[spec.place].fits(tables[folder].entity)
        )
        grouped: dict[tuple[Setting, ...], list[str]] = {}
        for folder in mine:
            if folder in states and (settings := differing(states[folder], spec)):
                grouped.setdefault(settings, []).append(folder)
        changes = tuple(TableSettings(tuple(folders), settings) for settings, folders in grouped.items())
        found.append(RuleInPlan(spec.place, spec.match, mine, earlier, changes))
    return tuple(found)
