"""What records of one schema would meet in one table: columns it would get, and fields that do not fit it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from distributary.codecs.base import decodes_any_format
from distributary.codecs.field_paths import parts
from distributary.ingest.conform import plan
from distributary.ingest.evolution import tables_grow, tables_widen, worker_policies
from distributary.ingest.expression_fit import ReadExpression
from distributary.ingest.kafka_columns import without_rescued
from distributary.ingest.layout import Change, changes, extend
from distributary.ingest.misfits import Trouble
from distributary.ingest.setting_groups import Columns, Policies, Route
from distributary.ingest.settings import Settings
from distributary.ingest.widening import widened

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Rules:
    """What the settings say of changes, as the workers and the driver apply it.

    grow            whether known tables get columns
    growth_stops    the setting that says `fail` to a table that would grow; empty where none does
    leaves_columns  the setting because of which tables do not grow
    any_format      whether records of every format can be decoded
    widen           whether columns become wider
    fixed           columns of the table at hand that cannot
    expression      the routing expression as a run reads it; None where there is none, or nobody has read it
    """

    policies: Policies
    columns: Columns
    route: Route
    grow: bool
    growth_stops: str
    leaves_columns: str
    any_format: bool
    widen: bool = False
    fixed: frozenset[str] = frozenset()
    expression: ReadExpression | None = None

    def grown(self, before: pa.Schema, record: pa.Schema) -> pa.Schema:
        """What a known table with the payload columns `before` becomes by records with these columns."""
        wide = widened(before, record, self.fixed) if self.widen else before
        return extend(wide, record, self.columns.reserved()) if self.grow else wide


@dataclass(frozen=True, slots=True)
class TableFit:
    """What a table lacks that a record brings, or has too narrow, and the record's fields that do not fit.

    layout   the table's columns by then
    added    the columns that come, or become wider
    trouble  the fields that do not fit, each as the policies have it
    """

    layout: pa.Schema
    added: tuple[Change, ...]
    trouble: tuple[Trouble, ...]

    def added_at(self, path: Path) -> tuple[Change, ...]:
        """The columns to add, or to make wider, that a field has to do with: its own, one around it, those within it."""
        return tuple(change for change in self.added if touching(change.source, path))

    def trouble_at(self, path: Path) -> tuple[Trouble, ...]:
        """The trouble that a field has to do with."""
        return tuple(one for one in self.trouble if touching(parts(one.column), path))


def rules_of(settings: Settings, expression: ReadExpression | None = None) -> Rules:
    """The rules that a pipeline's settings make; with its routing expression, also what that makes of columns."""
    evolution, policies = settings.decode.evolution, settings.policies
    stops = "decode.evolution" if evolution == "fail" else "policies.new_field"
    return Rules(
        policies=worker_policies(settings),
        columns=settings.sink.columns,
        route=settings.route,
        grow=tables_grow(settings),
        growth_stops=stops if evolution == "fail" or policies.new_field == "fail" else "",
        leaves_columns="decode.evolution"
        if evolution == "ignore" and policies.new_field == "add"
        else "policies.new_field",
        any_format=decodes_any_format(settings.decode.format),
        widen=tables_widen(settings),
        expression=expression,
    )


def table_fit(record: pa.Schema, before: pa.Schema, rules: Rules, after: pa.Schema | None = None) -> TableFit:
    """How records with these columns go into a table with the payload columns `before`.

    `after` are the table's columns once it has grown, where other records had a say in that.
    """
    grown = rules.grown(before, record)
    held = without_rescued(rules.columns, grown if after is None else after)
    wider = {change.column for change in changes(before, held) if change.kind == "widened"}
    added = tuple(
        change for change in changes(before, grown) if change.kind == "added" or change.column in wider
    )
    settled = {change.source for change in added if change.kind == "widened"}
    # Of the dates that a column holds which became one of timestamps, the farthest are beyond those.
    trouble = tuple(one for one in _trouble(record, held, rules) if parts(one.column) not in settled)
    return TableFit(held, added, trouble)


def _trouble(record: pa.Schema, held: pa.Schema, rules: Rules) -> tuple[Trouble, ...]:
    # A policy that stops is told, not followed.
    lenient = rules.policies.model_copy(update=dict.fromkeys(_stops(rules.policies), "quarantine"))
    found = plan(record, held, lenient).trouble
    # What a growing table lacks it will have: that is no trouble.
    return tuple(one for one in found if not (rules.grow and one.kind == "new_field"))


def _stops(policies: Policies) -> Sequence[str]:
    fields = ("new_field", "wider_type", "incompatible_type")
    return [name for name in fields if getattr(policies, name) == "fail"]


def touching(one: Path, other: Path) -> bool:
    """Whether two paths are the same, or one leads into the other."""
    shorter = min(len(one), len(other))
    return one[:shorter] == other[:shorter]
