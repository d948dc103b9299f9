"""Steps carried out on Arrow arrays, whole columns at once.

Null stays null, so that what is under a null struct or list is never looked at: `live` says which places count.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from distributary.codecs import reasons
from distributary.codecs.avro.decode.cursor import refused
from distributary.codecs.avro.decode.exact import ExactDecoder
from distributary.codecs.avro.resolution.steps import (
    NOT_THE_READERS,
    Branches,
    Cast,
    Elements,
    Fields,
    Into,
    Keep,
    Nulls,
    Present,
    Source,
    Step,
    Symbols,
)
from distributary.codecs.avro.types.columns import Column, Shape, only_column
from distributary.codecs.broken_payloads import Undecodable
from distributary.codecs.types.masks import Mask, is_valid
from distributary.codecs.types.walk import around, held, places


def resolved(step: Step, array: pa.Array, live: Mask) -> pa.Array:
    """The array as the reader's column. Raises Undecodable if a single live value cannot be one."""
    return _BY_STEP[type(step)](step, array, live)


def _cast(step: Cast, array: pa.Array, _live: Mask) -> pa.Array:
    text = pa.types.is_string(step.target.type)
    try:
        # Avro lets whole numbers lose digits on their way to a float.
        return array.cast(step.target.type, safe=text or pa.types.is_decimal(array.type))
    except pa.ArrowInvalid:
        raise refused(reasons.INVALID_UTF8 if text else reasons.OUT_OF_RANGE) from None


def _symbols(step: Symbols, array: pa.Array, live: Mask) -> pa.Array:
    known = pa.array(step.column.avro.names, pa.string())
    found = pa.array(step.symbols, pa.string()).take(pc.index_in(array, known))
    _refuse_any(live & ~is_valid(found), step.unknown)
    return found


def _fields(step: Fields, array: pa.Array, live: Mask) -> pa.Array:
    kept = [source for source in step.sources if not source.step.target.is_null]
    for source in step.sources:
        if source.step.target.is_null and source.number is not None:
            resolved(source.step, array.field(source.number), live)
    children = [_field(source, array, live) for source in kept]
    if not children:
        return pa.Array.from_buffers(pa.struct([]), len(array), [None])
    # Not around the array: a record of which nothing takes a byte was read as a boolean.
    return pa.StructArray.from_arrays(children, fields=list(step.target.type), mask=array.is_null())


def _field(source: Source, array: pa.Array, live: Mask) -> pa.Array:
    if source.number is not None:
        return resolved(source.step, array.field(source.number), live)
    if isinstance(source.step, Nulls):
        return pa.nulls(len(array), source.step.target.type)
    return default_value(source.step.target, source.default).take(pa.array(np.zeros(len(array), np.int64)))


@lru_cache(maxsize=1024)
def default_value(column: Column, raw: bytes) -> pa.Array:
    """A field's default, as an array of one."""
    return ExactDecoder(only_column(column)).one(raw).column(0)


def _elements(step: Elements, array: pa.Array, live: Mask) -> pa.Array:
    *keys, values = held(array)
    rows, _ = places(array, np.arange(len(values)))
    return around(array, step.target.type, [*keys, resolved(step.inner, values, live[rows])])


def _branches(step: Branches, array: pa.Array, live: Mask) -> pa.Array:
    parts: list[pa.Array] = []
    place = np.full(len(array), -1, np.int64)
    rows = np.arange(len(array))
    for branch, column, member in zip(
        step.branches, step.column.children, _members(step.column, array), strict=True
    ):
        taken = ~is_valid(array) if column.is_null else is_valid(member)
        if isinstance(branch, str):
            _refuse_any(taken & live, step.refusal(branch))
        elif not column.is_null:
            place[taken] = len(parts) * len(array) + rows[taken]
            parts.append(resolved(branch, member, live & taken))
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return pa.nulls(len(array), step.target.type)
    return pa.concat_arrays(parts).take(pa.array(place, mask=place < 0))


def _members(column: Column, array: pa.Array) -> Sequence[pa.Array]:
    """What each branch is in; null where the value is of another one."""
    if column.shape is not Shape.MEMBERS:
        return [array] * len(column.children)
    # Not by `field`: what stands there where the struct as a whole is null need not be null.
    parts = iter(array.flatten())
    return [array if child.is_null else next(parts) for child in column.children]


def _into(step: Into, array: pa.Array, live: Mask) -> pa.Array:
    one = resolved(step.inner, array, live)
    if not step.member:
        return one.cast(step.target.type, safe=False)
    fields = list(step.target.type)
    children = [one if field.name == step.member else pa.nulls(len(one), field.type) for field in fields]
    return pa.StructArray.from_arrays(children, fields=fields, mask=one.is_null())


def _refuse_any(rows: Mask, detail: str) -> None:
    if rows.any():
        raise Undecodable(NOT_THE_READERS, detail)


_BY_STEP: Mapping[type[Step], Callable[[Any, pa.Array, Mask], pa.Array]] = {
    Keep: lambda _, array, __: array,
    Cast: _cast,
    Symbols: _symbols,
    Fields: _fields,
    Present: lambda _, array, __: pa.array(np.ones(len(array), np.bool_), mask=~is_valid(array)),
    Elements: _elements,
    Nulls: lambda step, array, _: pa.nulls(len(array), step.target.type),
    Branches: _branches,
    Into: _into,
}
