"""An aggregate's rows: of all rows of its input, or of those before and what was added since."""

from __future__ import annotations

import decimal
from collections.abc import Callable, Sequence
from decimal import Decimal

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.types import DataType, DecimalType

from distributary.ingest.derivation.given import Aggregate
from distributary.ingest.derivation.measures import Measure, State, group_of, measure

# Spark's own: digits that a decimal has at most, and those that an average has more than what it is of.
_DIGITS, _MORE = 38, 4


def expressions(rule: Aggregate) -> tuple[str, ...]:
    """All that may name a column of the input."""
    return (*rule.by, *rule.columns.values(), *(() if rule.where is None else (rule.where,)))


def grouped(rows: DataFrame, rule: Aggregate) -> DataFrame:
    """The groups of rows, with their states."""
    if rule.where is not None:
        rows = rows.where(rule.where)
    keys = [sql.expr(text).alias(name) for name, text in _groups(rule)]
    return rows.groupBy(*keys).agg(*(sql.expr(_first(one, rows)).alias(one.name) for one in _states(rule)))


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


def readable(groups: DataFrame, rule: Aggregate, rows: DataFrame) -> DataFrame:
    """The groups as the table has them: what people read, and behind it the states that are not that themselves; `rows` are such as they are of."""
    measures = _measures(rule)
    keys = [_column(name) for name, _ in _groups(rule)]
    hidden = [_column(one.name) for one in _states(rule) if one.name not in rule.columns]
    return groups.select(*keys, *(_final(one, rows).alias(one.name) for one in measures), *hidden)


def kept(rule: Aggregate) -> tuple[str, ...]:
    """The columns of the table by which it is kept current."""
    return (*(name for name, _ in _groups(rule)), *(one.name for one in _states(rule)))


def _first(state: State, rows: DataFrame) -> str:
    """A state's value over rows."""
    return state.first if state.of is None or _decimal(state.of, rows) is None else state.exact


def _final(one: Measure, rows: DataFrame) -> Column:
    """What people read of a measure. Of decimals an average is one, as Spark's own is."""
    total = one.states[0]
    kind = None if total.of is None else _decimal(total.of, rows)
    if kind is None:
        return sql.expr(one.final)
    precision, scale = min(kind.precision + _MORE, _DIGITS), min(kind.scale + _MORE, _DIGITS)
    divided = sql.udf(_dividing(precision, scale), DecimalType(precision, scale))
    return divided(*(_column(state.name) for state in one.states))


def _decimal(text: str, rows: DataFrame) -> DecimalType | None:
    """The type of an expression, where it is a decimal."""
    kind: DataType = rows.select(sql.expr(text)).schema[0].dataType
    return kind if isinstance(kind, DecimalType) else None


def _dividing(precision: int, scale: int) -> Callable[[Decimal | None, int], Decimal | None]:
    """How Spark makes an average of a sum and a count; its division in SQL has fewer digits where the sum has many."""

    def divided(total: Decimal | None, count: int) -> Decimal | None:
        if total is None or not count:
            return None
        with decimal.localcontext() as context:
            context.prec, context.rounding = 4 * _DIGITS, decimal.ROUND_HALF_UP
            exact = (total / count).quantize(Decimal(1).scaleb(-_DIGITS))
            found = exact.quantize(Decimal(1).scaleb(-scale))
            if abs(found) >= Decimal(10) ** (precision - scale):
                # As Spark's own; which value it is nobody is told.
                raise OverflowError(f"an average takes more than {precision} digits")
            return found

    return divided


def _groups(rule: Aggregate) -> list[tuple[str, str]]:
    return [group_of(text) for text in rule.by]


def _measures(rule: Aggregate) -> list[Measure]:
    return [measure(name, text) for name, text in rule.columns.items()]


def _states(rule: Aggregate) -> Sequence[State]:
    return [state for one in _measures(rule) for state in one.states]


def _column(name: str) -> Column:
    return sql.col(f"`{name}`")
