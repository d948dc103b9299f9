"""An aggregate's rows: of all rows of its input, or of those before and what was added since."""

from __future__ import annotations

import decimal
from collections.abc import Callable, Collection, Mapping, Sequence
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


def decimals(rule: Aggregate, rows: DataFrame) -> dict[str, DecimalType]:
    """Of the expressions that are summed up exactly where they are decimals those that are, with their types."""
    texts = [state.of for state in _states(rule) if state.of is not None]
    kinds = zip(texts, rows.select(*map(sql.expr, texts)).schema, strict=True) if texts else ()
    return {text: field.dataType for text, field in kinds if isinstance(field.dataType, DecimalType)}


def grouped(rows: DataFrame, rule: Aggregate, exact: Collection[str]) -> DataFrame:
    """The groups of rows, with their states; of `exact` expressions sums are exact."""
    if rule.where is not None:
        rows = rows.where(rule.where)
    keys = [_named(name, text) for name, text in _groups(rule)]
    firsts = [(one.name, one.exact if one.of in exact else one.first) for one in _states(rule)]
    return rows.groupBy(*keys).agg(*(_named(name, text) for name, text in firsts))


def joined(before: DataFrame, added: DataFrame, rule: Aggregate) -> DataFrame | None:
    """The groups of the rows that `before` is of and those that `added` is of; None where their columns are of other types."""
    keys, states = [name for name, _ in _groups(rule)], _states(rule)
    names = [*keys, *(one.name for one in states)]
    types = {field.name: field.dataType for field in before.schema}
    others = {field.name: field.dataType.simpleString() for field in added.schema}
    if {name: types[name].simpleString() for name in names if name in types} != others:
        return None
    both = before.selectExpr(*map(_quoted, names)).union(added)
    # Each call takes the driver a millisecond, and so many tables are made current at once.
    return both.groupBy(*map(_quoted, keys)).agg(
        *(_named(one.name, _of_type(one.merged, types[one.name])) for one in states)
    )


def readable(groups: DataFrame, rule: Aggregate, exact: Mapping[str, DecimalType]) -> DataFrame:
    """The groups as the table has them: what people read, and behind it the states that are not that themselves; `exact` are the types of decimals."""
    measures = _measures(rule)
    keys = [_column(name) for name, _ in _groups(rule)]
    hidden = [_column(one.name) for one in _states(rule) if one.name not in rule.columns]
    return groups.select(*keys, *(_final(one, exact) for one in measures), *hidden)


def kept(rule: Aggregate) -> tuple[str, ...]:
    """The columns of the table by which it is kept current."""
    return (*(name for name, _ in _groups(rule)), *(one.name for one in _states(rule)))


def _named(name: str, text: str) -> Column:
    # In a line of its own: behind a comment it would be none.
    return sql.expr(f"{text}\n AS {_quoted(name)}")


def _of_type(text: str, kind: DataType) -> str:
    """What sums of decimals make is wider each time."""
    return f"CAST({text} AS {kind.simpleString()})" if isinstance(kind, DecimalType) else text


def _final(one: Measure, exact: Mapping[str, DecimalType]) -> Column:
    """What people read of a measure. Of decimals an average is one, as Spark's own is."""
    kind = exact.get(one.states[0].of or "")
    if kind is None:
        return _named(one.name, one.final)
    precision, scale = min(kind.precision + _MORE, _DIGITS), min(kind.scale + _MORE, _DIGITS)
    divided = sql.udf(_dividing(precision, scale), DecimalType(precision, scale))
    return divided(*(_column(state.name) for state in one.states)).alias(one.name)


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


def _quoted(name: str) -> str:
    return f"`{name}`"


def _column(name: str) -> Column:
    return sql.col(_quoted(name))
