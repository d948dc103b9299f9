"""What records of one schema would meet in one table: columns it would get, and fields that do not fit it."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from distributary.codecs.types.fields import parts
from distributary.ingest.columns.growth import Change, changes, grown
from distributary.ingest.columns.layout import Layout
from distributary.ingest.conform.conversion import conversion_for
from distributary.ingest.conform.misfits import FitPolicies, Policy, Trouble
from distributary.ingest.evolution.rules import Rules
from distributary.ingest.kafka.columns import of_records

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TableFit:
    """What a table lacks that a record brings, or has too narrow, and the record's fields that do not fit.

    layout   the table's columns by then
    added    the columns that come, or become wider
    trouble  the fields that do not fit, each as the policies have it
    """

    layout: Layout
    added: tuple[Change, ...]
    trouble: tuple[Trouble, ...]

    def added_at(self, path: Path) -> tuple[Change, ...]:
        """The columns to add, or to make wider, that a field has to do with: its own, one around it, those within it."""
        return tuple(change for change in self.added if touching(change.source, path))

    def trouble_at(self, path: Path) -> tuple[Trouble, ...]:
        """The trouble that a field has to do with."""
        return tuple(one for one in self.trouble if touching(parts(one.column), path))


def table_fit(record: pa.Schema, before: Layout, rules: Rules, after: Layout | None = None) -> TableFit:
    """How records with these columns go into a table with the payload columns `before`.

    `after` are the table's columns once it has grown, where other records had a say in that.
    """
    wanted = grown(before, record, rules.growth)
    held = of_records(rules.columns, wanted if after is None else after)
    wider = {change.column for change in changes(before.columns, held.columns) if change.kind == "widened"}
    added = tuple(
        change
        for change in changes(before.columns, wanted.columns)
        if change.kind == "added" or change.column in wider
    )
    settled = {change.source for change in added if change.kind == "widened"}
    # Of the dates that a column holds which became one of timestamps, the farthest are beyond those.
    trouble = tuple(one for one in _trouble(record, held, rules) if parts(one.column) not in settled)
    return TableFit(held, added, trouble)


def _trouble(record: pa.Schema, held: Layout, rules: Rules) -> tuple[Trouble, ...]:
    found = conversion_for(record, held.columns, _Unstopped(rules.policies)).trouble
    # What a growing table lacks it will have: that is no trouble.
    return tuple(one for one in found if not (rules.growth.adds and one.kind == "new_field"))


@dataclass(frozen=True, slots=True)
class _Unstopped:
    """Policies of which one that stops the run is told, not followed."""

    policies: FitPolicies

    @property
    def new_field(self) -> Policy:
        return _unstopped(self.policies.new_field)

    @property
    def wider_type(self) -> Policy:
        return _unstopped(self.policies.wider_type)

    @property
    def incompatible_type(self) -> Policy:
        return _unstopped(self.policies.incompatible_type)


def _unstopped(policy: Policy) -> Policy:
    return "quarantine" if policy == "fail" else policy


def touching(one: Path, other: Path) -> bool:
    """Whether two paths are the same, or one leads into the other."""
    shorter = min(len(one), len(other))
    return one[:shorter] == other[:shorter]
