"""The columns that tables must have, by what was written for them and by what records wish for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from distributary.ingest.columns.growth import GrowthRules, grown
from distributary.ingest.columns.layout import NO_COLUMNS, Layout
from distributary.ingest.columns.partitions import all_partition_columns, partition_columns
from distributary.ingest.pins import PinnedTable, Pins, WorkerRules, by_age
from distributary.ingest.worker.report import TaskReport, Wish


def layouts(total: TaskReport, pins: Pins) -> dict[str, Layout]:
    """The payload columns that each table written to must have, by folder."""
    found = {folder: table.layout for folder, table in pins.tables.known.items()}
    merged: dict[tuple[Layout, Layout], Layout] = {}
    touched: dict[str, Layout] = {}
    for written in total.files.written:
        if written.entity is None:
            continue
        before = touched.get(written.table, found.get(written.table, NO_COLUMNS))
        key = (before, written.layout)
        if key not in merged:
            merged[key] = grown(before, written.layout.columns, GrowthRules())
        touched[written.table] = merged[key]
    return touched


def as_new(entity: str, layout: Layout, rules: WorkerRules) -> PinnedTable:
    """A table that is not there yet, with these columns of the payload."""
    named, day = rules.tables.of(entity).partition_by, rules.columns.kafka_date
    fixed = frozenset(partition_columns(named, layout.columns, day))
    # It gets none before it has all of them, and rows of what is still to come of this batch may bring the others.
    return PinnedTable(entity, layout, fixed, all_partition_columns(named, layout.columns, day))


def granted(
    wishes: Sequence[Wish],
    tables: Mapping[str, PinnedTable],
    written: Mapping[str, Layout],
    rules: WorkerRules,
) -> dict[str, PinnedTable]:
    """The tables with columns as wide as wished for; the oldest schema's wish counts where two do not go together.

    `written` are the payload columns of those that were written to, new ones among them.
    """
    found = dict(tables)
    merged: dict[tuple[Layout, Layout, frozenset[str]], Layout] = {}
    for wish in sorted(wishes, key=lambda wish: (wish.table, by_age(wish.key))):
        was = found.get(wish.table) or as_new(wish.entity, written.get(wish.table, NO_COLUMNS), rules)
        key = (was.layout, wish.layout, was.fixed)
        if key not in merged:
            wider = GrowthRules(widens=True, fixed=was.fixed)
            merged[key] = grown(was.layout, wish.layout.columns, wider)
        found[wish.table] = replace(was, layout=merged[key])
    return found
