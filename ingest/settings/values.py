"""Sizes and durations as people write them: "192 MiB", "10 s"."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema

_BYTES = {
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
}
_SECONDS = {"ms": 0.001, "s": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0}
_QUANTITY = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]+)\s*")


def bytes_of(value: Any) -> Any:
    """`"192 MiB"` as a number of bytes; anything that is not a text with a unit is left as it is."""
    found = _with_unit(value)
    if found is None:
        return value
    number, unit = found
    if unit not in _BYTES:
        raise ValueError(f"no size has the unit {unit!r}; write a number of bytes, or for example 192 MiB")
    return round(number * _BYTES[unit])


def seconds_of(value: Any) -> Any:
    """`"10 s"` as a number of seconds; anything that is not a text with a unit is left as it is."""
    found = _with_unit(value)
    if found is None:
        return value
    number, unit = found
    if unit not in _SECONDS:
        raise ValueError(f"no duration has the unit {unit!r}; write a number of seconds, or for example 10 s")
    return number * _SECONDS[unit]


def _with_unit(value: Any) -> tuple[float, str] | None:
    match = _QUANTITY.fullmatch(value) if isinstance(value, str) else None
    return (float(match[1]), match[2].lower()) if match else None


def _or_text(kind: str, example: str, **bounds: int) -> WithJsonSchema:
    return WithJsonSchema({"anyOf": [{"type": kind, **bounds}, {"type": "string", "examples": [example]}]})


Bytes = Annotated[int, Field(ge=1), BeforeValidator(bytes_of), _or_text("integer", "192 MiB", minimum=1)]
Seconds = Annotated[
    float,
    Field(ge=0, allow_inf_nan=False),
    BeforeValidator(seconds_of),
    _or_text("number", "10 s", minimum=0),
]
PositiveSeconds = Annotated[
    float,
    Field(gt=0, allow_inf_nan=False),
    BeforeValidator(seconds_of),
    _or_text("number", "10 s", exclusiveMinimum=0),
]
