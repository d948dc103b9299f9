"""Avro values as JSON text: what becomes of records that can contain themselves.

An object, list or value as the column of the same type would hold it; bytes in base64, decimals as text, times in
ISO 8601, numbers that JSON lacks as text.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable
from datetime import date, datetime, timedelta
from typing import Any

import pyarrow as pa

from distributary.codecs.avro.types.columns import Column, Shape

_EPOCH = datetime(1970, 1, 1)


def json_text(value: Any) -> str:
    """The JSON text of a value whose parts have gone through `json_value`."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def json_value(column: Column) -> Callable[[Any], Any] | None:
    """What makes of such a column's value one that JSON has; None where it is one already."""
    if column.shape is Shape.TIMESTAMP:
        return _instant if column.type.tz else _local
    if column.shape is Shape.DATE:
        return _day
    if column.shape is Shape.DECIMAL:
        return "{:f}".format
    if column.shape is Shape.SCALAR and pa.types.is_binary(column.type):
        return lambda raw: base64.b64encode(raw).decode()
    return _number if column.shape is Shape.SCALAR and pa.types.is_floating(column.type) else None


def _instant(micros: int) -> str:
    return _local(micros) + "Z"


def _local(micros: int) -> str:
    return (_EPOCH + timedelta(microseconds=micros)).isoformat()


def _day(days: int) -> str:
    return (date(1970, 1, 1) + timedelta(days=days)).isoformat()


def _number(value: float) -> float | str:
    if math.isnan(value):
        return "NaN"
    return value if math.isfinite(value) else "Infinity" if value > 0 else "-Infinity"
