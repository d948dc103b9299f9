"""Policies that say `fail`: what a batch met that stops the run, with where it was met first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import get_args

from distributary.errors import EvolutionStopped, PolicyStopped
from distributary.ingest import pins as reasons
from distributary.ingest.columns.growth import changes
from distributary.ingest.columns.layout import Layout
from distributary.ingest.conform.misfits import Kind
from distributary.ingest.evolution.rules import Rules
from distributary.ingest.pins import PinnedTable
from distributary.ingest.settings.groups import Policies
from distributary.ingest.worker.report import Counts, Growth


def check_counts(
    policies: Policies, batch_id: int, counts: Counts, new: Iterable[str], unrouted: Sequence[str] = ()
) -> None:
    """Raises PolicyStopped where the settings say `fail` to records that were met, or to tables that are new.

    `unrouted` tells of records whose types the routing expression does not go with.
    """
    new = sorted(new)
    stray, undecodable = counts.quarantined[reasons.NO_ENTITY.reason], _undecodable(counts)
    stops = [
        (policies.new_entity, new, "new_entity", f"a new entity came, for {_few(new)}"),
        (
            policies.no_entity,
            stray,
            "no_entity",
            "a record has no value in the routing field, or none of its type",
        ),
        (policies.undecodable, undecodable, "undecodable", "a record cannot be decoded"),
    ]
    for policy, met, name, what in stops:
        if met and policy == "fail":
            raise PolicyStopped(
                f"batch {batch_id}: {what}, and policies.{name} is `fail`: {'; '.join([_account(counts), *unrouted])}. Put right what sends such "
                f"records, or let policies.{name} say quarantine"
            )


def check_growth(
    rules: Rules, growths: Iterable[Growth], known: Mapping[str, PinnedTable], layouts: Mapping[str, Layout]
) -> None:
    """Raises EvolutionStopped or PolicyStopped where the settings say `fail` to tables that would get columns."""
    for folder, growth in {one.table: one for one in growths if one.table in known}.items():
        stops = rules.of(known[folder].entity).growth_stops
        if stops is None:
            continue
        before = known[folder].layout
        found = changes(before.columns, layouts.get(folder, before).columns)
        names = ", ".join(change.column for change in found)
        added = ", ".join(change.column for change in found if change.kind == "added")
        where = "/".join(map(str, growth.first))
        if names and stops == "decode.evolution":
            raise EvolutionStopped(
                f"table {folder}: schema {growth.schema_id} brings {names}, first at {where}, and "
                "decode.evolution is `fail`. Run once with `restart` or `inline` to take it in"
            )
        if added and stops != "decode.evolution":
            raise PolicyStopped(
                f"table {folder}: schema {growth.schema_id} brings {added}, first at {where}, and "
                f"{stops} is `fail`"
            )


def _undecodable(counts: Counts) -> int:
    decoded = {
        reasons.NO_ENTITY.reason,
        reasons.TABLE_LIMIT.reason,
        reasons.CONSTRAINT,
        reasons.SCHEMA_CHANGE,
        reasons.DELETE_CONDITION,
        reasons.NULL_KEY,
        reasons.NULL_SEQUENCE,
        reasons.PARTITION,
        reasons.COLUMNS,
        reasons.EXPECTATION,
        *get_args(Kind),
    }
    return sum(count for reason, count in counts.quarantined.items() if reason not in decoded)


def _account(counts: Counts) -> str:
    """How many were refused for which reason, and where the first of them stands."""
    told = []
    for reason, count in sorted(counts.quarantined.items()):
        first = counts.first.get(reason)
        told.append(f"{count} {reason}" + (f" (first at {'/'.join(map(str, first))})" if first else ""))
    return ", ".join(told) or "none quarantined"


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
