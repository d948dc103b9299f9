"""An expression as workers evaluate it: a small tree of fields, literals and functions of known meaning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from distributary.ingest.routing.arithmetic import (
    ARITHMETIC,
    WHYS,
    Failed,
    failed_by,
    none_failed,
)
from distributary.ingest.routing.functions import FUNCTIONS
from distributary.ingest.routing.kinds import (
    ExpressionRefused,
    Kind,
    as_text,
    kind_of,
    of_kind,
)


@dataclass(frozen=True, slots=True)
class Field:
    """A column of the payload, or a field within one."""

    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Literal:
    """A value written in the expression.

    kind  its type, where the value alone does not tell: `bigint`, `double`, `date` as days, `timestamp` and `timestamp_ntz` as microseconds
          since 1970, a decimal as text such as `decimal(2,1)`
    """

    value: str | int | float | bool | None
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Call:
    """A function or an operator, by its name in `FUNCTIONS`; `options` are arguments that are written out."""

    function: str
    arguments: tuple[Node, ...]
    options: tuple[str | int, ...] = ()


Node: TypeAlias = Field | Literal | Call


def evaluate(tree: Node, rows: pa.RecordBatch) -> pa.Array:
    """The expression's value for each row, as text; what Spark gives for the same rows.

    A field that these records' type lacks is null. Raises ConfigError where types need what is not done natively.
    """
    return as_text(_value(tree, rows)[0], "the expression")


def truth(tree: Node, rows: pa.RecordBatch) -> pa.BooleanArray:
    """For which rows the expression is true; it is not where it is null. Raises ConfigError as `evaluate` does."""
    return of_kind(_value(tree, rows)[0], Kind.TRUTH, "the condition").fill_null(False)


def truth_of_each(tree: Node, rows: pa.RecordBatch) -> tuple[pa.BooleanArray, Mapping[int, str]]:
    """The same, and by their places the rows for which it has no value, though it has for others, each with the reason; it is not true for them."""
    values, failed = _value(tree, rows)
    found = of_kind(values, Kind.TRUTH, "the condition").fill_null(False)
    if not failed.any():
        return found, {}
    whys = {row: WHYS[failed[row]] for row in np.flatnonzero(failed).tolist()}
    return pc.and_(found, pa.array(failed == 0)), whys


def may_fail(node: Node) -> bool:
    """Whether some rows may have no value though others of the same types have one."""
    if not isinstance(node, Call):
        return False
    return node.function in ARITHMETIC or any(map(may_fail, node.arguments))


def _value(node: Node, rows: pa.RecordBatch) -> tuple[pa.Array, Failed]:
    if isinstance(node, Field):
        return _field(node.path, rows), none_failed(rows.num_rows)
    if isinstance(node, Literal):
        return pa.repeat(_scalar(node), rows.num_rows), none_failed(rows.num_rows)
    if node.function == "between" and any(map(_beyond_bigint, node.arguments[1:])):
        value, low, high = node.arguments
        if not _beyond_bigint(value):
            return _value(Call("and", (Call(">=", (value, low)), Call("<=", (value, high)))), rows)
    found = _unasked(node, [_value(argument, rows) for argument in node.arguments])
    arguments = [values for values, _ in found]
    before = failed_by(node.function, arguments, [failed for _, failed in found])
    if node.function in ARITHMETIC:
        values, failed = ARITHMETIC[node.function](*arguments)
        return values, np.where(before > 0, before, failed)
    return FUNCTIONS[node.function].on(*arguments, *node.options), before


_ORDERED = frozenset({"<", "<=", ">", ">="})


def _unasked(node: Call, found: list[tuple[pa.Array, Failed]]) -> list[tuple[pa.Array, Failed]]:
    """The values of the arguments; any whole number for one that is held against a decimal which no bigint comes to.

    Spark decides by the literal alone then: `null < 9223372036854775808` is true to it, and what would overflow is not worked out.
    """
    beyond = [_beyond_bigint(one) for one in node.arguments] if node.function in _ORDERED else []
    if not any(beyond):
        return found
    return [
        (pa.repeat(pa.scalar(0), len(values)), none_failed(len(values)))
        if not literal and kind_of(values) is Kind.WHOLE
        else (values, failed)
        for literal, (values, failed) in zip(beyond, found, strict=True)
    ]


def _beyond_bigint(node: Node) -> bool:
    """Whether it is a decimal, written out, that is more or less than all of them."""
    if not isinstance(node, Literal) or not node.kind.startswith("decimal("):
        return False
    return not -(2**63) <= Decimal(str(node.value)) <= 2**63 - 1


_ARROW_TYPES: Mapping[str, pa.DataType] = {
    "bigint": pa.int64(),
    "double": pa.float64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}

_LARGE = 2**31


def _scalar(literal: Literal) -> pa.Scalar:
    value, kind = literal.value, literal.kind
    if kind.startswith("decimal("):
        digits, _, scale = kind[len("decimal(") : -1].partition(",")
        return pa.scalar(Decimal(str(value)), pa.decimal128(int(digits), int(scale)))
    if kind:
        return pa.scalar(value, _ARROW_TYPES[kind])
    if isinstance(value, int) and not isinstance(value, bool):
        return pa.scalar(value, pa.int32() if -_LARGE <= value < _LARGE else pa.int64())
    return pa.scalar(value)


def _field(path: tuple[str, ...], rows: pa.RecordBatch) -> pa.Array:
    column = pa.StructArray.from_arrays(rows.columns, fields=list(rows.schema))
    for depth, name in enumerate(path):
        place = _place(name, [field.name for field in column.type], path[: depth + 1])
        if place is None:
            return pa.nulls(rows.num_rows)
        column = pc.struct_field(column, place)
        if depth + 1 < len(path) and not pa.types.is_struct(column.type):
            raise ExpressionRefused(f"{'.'.join(path[: depth + 1])} is no struct, but {column.type}")
    return column


def _place(name: str, names: list[str], path: tuple[str, ...]) -> int | None:
    """Which of these is meant: Spark's names do not tell upper from lower case, and one that fits two fails there too.

    Of two the one is meant that is written so: in JSON anybody can send the other one, and would have every record refused.
    """
    folded = name.lower()
    found = [place for place, one in enumerate(names) if one.lower() == folded]
    if len(found) > 1 and names.count(name) == 1:
        return names.index(name)
    if len(found) > 1:
        raise ExpressionRefused(f"{'.'.join(path)} could be any of {', '.join(names[p] for p in found)}")
    return found[0] if found else None
