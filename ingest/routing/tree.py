"""A routing expression as workers evaluate it: a small tree of fields, literals and functions of known meaning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from distributary.ingest.routing.functions import (
    FUNCTIONS,
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
    """A value written in the expression."""

    value: str | int | bool | None


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
    return as_text(_value(tree, rows), "the expression")


def truth(tree: Node, rows: pa.RecordBatch) -> pa.BooleanArray:
    """For which rows the expression is true; it is not where it is null. Raises ConfigError as `evaluate` does."""
    return of_kind(_value(tree, rows), Kind.TRUTH, "the condition").fill_null(False)


def _value(node: Node, rows: pa.RecordBatch) -> pa.Array:
    if isinstance(node, Field):
        return _field(node.path, rows)
    if isinstance(node, Literal):
        return pa.repeat(pa.scalar(node.value), rows.num_rows)
    arguments = [_value(argument, rows) for argument in node.arguments]
    return FUNCTIONS[node.function].on(*arguments, *node.options)


def _field(path: tuple[str, ...], rows: pa.RecordBatch) -> pa.Array:
    column = pa.StructArray.from_arrays(rows.columns, fields=list(rows.schema))
    for depth, name in enumerate(path):
        place = _place(name, [field.name for field in column.type], path[: depth + 1])
        if place is None:
            return pa.nulls(rows.num_rows)
        column = pc.struct_field(column, place)
        if depth + 1 < len(path) and not pa.types.is_struct(column.type):
            raise ExpressionRefused(f"{'.'.join(path[: depth + 1])} is no struct, but {column.type}")
    # Numbers of all widths are of one kind; the widest holds them all.
    return column.cast(pa.int64()) if kind_of(column) is Kind.WHOLE else column


def _place(name: str, names: list[str], path: tuple[str, ...]) -> int | None:
    """Which of these is meant: Spark's names do not tell upper from lower case, and one that fits two fails there too."""
    folded = name.lower()
    found = [place for place, one in enumerate(names) if one.lower() == folded]
    if len(found) > 1:
        raise ExpressionRefused(f"{'.'.join(path)} could be any of {', '.join(names[p] for p in found)}")
    return found[0] if found else None
