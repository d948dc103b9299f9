"""What the driver does when a record type brings something new: restart, take it in, stop, or leave it out."""

from __future__ import annotations

from dataclasses import dataclass, replace

from distributary.codecs.base import decodes_any_format
from distributary.ingest.columns.growth import GrowthRules
from distributary.ingest.routing.read_ahead import ReadExpression
from distributary.ingest.settings.groups import Columns, Policies, Route
from distributary.ingest.settings.model import Settings


@dataclass(frozen=True, slots=True)
class Rules:
    """What the settings say of changes, as the workers and the driver apply it.

    growth          what known tables do: whether they get columns, and wider ones
    growth_stops    the setting that says `fail` to a table that would grow; empty where none does
    leaves_columns  the setting because of which tables do not grow
    any_format      whether records of every format can be decoded
    expression      the routing expression as a run reads it; None where there is none, or nobody has read it
    """

    policies: Policies
    columns: Columns
    route: Route
    growth: GrowthRules
    growth_stops: str
    leaves_columns: str
    any_format: bool
    expression: ReadExpression | None = None

    def with_fixed(self, columns: frozenset[str]) -> Rules:
        """The rules for a table of which these columns must keep their types."""
        return replace(self, growth=replace(self.growth, fixed=columns))

    def of_new_table(self) -> Rules:
        """Whatever the settings say of known tables, a new one takes up all that its first batch brings."""
        return replace(self, growth=replace(self.growth, adds=True), growth_stops="")


def rules_of(settings: Settings, expression: ReadExpression | None = None) -> Rules:
    """The rules that a pipeline's settings make; with its routing expression, also what that makes of columns."""
    evolution, policies = settings.decode.evolution, settings.policies
    stops = "decode.evolution" if evolution == "fail" else "policies.new_field"
    return Rules(
        policies=worker_policies(settings),
        columns=settings.sink.columns,
        route=settings.route,
        growth=growth_rules(settings),
        growth_stops=stops if evolution == "fail" or policies.new_field == "fail" else "",
        leaves_columns="decode.evolution"
        if evolution == "ignore" and policies.new_field == "add"
        else "policies.new_field",
        any_format=decodes_any_format(settings.decode.format),
        expression=expression,
    )


def growth_rules(settings: Settings) -> GrowthRules:
    """What known tables do when records bring something new."""
    return GrowthRules(
        adds=tables_grow(settings),
        widens=tables_widen(settings),
        reserved=settings.sink.columns.reserved(),
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
