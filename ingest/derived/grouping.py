"""An aggregate's rows: of all rows of its input, or of those before and what was added since."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from distributary.ingest.derivation.given import Aggregate
from distributary.ingest.derivation.measures import Measure, State, group_of, measure


def expressions(rule: Aggregate) -> tuple[str, ...]:
    """All that may name a column of the input."""
    return (*rule.by, *rule.columns.values(), *(() if rule.where is None else (rule.where,)))


def grouped(rows: DataFrame, rule: Aggregate) -> DataFrame:
    """The groups of rows, with their states."""
    if rule.where is not None:
        rows = rows.where(rule.where)
    keys = [sql.expr(text).alias(name) for name, text in _groups(rule)]
    return rows.groupBy(*keys).agg(*(sql.expr(one.first).alias(one.name) for one in _states(rule)))


def joined(before: DataFrame, added: DataFrame, rule: Aggregate) -> DataFrame | None:
    """The groups of the rows that `before` is of and those that `added` is of; None where their columns are of other types."""
    keys, states = [name for name, _ in _groups(rule)], _states(rule)
    names = [*keys, *(one.name for one in states)]
    if not set(names) <= set(before.columns):
        return None
    before = before.select(*map(_column, names))
    types = {field.name: field.dataType for field in before.schema}
    others = {field.name: field.dataType for field in added.schema}
    if {name: one.simpleString() for name, one in types.items()} != {
        name: one.simpleString() for name, one in others.items()
    }:
        return None
    both = before.unionByName(added)
    # What sums of decimals make is wider each time.
    return both.groupBy(*map(_column, keys)).agg(
        *(sql.expr(one.merged).cast(types[one.name]).alias(one.name) for one in states)
    )


def readable(groups: DataFrame, rule: Aggregate) -> DataFrame:
    """The groups as the table has them: what people read, and behind it the states that are not that themselves."""
    measures = _measures(rule)
    keys = [_column(name) for name, _ in _groups(rule)]
    hidden = [_column(one.name) for one in _states(rule) if one.name not in rule.columns]
    return groups.select(*keys, *(sql.expr(one.final).alias(one.name) for one in measures), *hidden)


def kept(rule: Aggregate) -> tuple[str, ...]:
    """The columns of the table by which it is kept current."""
    return (*(name for name, _ in _groups(rule)), *(one.name for one in _states(rule)))


def _groups(rule: Aggregate) -> list[tuple[str, str]]:
    return [group_of(text) for text in rule.by]


def _measures(rule: Aggregate) -> list[Measure]:
    return [measure(name, text) for name, text in rule.columns.items()]


def _states(rule: Aggregate) -> Sequence[State]:
    return [state for one in _measures(rule) for state in one.states]


def _column(name: str) -> Column:
    return sql.col(f"`{name}`")
