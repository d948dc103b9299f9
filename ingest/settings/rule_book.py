"""Which rule says what an entity's table is, found out once an entity."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from distributary.ingest.bronze.rule import AsTheyCame
from distributary.ingest.columns.clustering import ClusterBy
from distributary.ingest.expectations.checking import Met
from distributary.ingest.expectations.given import Expectation
from distributary.ingest.reshaping.rule import Beside, Reshape
from distributary.ingest.settings.erased.given import Erased, ErasedKey
from distributary.ingest.settings.groups import Policies, Route, Sink
from distributary.ingest.settings.patterns import Pattern
from distributary.ingest.settings.table_rules import TableRule
from distributary.ingest.settings.upserts import Upsert


@dataclass(frozen=True, slots=True)
class TableSpec:
    """What the settings say of a table.

    place       of its rule in the list; None where none fits, so that `sink` alone says it
    match       the rule's pattern; empty where none fits
    properties  by their names; None for one that it is not to have
    comment     None where it may have any
    most_rows   in a file; None for any number
    policies    that are its own, by name
    upsert      how its rows take the place of earlier ones; None where each is added
    partition_by  fields, or the day in Kafka by its column's name, that its files are told apart by
    reshape     what becomes of records' columns before anything else looks at them; None where they stay as they are
    cluster_by  by what its rows lie near each other; None where nothing is said of it, so that it stays as it is
    expects     what its records are to meet
    """

    place: int | None = None
    match: str = ""
    properties: Mapping[str, str | None] = field(default_factory=dict)
    comment: str | None = None
    most_rows: int | None = None
    policies: Mapping[str, str] = field(default_factory=dict)
    upsert: Upsert | None = None
    partition_by: tuple[str, ...] = ()
    reshape: Reshape | None = None
    cluster_by: ClusterBy | None = None
    expects: tuple[Expectation, ...] = ()

    @property
    def setting(self) -> str:
        """The setting that it comes from, as users write it."""
        return "sink" if self.place is None else f"tables[{self.place}]"


@dataclass(frozen=True, slots=True)
class FitRules:
    """What becomes of records that do not fit a table, and of the table, where that is its rule's own.

    grows   whether the table, once known, gets columns
    widens  whether its columns become wider
    """

    policies: Policies
    grows: bool
    widens: bool


class Condition(Protocol):
    """A condition over records' fields, as workers evaluate it."""

    def met(self, rows: pa.RecordBatch) -> pa.BooleanArray:
        """For which rows it is true. Raises ConfigError where types do not go with it."""
        ...

    def tried(self, rows: pa.RecordBatch) -> Met:
        """The same of each by itself: what fails is told and not raised."""
        ...


@dataclass(frozen=True)
class RuleBook:
    """The rules in their order, the first of which that fits an entity says what its table is.

    specs, patterns  what each rule says, and whom it is for
    defaults         what the table of an entity is that none fits
    fits             by the places of rules that have policies of their own, what these come to
    conditions       those of deletes, of expectations, and of what is erased, by their texts
    erased           which records land nowhere
    kept             where records are kept as they came, whatever becomes of them
    """

    specs: tuple[TableSpec, ...] = ()
    patterns: tuple[Pattern, ...] = ()
    defaults: TableSpec = field(default_factory=TableSpec)
    fits: Mapping[int, FitRules] = field(default_factory=dict)
    conditions: Mapping[str, Condition] = field(default_factory=dict)
    erased: Erased = field(default_factory=Erased)
    kept: AsTheyCame = field(default_factory=AsTheyCame)
    _found: dict[str, TableSpec] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def by(
        cls, rules: Sequence[TableRule], route: Route, sink: Sink, erased: Iterable[str | ErasedKey] = ()
    ) -> RuleBook:
        """The book of these settings."""
        return cls(
            tuple(_spec(place, rule, sink) for place, rule in enumerate(rules)),
            tuple(rule.pattern(route) for rule in rules),
            TableSpec(
                properties=dict(sink.properties),
                most_rows=sink.max_rows_per_file,
                cluster_by=_cluster_by(sink.cluster_by, sink, "sink.cluster_by"),
            ),
            erased=Erased.by(erased),
        )

    def of(self, entity: str) -> TableSpec:
        """What an entity's table is."""
        found = self._found.get(entity)
        if found is None:
            found = self._found[entity] = self._look(entity)
        return found

    def fit(self, entity: str) -> FitRules | None:
        """What becomes of records that do not fit an entity's table; None where that is as for all."""
        place = self.of(entity).place if self.fits else None
        return None if place is None else self.fits.get(place)

    @property
    def upserts(self) -> bool:
        """Whether any rule has rows take the place of earlier ones."""
        return any(spec.upsert is not None for spec in self.specs)

    def upsert(self, entity: str) -> Upsert | None:
        """How rows of an entity's table take the place of earlier ones; None where each is added."""
        return self.of(entity).upsert if self.upserts else None

    @property
    def remembers(self) -> bool:
        """Whether any rule has deletes, which a table beside its table remembers."""
        return any(spec.upsert is not None and spec.upsert.remembers for spec in self.specs)

    def asked(self) -> list[tuple[str, str]]:
        """The conditions over records, of deletes and of what is erased, each behind the setting that has it."""
        told = [(spec.setting, spec.upsert.deletes) for spec in self.specs if spec.upsert is not None]
        return [
            *self.erased.by_setting.items(),
            *(
                (f"{setting}.deletes", deletes.when)
                for setting, deletes in told
                if deletes is not None and deletes.when is not None
            ),
        ]

    @property
    def expecting(self) -> bool:
        """Whether any rule says what records are to meet."""
        return any(spec.expects for spec in self.specs)

    def expects(self, entity: str) -> tuple[Expectation, ...]:
        """What records of an entity's table are to meet."""
        return self.of(entity).expects if self.expecting else ()

    def asked_of_each(self) -> list[tuple[str, str]]:
        """The conditions of expectations, each behind the setting that has it."""
        return [
            (f"{spec.setting}.expect.{one.name}", one.condition)
            for spec in self.specs
            for one in spec.expects
        ]

    @property
    def partitions(self) -> bool:
        """Whether any rule has tables in partitions."""
        return any(spec.partition_by for spec in self.specs)

    @property
    def clusters(self) -> bool:
        """Whether any rule has tables clustered, or `sink` those of none."""
        return any(spec.cluster_by is not None for spec in (*self.specs, self.defaults))

    @property
    def reshapes(self) -> bool:
        """Whether any rule has columns otherwise than records have them."""
        return any(spec.reshape is not None for spec in self.specs)

    def reshape(self, entity: str) -> Reshape | None:
        """What becomes of the columns of an entity's records; None where they stay as they are."""
        return self.of(entity).reshape if self.reshapes else None

    def in_quarantine(self, entity: str | None) -> Sequence[Reshape]:
        """By which rules a record that goes to quarantine is kept there: that of its entity, or all of them where nobody knows it."""
        if entity is None:
            return [spec.reshape for spec in self.specs if spec.reshape is not None]
        # Not remembered: of a million names that get no table each may come here.
        reshape = (self._found.get(entity) or self._look(entity)).reshape
        return [] if reshape is None else [reshape]

    @property
    def beside(self) -> Beside:
        """What rules want of a record in Kafka beside its key and value."""
        rules = [spec.reshape for spec in self.specs if spec.reshape is not None]
        headers = {name for one in rules for name in one.headers}
        told_by = any(one.timestamp_type for one in rules) or bool(self.kept)
        return Beside(tuple(sorted(headers)), told_by, self.kept.every_header)

    def takes_tombstones(self, entity: str) -> bool:
        """Whether records without a value take rows of an entity's table away."""
        upsert = self.upsert(entity)
        return upsert is not None and upsert.deletes is not None and upsert.deletes.tombstones

    @property
    def tombstones(self) -> bool:
        """Whether they do of any table."""
        found = (None if spec.upsert is None else spec.upsert.deletes for spec in self.specs)
        return any(one is not None and one.tombstones for one in found)

    @property
    def grows(self) -> bool:
        """Whether a rule of tables lets them get columns, whatever is said of all others."""
        return any(fit.grows for fit in self.fits.values())

    def _look(self, entity: str) -> TableSpec:
        fits = (spec for spec, one in zip(self.specs, self.patterns, strict=True) if one.fits(entity))
        return next(fits, self.defaults)

    def __getstate__(self) -> dict[str, object]:
        # Workers look for themselves: what the driver has found may be of a thousand tables.
        return {**self.__dict__, "_found": {}}


def _spec(place: int, rule: TableRule, sink: Sink) -> TableSpec:
    return TableSpec(
        place=place,
        match=rule.of()[1],
        properties={**sink.properties, **rule.properties},
        comment=rule.comment,
        most_rows=sink.max_rows_per_file if rule.max_rows_per_file is None else rule.max_rows_per_file,
        policies=rule.policies.given(),
        upsert=rule.upsert(),
        partition_by=rule.partition_by or (),
        reshape=None if rule.columns is None else rule.columns.rule(),
        cluster_by=_clustering(place, rule, sink),
        expects=rule.expectations(),
    )


def _clustering(place: int, rule: TableRule, sink: Sink) -> ClusterBy | None:
    if rule.cluster_by is not None:
        upsert = rule.upsert()
        bounds = () if upsert is None else upsert.bounds
        return _cluster_by(rule.cluster_by, sink, f"tables[{place}].cluster_by", bounds)
    return None if rule.partition_by else _cluster_by(sink.cluster_by, sink, "sink.cluster_by")


def _cluster_by(
    fields: tuple[str, ...] | None, sink: Sink, setting: str, bounds: Iterable[str] = ()
) -> ClusterBy | None:
    if fields is None:
        return None
    return ClusterBy(fields, sink.columns.reserved().union(bounds).intersection(fields), setting)
