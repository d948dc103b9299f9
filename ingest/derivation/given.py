"""What the settings say of tables that are made of other tables."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from types import MappingProxyType
from typing import Annotated

from pydantic import AfterValidator, Field

from distributary.errors import ConfigError
from distributary.ingest.columns import safe_names as names
from distributary.ingest.derivation.beside import BesideTable, Static
from distributary.ingest.derivation.measures import (
    NotMergeable,
    group_of,
    measure,
    names_of,
    quoted,
    require_lasting,
)
from distributary.ingest.derivation.streams import Stream
from distributary.values import Group, Keys, Name, Seconds, Wrong

OWNER = "distributary.derived_by"
"""The property of a derived table that names its pipeline."""

TABLE = "{table}"
"""What stands for the entity's table, in a rule whose table has `{entity}` in its name."""

_FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


def _named(name: str) -> str:
    plain = name.replace(names.ENTITY, "x")
    try:
        names.check_table(plain)
    except ConfigError as error:
        raise ValueError(str(error)) from None
    if name.count(names.ENTITY) > 1:
        raise ValueError(f"write {names.ENTITY} once, or not at all")
    if plain.endswith(names.MEMORY_SUFFIX):
        raise ValueError(
            f"what remembers the deletes of a table ends in {names.MEMORY_SUFFIX}; choose another"
        )
    return name


class Aggregate(Group):
    """Rows a group, kept current by what was added since."""

    by: Annotated[tuple[Name, ...], Field(min_length=1)]
    """What rows are grouped by: columns, such as `player_id`, or expressions with a name, such as `date(kafka_ts) AS day`."""
    columns: Annotated[Mapping[Name, Name], Field(min_length=1)]
    """The columns, by their names: `count(*)`, `count(DISTINCT x)`, `sum`, `min`, `max`, `avg`, `min_by(value, order)`, `max_by`, `count_if`, `bool_and`, `bool_or`, `approx_count_distinct`, each with `FILTER (WHERE …)` or without."""
    where: Name | None = None
    """Which rows count; by default all do."""

    def wrong(self) -> Iterator[Wrong]:
        """What nobody could keep current."""
        for place, one in enumerate(self.by):
            try:
                group_of(one)
                require_lasting(one)
            except NotMergeable as error:
                yield ("by", place), str(error)
        for name, text in self.columns.items():
            if not re.fullmatch(r"[A-Za-z]\w*", name):
                yield ("columns", name), "write a name of letters, digits and _ that begins with a letter"
                continue
            try:
                measure(name, text)
                require_lasting(text)
            except NotMergeable as error:
                yield ("columns", name), str(error)
        try:
            require_lasting(self.where or "")
        except NotMergeable as error:
            yield ("where",), str(error)

    def expressions(self) -> Iterator[tuple[Keys, str]]:
        """What it says in Spark SQL, each behind its place, without the names of groups."""
        for place, one in enumerate(self.by):
            yield ("by", place), group_of(one)[1]
        for name, text in self.columns.items():
            yield ("columns", name), text
        if self.where is not None:
            yield ("where",), self.where

    def same_names(self) -> list[str]:
        """The columns that another one is called as, case aside."""
        try:
            found = [names.fold(name) for name in names_of(self.by, list(self.columns))]
        except NotMergeable:
            return []
        return sorted({name.lower() for name in found if found.count(name) > 1})


class Derived(Group):
    """A table that is made of others."""

    table: Annotated[Name, AfterValidator(_named)]
    """The table's name, a folder under `sink.root`; with `{entity}` in it there is one for each entity."""
    match: Name = "*"
    """For which entities, where the name has `{entity}`: a name, a pattern with `*` and `?`, or `/regex/`."""
    inputs: tuple[Name, ...] = ()
    """The tables that it is made of, by their folders under `sink.root`: those of entities, other derived ones, `quarantine`, the ledger's. `{entity}` in them is the entity. By default the entity's own table, `{table}`."""
    static: Mapping[Name, Static] = {}
    """Tables beside the pipeline's to look things up in, by the names that `sql` or the function has for them. When one has other rows all is worked out again."""
    aggregate: Aggregate | None = None
    """Rows a group of the one input: only what was added since is read, as long as nothing else happened to it."""
    sql: Name | None = None
    """A query in Spark SQL over the inputs, by their names; `{table}` and `{entity}` are filled in. All of it is worked out again when an input has changed."""
    python: Annotated[Name, Field(pattern=_FUNCTION.pattern)] | None = None
    """A Python function, `module:function`, that is given the Spark session and the inputs as data frames by their names, and answers with a data frame. All of it is worked out again when an input has changed."""
    stream: Stream | None = None
    """Rows that are added and stay as they are: windows of time and pairs of rows, once they are over, or rows as they come."""
    every_batches: Annotated[int, Field(ge=1)] | None = None
    """After how many batches of a run it is made current."""
    every_seconds: Annotated[Seconds, Field(le=86_400)] | None = None
    """After how many seconds, behind the next batch, it is made current; 60 unless one of both is given. A run that ends when all is ingested does it then in any case, and `distributary derive` at any time."""
    sink: BesideTable | None = None
    """Where its rows go beside the table: a Kafka topic, Parquet files. By default nowhere."""

    @property
    def an_entity(self) -> bool:
        """Whether there is one for each entity."""
        return names.ENTITY in self.table

    @property
    def of(self) -> tuple[str, ...]:
        """The inputs, by names as they are written."""
        return self.inputs or ((TABLE,) if self.an_entity else ())

    def wrong(self) -> Iterator[Wrong]:
        """What does not go together."""
        ways = [name for name in ("aggregate", "sql", "python", "stream") if getattr(self, name) is not None]
        if len(ways) != 1:
            yield (
                (),
                f"write one of aggregate, sql, python and stream{', not ' + ' and '.join(ways) if ways else ''}",
            )
        if not self.of:
            yield ("inputs",), "write the tables that it is made of, such as [silver_chess_events]"
        if self.aggregate is not None and len(self.inputs) > 1:
            yield ("inputs",), "an aggregate is of one table; write sql for several"
        if self.aggregate is not None and (same := self.aggregate.same_names()):
            yield ("aggregate", "columns"), f"there are several columns called {', '.join(same)}; rename one"
        yield from self._wrong_beside()
        yield from self._wrong_in_stream()
        if self.every_batches is not None and self.every_seconds is not None:
            yield ("every_seconds",), "write every_batches or every_seconds, one of both"
        for place, name in enumerate(self.inputs):
            if not self.an_entity and (TABLE in name or names.ENTITY in name):
                yield (
                    ("inputs", place),
                    f"only a table with {names.ENTITY} in its name is of an entity; write a table",
                )
        if self.an_entity and any(TABLE in one or names.ENTITY in one for one in quoted(self.sql or "")):
            yield (
                ("sql",),
                f"{TABLE} and {names.ENTITY} come with quotes of their own; write them without any",
            )
        if self.an_entity and self.match != "*" and not self.match.strip():
            yield ("match",), "write a name or a pattern"

    def _wrong_in_stream(self) -> Iterator[Wrong]:
        """What a stream is not of."""
        if self.stream is None:
            return
        if len(self.of) != (2 if self.stream.join else 1):
            what = "two tables, the second of which is joined" if self.stream.join else "one table"
            yield ("inputs",), f"this stream is of {what}; others are looked up in as static tables"
        for name in self.stream.lookup.keys() - self.static.keys():
            yield ("stream", "lookup", name), "no static table is called so; write it under static"
        for name in self.static.keys() - self.stream.lookup.keys():
            yield ("static", name), "the stream looks nothing up in it; write it under stream.lookup, too"

    def _wrong_beside(self) -> Iterator[Wrong]:
        """What does not go with tables to look up in, and with where rows go, too."""
        if self.static and self.aggregate is not None:
            why = "an aggregate is of one table; join in a table of its own by sql, and make the aggregate of that"
            yield ("static",), why
        for name in self.static:
            if not re.fullmatch(r"[A-Za-z_]\w*", name):
                yield ("static", name), "write a name of letters, digits and _"
            elif name.lower() in (one.lower() for one in self.inputs):
                yield ("static", name), "an input is called so; choose another name"
        kafka = None if self.sink is None else self.sink.kafka
        if kafka is None:
            return
        if not kafka.keys and self.aggregate is None:
            why = "write the columns that tell its rows apart, such as [day, city]"
            yield ("sink", "kafka", "keys"), why
        if self.an_entity and names.ENTITY not in kafka.topic:
            why = f"the tables of all entities would write into one topic; write {names.ENTITY} in its name"
            yield ("sink", "kafka", "topic"), why

    @cached_property
    def text(self) -> str:
        """All that decides what it has, as text."""
        # What was not there when a table was made must not have it made again.
        later = [name for name in ("static", "stream") if getattr(self, name)]
        told = {"inputs", "aggregate", "sql", "python", *later}
        window = None if self.stream is None else self.stream.window
        new = (
            {"stream": {"window": {"gap_seconds"}}}
            if window is not None and window.gap_seconds is None
            else {}
        )
        return self.model_dump_json(include=told, exclude=new)


def in_order(rules: Sequence[Derived]) -> list[Derived]:
    """The rules, each behind those that it is made of. Raises CycleError."""
    by_name = {rule.table: rule for rule in rules}
    graph = {rule.table: [name for name in rule.of if name in by_name] for rule in rules}
    return [by_name[name] for name in TopologicalSorter(graph).static_order()]


def wrong_derived(
    rules: Sequence[Derived],
    route_table: str,
    others: Collection[str] = (),
    kafka: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[Wrong]:
    """What of them does not go together, or with how the entities' tables are called, `others` of the pipeline, and the options of its source's clients."""
    for place, rule in enumerate(rules):
        sent = None if rule.sink is None else rule.sink.kafka
        if sent is not None and not sent.options(kafka).get("bootstrap.servers", "").strip():
            why = 'the source has no brokers; write kafka: {bootstrap.servers: "127.0.0.1:9092"}'
            yield (place, "sink", "kafka", "kafka"), why
        if rule.table in others:
            yield (place, "table"), "another table of the pipeline has this name; choose another"
        if any(one.table == rule.table for one in rules[:place]):
            yield (place, "table"), "written twice; keep one"
        elif _may_meet(route_table, rule.table):
            why = f"an entity's table could have this name too (route.table is {route_table})"
            yield (place, "table"), f"{why}; choose another, such as gold_{rule.table.removeprefix('gold_')}"
    try:
        in_order(rules)
    except CycleError as error:
        yield (), f"these are made of each other: {' <- '.join(error.args[1])}; take one of them away"
        return
    made = [rule.table for rule in rules]
    for place, rule in enumerate(rules):
        for number, name in enumerate(rule.inputs):
            known = name in {*made, *others, *names.OUR_NAMES} or _may_meet(route_table, name)
            if not known and name != TABLE:
                what = f"no table is called {name}: entities' are called as route.table says ({route_table})"
                yield (place, "inputs", number), f"{what}, derived ones {', '.join(made)}"


def _may_meet(route_table: str, name: str) -> bool:
    """Whether a name, with some entity in it or none, could be that of an entity's table."""
    mine, found, rest = name.partition(names.ENTITY)
    if not found:
        return names.may_be_an_entity(route_table, name)
    prefix, _, suffix = route_table.partition(names.ENTITY)
    heads = mine.startswith(prefix) or prefix.startswith(mine)
    return heads and (rest.endswith(suffix) or suffix.endswith(rest))
