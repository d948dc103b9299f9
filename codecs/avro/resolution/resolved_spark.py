"""A plan of plan.py carried out in Spark's expressions, on what `from_avro` reads by the writer's schema.

Spark's own option `avroSchema` would hand the two schemas to Avro's Java library: by which milliseconds that become microseconds are a
thousand times too small, and enums and fixed are told apart by namespaces. So it is not used, and both decoders agree.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any

from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

from distributary.codecs.avro.resolution.steps import (
    Branches,
    Cast,
    Elements,
    Fields,
    Into,
    Keep,
    Nulls,
    Plan,
    Present,
    Source,
    Step,
    Symbols,
)
from distributary.codecs.avro.spark import (
    Mode,
    element_of,
    members_of,
    raw_struct,
    spark_column,
    spark_type,
    typed,
)
from distributary.codecs.avro.types.columns import WIDER, Column, Shape, only_column
from distributary.codecs.avro.types.schema import Kind
from distributary.errors import DecoderUnavailable


def resolved_column(payload: SparkColumn, name: str, plan: Plan, mode: Mode) -> SparkColumn:
    """The payload as one struct of the reader's columns. Raises DecoderUnavailable."""
    step, view = plan.step, plan.view
    if _has_number_members(view):
        raise DecoderUnavailable(
            f"{name}: from_avro does not tell the branches of a union of int and long (or float and double); decode with the "
            "Arrow engine (engine: arrow)"
        )
    # Never the columns of the writer first, and of those the reader's: Spark would write out the ones in each of the others.
    whole = raw_struct(payload, name, view, mode)
    raw = whole if plan.is_struct else whole["f0"]
    value = _value(step, raw)
    rows = value if plan.is_record else F.struct(value.alias("value"))
    bad = _bad(step, raw)
    if bad is None:
        return F.when(whole.isNotNull(), rows)
    good = F.when(whole.isNotNull() & ~bad, rows)
    if mode == "PERMISSIVE":
        return good
    refused = F.raise_error(
        F.lit("a union's branch, an enum's symbol or a text is not one that the reader's schema has")
    )
    return F.when(whole.isNotNull() & bad, refused.cast(_type(step) if plan.is_record else "void")).otherwise(
        good
    )


def _has_number_members(column: Column) -> bool:
    kinds = frozenset(branch.avro.kind for branch in column.children if not branch.is_null)
    return (column.shape is Shape.MEMBERS and kinds in WIDER) or any(
        map(_has_number_members, column.children)
    )


def _type(step: Step) -> DataType:
    return spark_type(step.target.type)


def _value(step: Step, raw: SparkColumn) -> SparkColumn:
    return _VALUES[type(step)](step, raw).cast(_type(step))


def _symbols(step: Symbols, raw: SparkColumn) -> SparkColumn:
    known = [pair for pair in zip(step.column.avro.names, step.symbols, strict=True) if pair[1] is not None]
    (first, found), *more = known
    chain = F.when(raw == F.lit(first), F.lit(found))
    return reduce(lambda so_far, pair: so_far.when(raw == F.lit(pair[0]), F.lit(pair[1])), more, chain)


def _fields(step: Fields, raw: SparkColumn) -> SparkColumn:
    kept = [source for source in step.sources if not source.step.target.is_null]
    fields = [
        _field(step, source, raw).alias(name) for source, name in zip(kept, step.target.names, strict=True)
    ]
    return F.when(raw.isNotNull(), F.struct(*fields))


def _field(step: Fields, source: Source, raw: SparkColumn) -> SparkColumn:
    if source.number is not None:
        return _value(source.step, raw[f"f{source.number}"])
    if isinstance(source.step, Nulls):
        return _value(source.step, F.lit(None))
    default = F.lit(bytearray(source.default))
    return spark_column(default, "the default", only_column(source.step.target), "FAILFAST")["value"]


def _elements(step: Elements, raw: SparkColumn) -> SparkColumn:
    if step.target.shape is Shape.MAP:
        return F.transform_values(raw, lambda _, one: _value(step.inner, one))
    return F.transform(raw, lambda one: _value(step.inner, element_of(step.inner.column, one)))


def _members(step: Branches, raw: SparkColumn) -> list[tuple[Step | str, SparkColumn]]:
    """Each of the writer's branches that is more than null, and where it is."""
    branches = [
        branch
        for branch, column in zip(step.branches, step.column.children, strict=True)
        if not column.is_null
    ]
    if step.column.shape is not Shape.MEMBERS:
        return [(branch, raw) for branch in branches]
    return list(zip(branches, members_of(step.column, raw), strict=True))


def _branches(step: Branches, raw: SparkColumn) -> SparkColumn:
    values = [_value(branch, one) for branch, one in _members(step, raw) if isinstance(branch, Step)]
    return F.coalesce(*values) if values else F.lit(None)


def _into(step: Into, raw: SparkColumn) -> SparkColumn:
    one = _value(step.inner, raw)
    if not step.member:
        return one
    fields = [
        (one if field.name == step.member else F.lit(None).cast(spark_type(field.type))).alias(field.name)
        for field in step.target.type
    ]
    return F.when(one.isNotNull(), F.struct(*fields))


_VALUES: Mapping[type[Step], Callable[[Any, SparkColumn], SparkColumn]] = {
    Keep: lambda step, raw: typed(step.column, raw),
    Cast: lambda step, raw: typed(step.column, raw),
    Symbols: _symbols,
    Fields: _fields,
    Present: lambda _, raw: F.when(raw.isNotNull(), F.lit(True)),
    Elements: _elements,
    Nulls: lambda _, __: F.lit(None),
    Branches: _branches,
    Into: _into,
}


def _bad(step: Step, raw: SparkColumn) -> SparkColumn | None:
    """Whether a value, which is there, cannot be the reader's; None where any can."""
    found = _BAD.get(type(step))
    return found(step, raw) if found else None


def _bad_text(step: Cast, raw: SparkColumn) -> SparkColumn | None:
    """Bytes that are no text, which Spark's cast takes as they are."""
    from_bytes = step.column.avro.kind is Kind.BYTES and step.target.avro.kind is Kind.STRING
    return _or_false(~F.is_valid_utf8(raw.cast("string"))) if from_bytes else None


def _bad_symbol(step: Symbols, raw: SparkColumn) -> SparkColumn | None:
    unknown = [
        name for name, found in zip(step.column.avro.names, step.symbols, strict=True) if found is None
    ]
    return _or_false(raw.isin(unknown)) if unknown else None


def _bad_field(step: Fields, raw: SparkColumn) -> SparkColumn | None:
    found = (
        _bad(source.step, raw[f"f{source.number}"]) for source in step.sources if source.number is not None
    )
    return _guarded(raw, _any(found))


def _bad_element(step: Elements, raw: SparkColumn) -> SparkColumn | None:
    if _bad(step.inner, F.lit(None)) is None:
        return None
    if step.target.shape is Shape.MAP:
        return _or_false(F.exists(F.map_values(raw), lambda one: _or_false(_bad(step.inner, one))))
    inner, column = step.inner, step.inner.column
    return _or_false(F.exists(raw, lambda one: _or_false(_bad(inner, element_of(column, one)))))


def _bad_branch(step: Branches, raw: SparkColumn) -> SparkColumn | None:
    found: list[SparkColumn | None] = [
        one.isNotNull() if isinstance(branch, str) else _guarded(one, _bad(branch, one))
        for branch, one in _members(step, raw)
    ]
    nulls = zip(step.branches, step.column.children, strict=True)
    if any(column.is_null and isinstance(branch, str) for branch, column in nulls):
        found.append(raw.isNull())
    return _any(found)


def _any(found: Any) -> SparkColumn | None:
    known = [one for one in found if one is not None]
    return reduce(lambda first, second: first | second, known) if known else None


def _guarded(raw: SparkColumn, bad: SparkColumn | None) -> SparkColumn | None:
    """Bad only where there is a value at all."""
    return None if bad is None else raw.isNotNull() & bad


def _or_false(bad: SparkColumn | None) -> SparkColumn:
    return F.lit(False) if bad is None else F.coalesce(bad, F.lit(False))


_BAD: Mapping[type[Step], Callable[[Any, SparkColumn], SparkColumn | None]] = {
    Cast: _bad_text,
    Symbols: _bad_symbol,
    Fields: _bad_field,
    Elements: _bad_element,
    Branches: _bad_branch,
    Into: lambda step, raw: _bad(step.inner, raw),
}
