"""Which times a column takes: SQL's years 1 to 9999, counted as Avro counts; what lies outside is an error, not clamped."""

from __future__ import annotations

from typing import Final

from distributary.codecs.avro.types.schema import AvroType, Logical

_DAY_ONE, _END = -719_162, 2_932_897

_DAY: Final = 86_400

# The first value and the one after the last.
LIMITS: Final = {
    Logical.DATE: (_DAY_ONE, _END),
    Logical.TIMESTAMP_MILLIS: (_DAY_ONE * _DAY * 1_000, _END * _DAY * 1_000),
    Logical.TIMESTAMP_MICROS: (_DAY_ONE * _DAY * 1_000_000, _END * _DAY * 1_000_000),
    Logical.LOCAL_MILLIS: (_DAY_ONE * _DAY * 1_000, _END * _DAY * 1_000),
    Logical.LOCAL_MICROS: (_DAY_ONE * _DAY * 1_000_000, _END * _DAY * 1_000_000),
}


def limits(avro: AvroType) -> tuple[int, int]:
    """The first value that a date or timestamp may have on the wire, and the one after the last."""
    if avro.logical is None:
        raise TypeError("the type is no time")
    return LIMITS[avro.logical]


def micros_per_unit(avro: AvroType) -> int:
    """How many microseconds one unit of a timestamp on the wire is."""
    return 1_000 if avro.logical in (Logical.TIMESTAMP_MILLIS, Logical.LOCAL_MILLIS) else 1
