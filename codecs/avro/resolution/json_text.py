"""Steps carried out on values within JSON text: what records that contain themselves become."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

from distributary.codecs import reasons
from distributary.codecs.avro.decode.cursor import refused
from distributary.codecs.avro.decode.exact import value_in_json
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
    Step,
    Symbols,
)
from distributary.codecs.avro.types.columns import Shape
from distributary.codecs.avro.types.schema import Kind, Logical
from distributary.codecs.broken_payloads import Undecodable
from distributary.codecs.types.json_value import encoded

Convert: TypeAlias = Callable[[Any], Any]


def json_resolved(step: Step) -> Convert:
    """What makes of a value read as the step's column, within JSON, the reader's; it raises Undecodable where it cannot be."""
    return _BY_STEP[type(step)](step)


def _keep(_step: Step) -> Convert:
    return lambda value: value


def _cast(step: Cast) -> Convert:
    writer, reader = step.column.avro, step.target.avro
    if writer.logical is Logical.DECIMAL:
        return lambda text: _scaled(text, reader.scale)
    if reader.kind is Kind.BYTES:
        return lambda text: encoded(text.encode())
    if reader.kind is Kind.STRING:
        return _text
    if reader.kind is Kind.FLOAT:
        # Rounded once, as in a column; by way of a double it would be rounded twice.
        return lambda value: float(np.int64(value).astype(np.float32))
    return float if reader.kind is Kind.DOUBLE and writer.kind is not Kind.FLOAT else lambda value: value


def _scaled(text: str, scale: int) -> str:
    whole, _, part = text.partition(".")
    return f"{whole}.{part.ljust(scale, '0')}" if scale else whole


def _text(encoded: str) -> str:
    try:
        return base64.b64decode(encoded).decode()
    except UnicodeDecodeError:
        raise refused(reasons.INVALID_UTF8) from None


def _symbols(step: Symbols) -> Convert:
    found = dict(zip(step.column.avro.names, step.symbols, strict=True))

    def convert(symbol: str) -> str:
        known = found[symbol]
        if known is None:
            raise Undecodable(NOT_THE_READERS, step.unknown)
        return known

    return convert


def _fields(step: Fields) -> Convert:
    names = iter(step.target.names)
    parts: list[tuple[str, str | None, Convert, Any]] = []
    for source in step.sources:
        name = "" if source.step.target.is_null else next(names)
        if source.number is not None:
            written = step.column.names[source.number]
            parts.append((name, written, json_resolved(source.step), None))
        elif name:
            nothing = isinstance(source.step, Nulls)
            constant = None if nothing else value_in_json(source.step.target, source.default)
            parts.append((name, None, _keep(step), constant))

    def convert(record: Any) -> dict[str, Any]:
        made = {
            name: to(constant if written is None else record[written])
            for name, written, to, constant in parts
        }
        made.pop("", None)
        return made

    return convert


def _elements(step: Elements) -> Convert:
    one = json_resolved(step.inner)
    if step.target.shape is Shape.MAP:
        return lambda entries: {key: one(value) for key, value in entries.items()}
    return lambda values: [one(value) for value in values]


def _branches(step: Branches) -> Convert:
    names = step.column.names or ("",) * len(step.branches)
    made = [
        _refusing(step.refusal(branch)) if isinstance(branch, str) else json_resolved(branch)
        for branch in step.branches
    ]
    columns = zip(made, step.column.children, strict=True)
    null = next((one for one, column in columns if column.is_null), None)
    others = {
        name: one
        for name, one, column in zip(names, made, step.column.children, strict=True)
        if not column.is_null
    }

    def convert(value: Any) -> Any:
        if value is None:
            return None if null is None else null(None)
        if "" in others:
            return others[""](value)
        ((member, inner),) = value.items()
        return others[member](inner)

    return convert


def _refusing(why: str) -> Convert:
    def convert(_value: Any) -> Any:
        raise Undecodable(NOT_THE_READERS, why)

    return convert


def _into(step: Into) -> Convert:
    one = json_resolved(step.inner)
    return (lambda value: {step.member: one(value)}) if step.member else one


_BY_STEP: Mapping[type[Step], Callable[[Any], Convert]] = {
    Keep: _keep,
    Cast: _cast,
    Symbols: _symbols,
    Fields: _fields,
    Present: lambda _: lambda _: True,
    Elements: _elements,
    Nulls: lambda _: lambda _: None,
    Branches: _branches,
    Into: _into,
}
