"""The settings' list of tables: which entities a rule is for, and what it says of their tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal, TypeAlias, get_args

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag

from distributary.ingest.columns import safe_names
from distributary.ingest.expectations.given import Expectation, GivenExpectation, conditions_in
from distributary.ingest.reshaping.given import ColumnsRule, wrong_columns
from distributary.ingest.settings.deletes import DeleteRule, Deleting, GivenDeletes
from distributary.ingest.settings.groups import ClusterFields, Columns, OnChange, Policies, Route, Sink
from distributary.ingest.settings.histories import HistoryRule
from distributary.ingest.settings.patterns import Pattern
from distributary.ingest.settings.table_properties import TableProperties
from distributary.ingest.settings.upserts import (
    BOUNDS,
    RECORD_KEY,
    Fields,
    Mode,
    Moved,
    RowKeys,
    Update,
    Upsert,
    Written,
    wrong_upsert,
)
from distributary.values import Group, Keys, Name, Wrong, WrongValues

# What a pattern may be held against, as routes have it.
Of: TypeAlias = Literal["entity", "topic", "record"]


class Matched(Group):
    """Which names a rule is for, and what they are names of."""

    entity: Name | None = None
    """Entities, whatever they are routed by."""
    topic: Name | None = None
    """Topics, for `route.by: topic`."""
    record: Name | None = None
    """Full names of records or messages, for `route.by: record`."""

    def wrong(self) -> Iterator[Wrong]:
        """What does not go together."""
        if len(self.given()) != 1:
            yield (), "write one of entity, topic and record"

    def given(self) -> list[tuple[Of, str]]:
        """What is held against which pattern."""
        given: list[tuple[Of, str | None]] = [
            ("entity", self.entity),
            ("topic", self.topic),
            ("record", self.record),
        ]
        return [(of, text) for of, text in given if text is not None]


Match = Annotated[
    Annotated[Name, Tag("text")] | Annotated[Matched, Tag("of")],
    Discriminator(lambda value: "of" if isinstance(value, dict | Matched) else "text"),
]


class TablePolicies(Group):
    """What happens to what does not fit some tables; what it does not say, the settings' `policies` do."""

    new_field: Literal["add", "rescue", "fail", "ignore"] | None = None
    """As `policies.new_field`."""
    wider_type: Literal["rescue", "widen", "quarantine", "fail"] | None = None
    """As `policies.wider_type`."""
    incompatible_type: Literal["quarantine", "rescue", "fail"] | None = None
    """As `policies.incompatible_type`."""

    dropped_field: OnChange | None = None
    """As `policies.dropped_field`."""
    renamed_field: OnChange | None = None
    """As `policies.renamed_field`."""
    narrower_type: OnChange | None = None
    """As `policies.narrower_type`."""
    required_field: OnChange | None = None
    """As `policies.required_field`."""
    enum_value: OnChange | None = None
    """As `policies.enum_value`."""
    record_name: OnChange | None = None
    """As `policies.record_name`."""

    def given(self) -> dict[str, str]:
        """Those that are said, by name."""
        return {name: value for name, value in self if value is not None}


def _known_mode(mode: Any) -> Any:
    if mode not in get_args(Mode):
        raise ValueError(f"no mode is called {mode}; write append, upsert or history")
    return mode


# As many as anybody makes folders in each other.
_MOST_PARTITIONED_BY = 8


def _distinct(names: tuple[str, ...]) -> tuple[str, ...]:
    twice = [((n,), "written twice; keep one") for n, name in enumerate(names) if name in names[:n]]
    if twice:
        raise WrongValues(*twice)
    return names


PartitionBy: TypeAlias = Annotated[
    tuple[Name, ...], Field(min_length=1, max_length=_MOST_PARTITIONED_BY), AfterValidator(_distinct)
]


class TableRule(Group):
    """What the tables of some entities are; what it does not say, `sink` does."""

    match: Match
    """Which entities' tables: a name, one with `*` for any characters and `?` for one, or `/regex/`, which need only be found in the name. `{topic: …}` and `{record: …}` say what the name is of, where records are routed by that. The first rule that fits an entity is its table's."""
    mode: Annotated[Mode, BeforeValidator(_known_mode)] = "append"
    """How rows land: `append` adds each record as a row; `upsert` keeps one row a key, the newest; `history` keeps a row for all the time that the same was true of a key, and says from when to when."""
    keys: RowKeys | None = None
    """What names a row, for `mode: upsert` and `history`: `kafka_key`, the record's own key; or a list of fields, dotted where they are nested, such as `[customer.id, line]`. A record that lacks one of them goes to quarantine."""
    sequence_by: Fields | None = None
    """Fields that say which of two records of a key is the newer one, for `mode: upsert`: the one with the greater value, of equal ones the later in Kafka. A record that lacks one of them goes to quarantine. Without it the later one in its partition is newer. For `mode: history` it has to be there, and the first field has a time or a day: since then the record is true."""
    on_repartition: Moved | None = None
    """What becomes of a known key that comes in another partition, or topic, for `mode: upsert` without `sequence_by`, since positions in two partitions do not tell which is later: `stop` stops the run; `timestamp` has the records' times say it, and positions only where those are equal. `stop` unless given."""
    update: Update | None = None
    """What a newer record sets of its row, for `mode: upsert`: `all` columns, so that one that its schema lacks becomes null; or `present`, those that its own schema has, so that a producer on an older schema leaves the others as they are. For records that name their schema. `all` unless given."""
    deletes: GivenDeletes | None = None
    """Which records take their key's row away, for `mode: upsert`: a SQL condition over the record's own fields, such as `op = 'd'`; those for which it is true are deletes. As a mapping, with what else there is to say of them. With `mode: history` a delete ends its key's row, which stays."""
    history: HistoryRule | None = None
    """What else there is to say of a table with `mode: history`."""
    partition_by: PartitionBy | None = None
    """Fields, such as `[country, day]`, whose values have files of their own in the table, so that who asks for some of them reads no others: strings, integers, booleans and dates that are not nested, or `sink.columns.kafka_date`. With `mode: upsert` a newer record's row is in the partition of its own values, wherever the row was that it replaces. A record whose schema lacks such a field goes to quarantine. It says how a table is made, and stays."""
    cluster_by: ClusterFields | None = None
    """Up to four fields, such as `[customer.id, ordered_at]`, by which rows lie near each other in files, so that who asks for some values opens few files: upkeep sorts by all of them at once what it brings together (Delta's liquid clustering). Strings, numbers, dates and times, dotted where they are nested, or columns of Kafka's such as `kafka_ts`. It goes with no `partition_by`. A table that is there gets it with its next rows; `[]` takes it away; one of which nothing is said stays as it is. `sink.cluster_by` unless given."""
    properties: TableProperties = Field(default_factory=dict)
    """Properties of the Delta table by their own names, such as `delta.appendOnly`, and names of your own; each beside, or in place of, `sink.properties`. One without a value is taken away. A table that is there gets them with its next rows."""
    comment: str | None = None
    """What the table says of itself; an empty text takes it away."""
    policies: TablePolicies = TablePolicies()
    """What happens to what does not fit these tables; what it does not say, `policies` does."""
    columns: ColumnsRule | None = None
    """Which fields land, by which names, and what of their values: chosen right behind decoding, so that `keys`, `sequence_by`, `partition_by` and `policies` know the columns as they are then. Routes and `deletes` see the record as it came. All fields land as they are unless given."""
    expect: dict[Name, GivenExpectation] = Field(default_factory=dict)
    """What their records are to meet: names of your own, each with a SQL condition over the columns that a record has for the table, behind `columns`, such as `{sane_heart: "heart_bpm between 20 and 250"}`; or with a mapping that says what becomes of a record that does not. See [expectations](expectations.md)."""
    max_rows_per_file: Annotated[int, Field(ge=1)] | None = None
    """How many rows a file of the table has at most; by default `sink.max_rows_per_file`."""

    def upsert(self) -> Upsert | None:
        """How its tables' rows take the place of earlier ones; None where they do not."""
        return self.landing().upsert

    def expectations(self) -> tuple[Expectation, ...]:
        """What its tables' records are to meet."""
        return Expectation.all_of(self.expect)

    def expected(self) -> Iterator[tuple[Keys, str]]:
        """The conditions of that, each behind its place within the rule."""
        return ((("expect", *keys), text) for keys, text in conditions_in(self.expect))

    def condition(self) -> tuple[Keys, str | None]:
        """The condition of its deletes, if there is one, behind its place within the rule."""
        if isinstance(self.deletes, DeleteRule):
            return ("deletes", "when"), self.deletes.when
        return ("deletes",), self.deletes

    @property
    def forgets_twice(self) -> bool:
        """Whether it says of deletes alone for how long they are remembered, where all records are."""
        told = isinstance(self.deletes, DeleteRule) and self.deletes.remember_days is not None
        return told and self.mode == "history"

    @property
    def takes_tombstones(self) -> bool:
        """Whether records without a value take rows away."""
        return isinstance(self.deletes, DeleteRule) and self.deletes.tombstones == "delete"

    def no_tombstones(self, route: Route) -> str:
        """Why no row can be found, or compared, by a record without a value; empty where it can."""
        if self.keys not in (None, RECORD_KEY):
            return f"a record without a value has no field, so that its own key has to be its row's: write keys: {RECORD_KEY}, or leave it out"
        if self.sequence_by:
            return "a record without a value has no field that says how new it is: take sequence_by away, or leave it out"
        if route.by not in ("topic", "key", "header"):
            return f"records are routed by {route.by}, which one without a value does not have: route by topic, key or header, or leave it out"
        return ""

    def marks_another_column(self, columns: Columns) -> bool:
        """Whether deletes are marked by a column that says something else, case aside."""
        if not isinstance(self.deletes, DeleteRule) or self.deletes.mark is None:
            return False
        return safe_names.fold(self.deletes.mark) in map(safe_names.fold, self._others(columns))

    def _others(self, columns: Columns) -> set[str]:
        """The columns that say something else than what this rule has added."""
        fields = (() if self.keys in (None, RECORD_KEY) else self.keys or (), self.sequence_by or ())
        return {
            *columns.reserved(),
            *safe_names.RESERVED_COLUMNS,
            *(one for part in fields for one in part),
        }

    def taken_bounds(self, columns: Columns) -> list[str]:
        """By what the rule calls the columns that say when a row was true, of those that have a name which another has, case aside."""
        given = [] if self.history is None or self.mode != "history" else self.history.keeping().columns
        taken = set(map(safe_names.fold, (*columns.reserved(), *safe_names.RESERVED_COLUMNS)))
        return [bound for bound, name in zip(BOUNDS, given, strict=False) if safe_names.fold(name) in taken]

    def landing(self) -> Written:
        """What it says of how rows land."""
        return Written(
            self.mode,
            self.keys,
            self.sequence_by,
            self.on_repartition,
            self.update,
            Deleting.by(self.deletes),
            None if self.history is None else self.history.keeping(),
        )

    def of(self) -> tuple[Of, str]:
        """What its pattern is held against, and the pattern."""
        return self.match.given()[0] if isinstance(self.match, Matched) else ("entity", self.match)

    def pattern(self, route: Route) -> Pattern:
        """The names that it is for."""
        return Pattern(self.of()[1], route.fold_case)


def wrong_rules(
    rules: Sequence[TableRule], route: Route, sink: Sink, policies: Policies
) -> Iterator[tuple[int, Wrong]]:
    """What is wrong with rules in this order, each with the rule's place."""
    sound: list[tuple[int, Pattern]] = []
    for place, rule in enumerate(rules):
        properties = {**sink.properties, **rule.properties}
        wider = rule.policies.wider_type or policies.wider_type
        for wrong in wrong_upsert(rule.landing(), properties, wider):
            yield place, wrong
        for wrong in (*_wrong_partitions(rule, sink.columns), *_wrong_clusters(rule, sink.columns)):
            yield place, wrong
        for wrong in _wrong_columns(rule, sink.columns):
            yield place, wrong
        if rule.takes_tombstones and (why := rule.no_tombstones(route)):
            yield place, (("deletes", "tombstones"), why)
        if rule.marks_another_column(sink.columns):
            yield (
                place,
                (("deletes", "mark"), "another column, or Delta itself, has this name; choose another"),
            )
        for bound in rule.taken_bounds(sink.columns):
            yield (
                place,
                (("history", bound), "another column, or Delta itself, has this name; choose another"),
            )
        if rule.forgets_twice:
            yield (
                place,
                (
                    ("deletes", "remember_days"),
                    "deletes are remembered as long as all else; write history.remember_days",
                ),
            )
        of, pattern = rule.of()[0], rule.pattern(route)
        if why := pattern.refusal():
            yield place, (("match",), f"this is no regular expression: {why}; put it right")
            continue
        if of not in ("entity", route.by):
            yield (
                place,
                (
                    ("match", of),
                    f"records are routed by {route.by}, so that a table may have those of several; write its entity",
                ),
            )
        earlier = next(((n, one) for n, one in sound if one.covers(pattern)), None)
        if earlier is not None:
            yield place, (("match",), _hidden(*earlier, pattern))
        sound.append((place, pattern))


def _wrong_partitions(rule: TableRule, columns: Columns) -> Iterator[Wrong]:
    """What no table can be partitioned by, as far as the settings alone tell."""
    for place, name in enumerate(rule.partition_by or ()):
        if why := _why_not(name, columns):
            yield ("partition_by", place), why
        upsert = rule.upsert()
        if upsert is not None and name in upsert.bounds:
            yield (
                ("partition_by", place),
                "it changes when a row ends, so that each would be in two partitions; leave it out",
            )


def _wrong_clusters(rule: TableRule, columns: Columns) -> Iterator[Wrong]:
    """What no table can be clustered by, as far as the settings alone tell."""
    if rule.cluster_by and rule.partition_by:
        yield (
            ("cluster_by",),
            "Delta has no table that is in partitions and clustered; keep one of both, where partition_by has files of their own for each value",
        )
    for place, name in enumerate(rule.cluster_by or ()):
        if why := columns.why_not_clustered(name):
            yield ("cluster_by", place), why


def _wrong_columns(rule: TableRule, columns: Columns) -> Iterator[Wrong]:
    """What of the columns does not go with what else the rule says."""
    if rule.columns is None:
        return
    keys = rule.keys if isinstance(rule.keys, tuple) else ()
    day = () if columns.kafka_date is None else (columns.kafka_date,)
    mark = rule.deletes.mark if isinstance(rule.deletes, DeleteRule) else None
    keeps = rule.landing().upsert if rule.mode == "history" else None
    bounds = () if keeps is None else keeps.bounds
    yield from wrong_columns(
        rule.columns,
        {
            "keys": keys,
            "sequence_by": rule.sequence_by or (),
            "partition_by": tuple(name for name in rule.partition_by or () if name not in day),
            "cluster_by": tuple(name for name in rule.cluster_by or () if name not in columns.reserved()),
        },
        columns.reserved().union(() if mark is None else (mark,), bounds),
        by_key=rule.keys == RECORD_KEY,
    )


def _why_not(name: str, columns: Columns) -> str:
    if name == columns.kafka_date:
        return ""
    day = columns.day_meant()
    if name in columns.reserved() or name == "kafka_date":
        return f"of Kafka's columns only the day can be meant; {day}"
    if "(" in name:
        return f"an expression is none of a record's fields; for a field's day give it a column by columns.days, for the day in Kafka {day}"
    if "." in name:
        return "it is nested, and no table is partitioned by what is in a struct; name a field that is not nested"
    return ""


def _hidden(place: int, earlier: Pattern, pattern: Pattern) -> str:
    if earlier == pattern:
        return f"written twice, first in tables[{place}]; keep one"
    return f"no entity comes to this rule, since tables[{place}] ({earlier.text}) fits each one first; put this rule before that one, or leave it out"
