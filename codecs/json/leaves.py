"""Which JSON values fit a column of a type without children: those of Spark's `from_json`, less what it would alter.

A value fits when the column holds all of it. Anything else is MISFIT, and its text goes to the rescued data.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import pyarrow as pa
import pyarrow.types as kinds

from distributary.codecs.json.text import Number, Whole, is_unicode

MISFIT: Final = object()

# Takes what `value_at` gives (never null) and the value's own text; gives what Arrow stores, or MISFIT.
Leaf = Callable[[Any, str], Any]

# Whole numbers up to here are exact in a float of that many bits.
EXACT_IN_FLOAT = {32: 2**24, 64: 2**53}

DATE = r"\d{4}-\d\d-\d\d"

CLOCK = r"\d\d:\d\d:\d\d"

ZONE = r"Z|[+-]\d\d:\d\d"

_LOCAL = re.compile(rf"({DATE})[T ]({CLOCK})(?:\.(\d{{1,6}}))?", re.ASCII)

_ZONED = re.compile(rf"({DATE})[T ]({CLOCK})(?:\.(\d{{1,6}}))?({ZONE})?", re.ASCII)

_DATE = re.compile(DATE, re.ASCII)

# Java's BigDecimal takes these, and so does Arrow.
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)

_EPOCH = datetime(1970, 1, 1)

_FIRST, _LAST = datetime.min - _EPOCH, datetime.max - _EPOCH

_MICROSECOND = timedelta(microseconds=1)

# Spark's own limit; no place on Earth is further off.
_FURTHEST = timedelta(hours=18)

_NOT_NUMBERS = {
    "NaN": math.nan,
    "Infinity": math.inf,
    "+Infinity": math.inf,
    "+INF": math.inf,
    "-Infinity": -math.inf,
    "-INF": -math.inf,
}


def leaf(of: pa.DataType) -> Leaf | None:
    """What fits a column of this type; None for types that no column has."""
    if kinds.is_signed_integer(of):
        return _integer(2 ** (of.bit_width - 1))
    if kinds.is_decimal128(of):
        return _decimal(of.precision, of.scale)
    if kinds.is_timestamp(of) and of.unit == "us" and of.tz in (None, "UTC"):
        return _timestamp(_ZONED if of.tz else _LOCAL)
    return _PLAIN.get(of)


def _integer(limit: int) -> Leaf:
    def take(value: Any, _: str) -> Any:
        # Longer ones are out of range, and `int` refuses those of thousands of digits.
        if type(value) is not Whole or len(value) > 20:
            return MISFIT
        number = int(value)
        return number if -limit <= number < limit else MISFIT

    return take


def _double(value: Any, _: str) -> Any:
    return _floating(value, float, EXACT_IN_FLOAT[64])


def _float(value: Any, _: str) -> Any:
    return _floating(value, _nearest_float, EXACT_IN_FLOAT[32])


def _floating(value: Any, nearest: Callable[[str], float], exact: int) -> Any:
    if type(value) is str:
        return _NOT_NUMBERS.get(value, MISFIT)
    if not isinstance(value, Number):
        return MISFIT
    number = nearest(value)
    if math.isinf(number):
        return MISFIT
    if type(value) is Whole and abs(number) >= exact and int(value) != number:
        return MISFIT
    return number


def _nearest_float(text: str) -> float:
    # Rounded once, by the parser that the native decoder has; by way of a double it would be rounded twice.
    try:
        return float(pa.scalar(str(text)).cast(pa.float32()).as_py())
    except pa.ArrowInvalid:
        return math.inf


def _boolean(value: Any, _: str) -> Any:
    return value if value is True or value is False else MISFIT


def _string(value: Any, text: str) -> Any:
    if type(value) is str:
        return value if is_unicode(value) else MISFIT
    return text


def _binary(value: Any, _: str) -> Any:
    if type(value) is not str or not value.isascii():
        return MISFIT
    try:
        found = base64.b64decode(value, validate=True)
    except binascii.Error:
        return MISFIT
    # Base64 can spell the same bytes in several ways; only the plain one gives the text back.
    return found if base64.b64encode(found).decode() == value else MISFIT


def _decimal(precision: int, scale: int) -> Leaf:
    def take(value: Any, _: str) -> Any:
        if not (isinstance(value, Number) or (type(value) is str and _NUMBER.fullmatch(value))):
            return MISFIT
        try:
            number = Decimal(str(value))
        except InvalidOperation:  # an exponent beyond all bounds
            return MISFIT
        sign, digits, exponent = number.as_tuple()
        if not isinstance(exponent, int) or not number:
            return Decimal(0) if not number else MISFIT
        kept = "".join(map(str, digits)).rstrip("0")
        exponent += len(digits) - len(kept)
        if exponent < -scale or len(kept) + exponent > precision - scale:
            return MISFIT
        return Decimal((sign, tuple(map(int, kept)), exponent))

    return take


def _date(value: Any, _: str) -> Any:
    if type(value) is not str or not _DATE.fullmatch(value):
        return MISFIT
    try:
        return date.fromisoformat(value)
    except ValueError:
        return MISFIT


def _timestamp(pattern: re.Pattern[str]) -> Leaf:
    def take(value: Any, _: str) -> Any:
        found = pattern.fullmatch(value) if type(value) is str else None
        if found is None:
            return MISFIT
        day, clock, fraction, *zone = found.groups()
        try:
            whole = datetime.fromisoformat(f"{day}T{clock}")
            offset = _offset(zone[0]) if zone and zone[0] else timedelta()
        except ValueError:
            return MISFIT
        since = whole - _EPOCH + timedelta(microseconds=int((fraction or "").ljust(6, "0"))) - offset
        return since // _MICROSECOND if _FIRST <= since <= _LAST else MISFIT

    return take


def _offset(zone: str) -> timedelta:
    if zone == "Z":
        return timedelta()
    hours, minutes = int(zone[1:3]), int(zone[4:6])
    offset = timedelta(hours=hours, minutes=minutes)
    if minutes > 59 or offset > _FURTHEST:
        raise ValueError("no zone")
    return -offset if zone[0] == "-" else offset


_PLAIN: dict[pa.DataType, Leaf] = {
    pa.bool_(): _boolean,
    pa.float64(): _double,
    pa.float32(): _float,
    pa.string(): _string,
    pa.binary(): _binary,
    pa.date32(): _date,
}
