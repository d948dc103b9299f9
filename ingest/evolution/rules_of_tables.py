"""Which rule each table gets, and what it has otherwise than that says: a part of the answer to `distributary plan`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from distributary.codecs.types.fields import part, parts
from distributary.ingest.columns.partitions import column_of, takes
from distributary.ingest.columns.single_values import value_path
from distributary.ingest.pins import PinnedTable
from distributary.ingest.reshaping.rule import Reshape
from distributary.ingest.reshaping.shape import columns_of, is_there, why_unshapeable
from distributary.ingest.settings.rule_book import RuleBook
from distributary.ingest.settings.upserts import Upsert
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
    upsert    how their rows take the place of earlier ones; None where each is added
    lacking   fields that this, or a partition, takes and that neither a schema nor a table has: all records would go to quarantine
    partition_by  fields that their files are told apart by
    shaped    what becomes of records' columns
    cluster_by  fields that its rows lie near each other by; None where it does not say
    unclustered  those of them that no schema has as something that may be one
    """

    place: int | None
    match: str
    tables: tuple[str, ...]
    earlier: tuple[str, ...] = ()
    changes: tuple[TableSettings, ...] = ()
    upsert: Upsert | None = None
    lacking: tuple[str, ...] = ()
    partition_by: tuple[str, ...] = ()
    shaped: ShapedBy | None = None
    cluster_by: tuple[str, ...] | None = None
    unclustered: tuple[str, ...] = ()

    @property
    def open(self) -> bool:
        """Whether it takes something that no schema has, or wants what one cannot be."""
        return bool(self.lacking or self.unclustered) or (self.shaped is not None and self.shaped.open)


@dataclass(frozen=True, slots=True)
class ShapedBy:
    """What a rule does with records' columns, and what of that comes to nothing.

    rule     what it says
    lacking  paths that are in no schema
    refused  why records of a schema cannot have these columns: they all would go to quarantine
    """

    rule: Reshape
    lacking: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()

    @property
    def open(self) -> bool:
        """Whether somebody should look at it before it happens."""
        return bool(self.lacking or self.refused)


def rules_in_plan(
    book: RuleBook,
    tables: Mapping[str, PinnedTable],
    states: Mapping[str, TableState],
    schemas: Sequence[pa.Schema] = (),
    day: str | None = None,
) -> tuple[RuleInPlan, ...]:
    """Every rule in its order, `sink` last, with the tables that it is for; `schemas` have the columns of records that may come.

    day  the column of the day in Kafka, if there is one
    """
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
        brought = [columns_of(spec.reshape, columns) for columns in schemas]
        known = [*brought, *(tables[folder].layout.columns for folder in mine)]
        shaped = None if spec.reshape is None else _shaped(spec.reshape, schemas)
        lacking = (*_lacking(spec.upsert, known), *_no_partition(spec.partition_by, known, day))
        found.append(
            RuleInPlan(
                spec.place,
                spec.match,
                mine,
                earlier,
                changes,
                spec.upsert,
                lacking,
                spec.partition_by,
                shaped,
                None if spec.cluster_by is None else spec.cluster_by.fields,
                () if spec.cluster_by is None else spec.cluster_by.lacking(known),
            )
        )
    return tuple(found)


def _shaped(rule: Reshape, schemas: Sequence[pa.Schema]) -> ShapedBy:
    days = (parts(one.value) for one in rule.added if one.source == "day")
    paths = dict.fromkeys((*(path for path, _ in rule.ops), *days)) if schemas else {}
    lacking = [path for path in paths if not any(is_there(rule, path, one) for one in schemas)]
    refused = dict.fromkeys(why for one in schemas if (why := why_unshapeable(rule, one)))
    return ShapedBy(
        rule.without_secret(), tuple(".".join(map(part, path)) for path in lacking), tuple(refused)
    )


def _lacking(upsert: Upsert | None, schemas: Sequence[pa.Schema]) -> tuple[str, ...]:
    # Before there is a schema nobody can tell.
    if upsert is None or not schemas:
        return ()
    return tuple(
        field for field in upsert.fields if all(value_path(columns, field) is None for columns in schemas)
    )


def _no_partition(names: Sequence[str], schemas: Sequence[pa.Schema], day: str | None) -> tuple[str, ...]:
    """Those that no table can be partitioned by, as they are in no schema, or of no type that may be in any."""
    return tuple(
        name
        for name in names
        if name != day and schemas and not any(_is_plain(columns, name) for columns in schemas)
    )


def _is_plain(columns: pa.Schema, name: str) -> bool:
    column = column_of(name, columns, None)
    return column is not None and takes(columns.field(column).type)
