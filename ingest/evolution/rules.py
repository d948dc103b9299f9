"""The settings that say what becomes of something new which a record type brings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from distributary.codecs.base import load_codec
from distributary.codecs.changes.classify import ChangeClass
from distributary.ingest.columns.growth import GrowthRules
from distributary.ingest.pins import WorkerRules
from distributary.ingest.reshaping.rule import Reshape
from distributary.ingest.routing.read_ahead import ReadExpression
from distributary.ingest.settings.groups import Columns, Decode, Policies, Route, Sink
from distributary.ingest.settings.rule_book import FitRules, RuleBook

# A setting that has a say in whether known tables grow, by its name in the file.
GrowthSetting: TypeAlias = Literal["decode.evolution", "policies.new_field"]


# The policies of classes of change that need no place for a value: whether the records come to the table at all.
CHANGE_POLICIES: Mapping[ChangeClass, str] = {
    "dropped": "dropped_field",
    "renamed": "renamed_field",
    "narrowed": "narrower_type",
    "made_required": "required_field",
    "enum_value_added": "enum_value",
    "enum_value_removed": "enum_value",
    "record_renamed": "record_name",
}


@dataclass(frozen=True, slots=True)
class _Said:
    """Which settings say it, and what else the rule says.

    stops   the one that says `fail` to a table that would grow; None where none does
    leaves  the one because of which tables do not grow
    by      the rule of tables whose policies these are, and their names; empty for all tables
    own     those policies' names
    reshape  what that rule makes of records' columns; None where it leaves them as they are
    """

    stops: GrowthSetting | None
    leaves: GrowthSetting
    by: str = ""
    own: frozenset[str] = frozenset()
    reshape: Reshape | None = None

    def of(self, setting: str) -> str:
        """A setting as users find it: where the rule has a policy of its own, that."""
        return f"{self.by}.{setting}" if setting.removeprefix("policies.") in self.own else setting


@dataclass(frozen=True, slots=True)
class Rules:
    """What the settings say of changes, as the workers and the driver apply it.

    growth      what known tables do: whether they get columns, and wider ones
    said        which settings say it
    any_format  whether records of every format can be decoded
    expression  the routing expression as a run reads it; None where there is none, or nobody has read it
    tables      what rules of tables say otherwise
    """

    policies: Policies
    columns: Columns
    route: Route
    growth: GrowthRules
    said: _Said
    any_format: bool
    expression: ReadExpression | None = None
    tables: RulesOfTables | None = None

    @property
    def growth_stops(self) -> str | None:
        """The setting that says `fail` to a table that would grow; None where none does."""
        return None if self.said.stops is None else self.said.of(self.said.stops)

    @property
    def leaves_columns(self) -> str:
        """The setting because of which tables do not grow."""
        return self.said.of(self.said.leaves)

    def setting(self, policy: str) -> str:
        """The setting that says what this policy is."""
        return self.said.of(f"policies.{policy}")

    @property
    def reshape(self) -> Reshape | None:
        """What becomes of records' columns before a table knows them; None where they stay as they are."""
        return self.said.reshape

    @property
    def vetoes(self) -> bool:
        """Whether a class of change keeps a schema's records from the table, or stops the run."""
        return any(getattr(self.policies, name) != "keep" for name in CHANGE_POLICIES.values())

    @property
    def hides(self) -> bool:
        """Whether a schema's records are kept from the table that would show what its rule hides."""
        return self.reshape is not None and self.reshape.hides

    @property
    def vetoes_any(self) -> bool:
        """Whether a schema's records may be kept from any table."""
        own = () if self.tables is None else self.tables.own.values()
        return self.vetoes or any(one.vetoes or one.hides for one in own)

    @property
    def widens_any(self) -> bool:
        """Whether any table's columns become wider."""
        own = () if self.tables is None else self.tables.own.values()
        return self.growth.widens or any(one.growth.widens for one in own)

    def widens(self, entity: str) -> bool:
        """Whether the columns of an entity's table become wider."""
        return self.of(entity).growth.widens

    def of(self, entity: str) -> Rules:
        """The rules for an entity's table."""
        return self if self.tables is None else self.tables.of(entity, self)

    def with_fixed(self, columns: frozenset[str]) -> Rules:
        """The rules for a table of which these columns must keep their types."""
        return replace(self, growth=replace(self.growth, fixed=columns))

    def of_new_table(self) -> Rules:
        """Whatever the settings say of known tables, a new one takes up all that its first batch brings."""
        kept = self.policies.model_copy(update=dict.fromkeys(CHANGE_POLICIES.values(), "keep"))
        grows, said = replace(self.growth, adds=True), replace(self.said, stops=None)
        return replace(self, policies=kept, growth=grows, said=said)


@dataclass(frozen=True, slots=True)
class RulesOfTables:
    """What rules of tables say of changes, where they have policies or columns of their own, by the rules' places."""

    book: RuleBook
    own: Mapping[int, Rules]

    def of(self, entity: str, others: Rules) -> Rules:
        """The rules for an entity's table; `others` for one whose rule has nothing of its own to say of changes."""
        place = self.book.of(entity).place
        return others if place is None else self.own.get(place, others)


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


def rules_of(  # noqa: PLR0913, PLR0917 - one value each of what it is made of
    decode: Decode,
    policies: Policies,
    route: Route,
    sink: Sink,
    expression: ReadExpression | None = None,
    book: RuleBook | None = None,
) -> Rules:
    """The rules that a pipeline's settings make; with its routing expression, also what that makes of columns."""
    plain = Rules(
        policies=worker_policies(decode, policies),
        columns=sink.columns,
        route=route,
        growth=growth_rules(decode, policies, sink.columns),
        said=_said(decode, policies),
        any_format=load_codec(decode.codec).takes_any_format,
        expression=expression,
    )
    own = {} if book is None else _own(plain, decode, policies, book)
    return replace(plain, tables=RulesOfTables(book, own)) if book is not None and own else plain


def _said(decode: Decode, policies: Policies) -> _Said:
    leaves: GrowthSetting = (
        "decode.evolution" if _evolution_ignores(decode, policies) else "policies.new_field"
    )
    return _Said(_growth_stops(decode, policies), leaves)


def _own(plain: Rules, decode: Decode, policies: Policies, book: RuleBook) -> dict[int, Rules]:
    """The rules for the tables of each rule that has policies or columns of its own."""
    found: dict[int, Rules] = {}
    for place, spec in enumerate(book.specs):
        if not spec.policies and spec.reshape is None:
            continue
        own = policies.model_copy(update=dict(spec.policies))
        # No hash is made of a schema.
        reshape = None if spec.reshape is None else spec.reshape.without_secret()
        found[place] = replace(
            plain,
            policies=worker_policies(decode, own),
            growth=growth_rules(decode, own, plain.columns),
            said=replace(_said(decode, own), by=spec.setting, own=frozenset(spec.policies), reshape=reshape),
        )
    return found


def _own_policies(policies: Policies, book: RuleBook) -> dict[int, Policies]:
    return {
        place: policies.model_copy(update=dict(spec.policies))
        for place, spec in enumerate(book.specs)
        if spec.policies
    }


def with_fits(book: RuleBook, decode: Decode, policies: Policies) -> RuleBook:
    """The book as workers need it: with what the policies of its rules come to."""
    fits = {
        place: FitRules(worker_policies(decode, own), tables_grow(decode, own), tables_widen(decode, own))
        for place, own in _own_policies(policies, book).items()
    }
    return replace(book, fits=fits)


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
