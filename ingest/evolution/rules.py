"""The settings that say what becomes of something new which a record type brings."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from distributary.codecs.base import load_codec
from distributary.ingest.columns.growth import GrowthRules
from distributary.ingest.pins import WorkerRules
from distributary.ingest.routing.read_ahead import ReadExpression
from distributary.ingest.settings.groups import Columns, Decode, Policies, Route, Sink

# A setting that has a say in whether known tables grow, by its name in the file.
GrowthSetting: TypeAlias = Literal["decode.evolution", "policies.new_field"]


@dataclass(frozen=True, slots=True)
class Rules:
    """What the settings say of changes, as the workers and the driver apply it.

    growth          what known tables do: whether they get columns, and wider ones
    growth_stops    the setting that says `fail` to a table that would grow; None where none does
    leaves_columns  the setting because of which tables do not grow
    any_format      whether records of every format can be decoded
    expression      the routing expression as a run reads it; None where there is none, or nobody has read it
    """

    policies: Policies
    columns: Columns
    route: Route
    growth: GrowthRules
    growth_stops: GrowthSetting | None
    leaves_columns: GrowthSetting
    any_format: bool
    expression: ReadExpression | None = None

    def with_fixed(self, columns: frozenset[str]) -> Rules:
        """The rules for a table of which these columns must keep their types."""
        return replace(self, growth=replace(self.growth, fixed=columns))

    def of_new_table(self) -> Rules:
        """Whatever the settings say of known tables, a new one takes up all that its first batch brings."""
        return replace(self, growth=replace(self.growth, adds=True), growth_stops=None)


@dataclass(frozen=True, slots=True)
class Parking:
    """What becomes of tables that can never take a decided batch's files.

    parks  whether their files wait while the other tables go on; otherwise the run stops
    most   how many batches may be decided while the files of one wait
    """

    parks: bool = False
    most: int = 1000


@dataclass(frozen=True, slots=True)
class RunRules:
    """What the settings say of batches, the same for the whole run.

    decode   how payloads become rows
    workers  what workers are told
    changes  what becomes of changes to tables
    parking  what becomes of tables that cannot take a batch's files
    """

    decode: Decode
    workers: WorkerRules
    changes: Rules
    parking: Parking = Parking()


def rules_of(
    decode: Decode, policies: Policies, route: Route, sink: Sink, expression: ReadExpression | None = None
) -> Rules:
    """The rules that a pipeline's settings make; with its routing expression, also what that makes of columns."""
    return Rules(
        policies=worker_policies(decode, policies),
        columns=sink.columns,
        route=route,
        growth=growth_rules(decode, policies, sink.columns),
        growth_stops=_growth_stops(decode, policies),
        leaves_columns="decode.evolution" if _evolution_ignores(decode, policies) else "policies.new_field",
        any_format=load_codec(decode.format).takes_any_format,
        expression=expression,
    )


def _growth_stops(decode: Decode, policies: Policies) -> GrowthSetting | None:
    if decode.evolution == "fail":
        return "decode.evolution"
    return "policies.new_field" if policies.new_field == "fail" else None


def growth_rules(decode: Decode, policies: Policies, columns: Columns) -> GrowthRules:
    """What known tables do when records bring something new."""
    return GrowthRules(
        adds=tables_grow(decode, policies),
        widens=tables_widen(decode, policies),
        reserved=columns.reserved(),
    )


def tables_grow(decode: Decode, policies: Policies) -> bool:
    """Whether known tables get columns that records bring."""
    return decode.evolution != "ignore" and policies.new_field in ("add", "fail")


def tables_widen(decode: Decode, policies: Policies) -> bool:
    """Whether columns become wider where a record's type is."""
    return decode.evolution != "ignore" and policies.wider_type == "widen"


def worker_policies(decode: Decode, policies: Policies) -> Policies:
    """The policies as workers apply them: with `evolution: ignore` what has no column is rescued."""
    if not _evolution_ignores(decode, policies):
        return policies
    return policies.model_copy(update={"new_field": "rescue"})


def _evolution_ignores(decode: Decode, policies: Policies) -> bool:
    """Whether a column that the policies would add is left out all the same."""
    return decode.evolution == "ignore" and policies.new_field == "add"
