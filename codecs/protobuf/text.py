"""Single values of Protobuf: which times it allows, their text in its JSON mapping, and texts that must be UTF-8.

Times (timestamp.proto, duration.proto) are counted in microseconds; what lies outside is an error, not clamped. Seconds and nanoseconds of
either sign and any size are added up, in columns and in JSON text alike.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import numpy as np

from distributary.codecs.protobuf.columns import Shape

SECOND: Final = 1_000_000

# 0001-01-01T00:00:00Z to the last microsecond of 9999, and ten thousand years either way.
LIMITS: Final = {
    Shape.TIMESTAMP: (-62_135_596_800 * SECOND, 253_402_300_800 * SECOND - 1),
    Shape.DURATION: (-315_576_000_000 * SECOND - SECOND + 1, 315_576_000_000 * SECOND + SECOND - 1),
}

_NANOS: Final = 1_000_000_000


class OutOfRange(ValueError):
    """A time that Protobuf does not allow."""


def micros(shape: Shape, seconds: int, nanos: int) -> int:
    """Microseconds since the epoch, or long; nanoseconds are cut off towards zero. Raises OutOfRange."""
    value = seconds * SECOND + int(nanos / 1_000)
    low, high = LIMITS[shape]
    if not low <= value <= high:
        raise OutOfRange
    return value


def timestamp_text(seconds: int, nanos: int) -> str:
    """A Timestamp in RFC 3339, to the nanosecond. Raises OutOfRange."""
    micros(Shape.TIMESTAMP, seconds, nanos)
    whole, rest = divmod(seconds * _NANOS + nanos, _NANOS)
    # Python's own times begin with year 1, from which negative nanoseconds may still lead back.
    return f"{np.datetime64(whole, 's')}{_fraction(rest)}Z"


def duration_text(seconds: int, nanos: int) -> str:
    """A Duration in seconds, to the nanosecond, such as `-1.500s`. Raises OutOfRange."""
    micros(Shape.DURATION, seconds, nanos)
    total = seconds * _NANOS + nanos
    whole, rest = divmod(abs(total), _NANOS)
    return f"{'-' if total < 0 else ''}{whole}{_fraction(rest)}s"


def _fraction(nanos: int) -> str:
    """Three, six or nine digits, or none: what Protobuf's JSON mapping has."""
    if not nanos:
        return ""
    digits = f"{nanos:09}"
    return "." + digits.removesuffix("000").removesuffix("000")


def valid(value: str | bytes) -> str:
    """The value of a string field. Raises UnicodeError for one that is not UTF-8."""
    return value.decode() if isinstance(value, bytes) else value


def sorted_keys(keys: Iterable[Any]) -> list[Any]:
    """A map's keys in order, none of which is ever of type bytes. Raises UnicodeError for a text that is not UTF-8."""
    return sorted(valid(key) if isinstance(key, bytes) else key for key in keys)
