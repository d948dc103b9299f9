"""Avro values as JSON text: what becomes of records that can contain themselves.

An object, list or value as the column of the same type would hold it; bytes in base64, decimals as text, times in
ISO 8601, numbers that JSON lacks as text.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from distributary.codecs.avro.types.columns import Column, Shape
from distributary.codecs.types.json_value import encoded, iso_date, iso_time, number

_SECOND = 1_000_000


def json_value(column: Column) -> Callable[[Any], Any] | None:
    """What makes of such a column's value one that JSON has; None where it is one already."""
    if column.shape is Shape.TIMESTAMP:
        return _instant if column.type.tz else _local
    if column.shape is Shape.DATE:
        return iso_date
    if column.shape is Shape.DECIMAL:
        return "{:f}".format
    if column.shape is Shape.SCALAR and pa.types.is_binary(column.type):
        return encoded
    return number if column.shape is Shape.SCALAR and pa.types.is_floating(column.type) else None


def _instant(micros: int) -> str:
    return _time(micros, zoned=True)


def _local(micros: int) -> str:
    return _time(micros, zoned=False)


def _time(micros: int, *, zoned: bool) -> str:
    seconds, rest = divmod(micros, _SECOND)
    return iso_time(seconds, f"{rest:06}" if rest else "", zoned=zoned)
