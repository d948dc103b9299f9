"""Values as Spark hands them to Python, taken apart for those who write them."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Mapping
from datetime import date, datetime, time, timezone
from decimal import Decimal
from typing import Any

from distributary.codecs.types.exact_decimal import exact_decimal

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_FIRST_DAY = date(1970, 1, 1)


class Misfit(ValueError):
    """A value that a schema has no place for; says where, and never the value."""


def fields_of(value: Any, where: str) -> Mapping[str, Any]:
    """A struct's fields by their names. Raises Misfit."""
    if isinstance(value, Mapping):
        return value
    names = getattr(value, "__fields__", None)
    if names is None:
        raise Misfit(f"{where or 'the value'} is to be a struct")
    return dict(zip(names, value, strict=True))


def require_known(fields: Mapping[str, Any], known: Iterable[str], where: str) -> None:
    """Raises Misfit for fields that the schema lacks: they would be lost."""
    if strange := sorted(set(fields) - set(known)):
        raise Misfit(f"the schema has no field {below(where, strange[0])}")


def whole_of(value: Any, bits: int, where: str, *, signed: bool = True) -> int:
    """A whole number that goes into so many bits. Raises Misfit for all else: a fraction would be cut off, and a longer one as well."""
    least, end = (-(2 ** (bits - 1)), 2 ** (bits - 1)) if signed else (0, 2**bits)
    if not isinstance(value, int | Decimal) or not least <= value < end or value != int(value):
        raise Misfit(f"{where or 'the value'} is no whole number of {bits} bits")
    return int(value)


def float_of(value: Any, where: str, *, single: bool) -> float:
    """A number as the floating-point one next to it. Raises Misfit for what is none, and where there is no finite one or it is another whole number."""
    if not isinstance(value, int | float | Decimal):
        raise Misfit(f"{where or 'the value'} is no number")
    found = float(value)
    if single and math.isfinite(found):
        try:
            found = struct.unpack("<f", struct.pack("<f", found))[0]
        except OverflowError:
            found = math.inf
    if (math.isinf(found) and math.isfinite(value)) or (isinstance(value, int) and found != value):
        raise Misfit(f"{where or 'the value'} is no floating-point number of {32 if single else 64} bits")
    return found


def decimal_of(value: Decimal, precision: int, scale: int, where: str) -> Decimal:
    """A number with so many digits. Raises Misfit where it has more of them."""
    exact = exact_decimal(value, precision, scale)
    if exact is None:
        raise Misfit(f"{where or 'the value'} is no decimal({precision},{scale})")
    return exact


def truth_of(value: Any, where: str) -> bool:
    """A boolean, or 0 or 1. Raises Misfit for all else, such as a text, which is true whatever it says."""
    if not isinstance(value, int) or value not in (0, 1):
        raise Misfit(f"{where or 'the value'} is no boolean")
    return bool(value)


def below(where: str, name: str) -> str:
    """The place of a field within another one."""
    return f"{where}.{name}" if where else name


def micros_of(moment: Any) -> int:
    """Microseconds since 1970 of an instant; one without a time zone is local, as Spark hands instants to Python."""
    if moment.tzinfo is None:
        moment = moment.astimezone(timezone.utc)
    return _micros(moment - _EPOCH)


def local_micros_of(moment: Any) -> int:
    """Microseconds since 1970 of a local time."""
    return _micros(moment.replace(tzinfo=None) - _EPOCH.replace(tzinfo=None))


def micros_of_day(moment: time) -> int:
    """Microseconds since midnight of a time of day, as Spark has them since 4.1."""
    return local_micros_of(datetime.combine(_FIRST_DAY, moment))


def days_of(day: Any) -> int:
    """Days since 1970."""
    return int((day - _FIRST_DAY).days)


def _micros(since: Any) -> int:
    return int((since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds)
