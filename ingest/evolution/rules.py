"""What the driver does when a record type brings something new: restart, take it in, stop, or leave it out."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from distributary.codecs.base import decodes_any_format
from distributary.ingest.columns.layout import Layout, extend
from distributary.ingest.columns.widening import widened
from distributary.ingest.routing.ahead import ReadExpression
from distributary.ingest.settings.groups import Columns, Policies, Route
from distributary.ingest.settings.model import Settings


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

    def grown(self, before: Layout, record: pa.Schema) -> Layout:
        """What a known table with the payload columns `before` becomes by records with these columns."""
        columns = widened(before.columns, record, self.fixed) if self.widen else before.columns
        return Layout(extend(columns, record, self.columns.reserved()) if self.grow else columns)


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


def tables_grow(settings: Settings) -> bool:
    """Whether known tables get columns that records bring."""
    return settings.decode.evolution != "ignore" and settings.policies.new_field in ("add", "fail")


def tables_widen(settings: Settings) -> bool:
    """Whether columns become wider where a record's type is."""
    return settings.decode.evolution != "ignore" and settings.policies.wider_type == "widen"


def worker_policies(settings: Settings) -> Policies:
    """The policies as workers apply them: with `evolution: ignore` what has no column is rescued."""
    if settings.decode.evolution != "ignore" or settings.policies.new_field != "add":
        return settings.policies
    return settings.policies.model_copy(update={"new_field": "rescue"})
