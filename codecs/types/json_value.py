"""What stands in JSON for values that it has no form for: the rules that all texts of values keep.

Bytes are base64, dates and times ISO 8601, numbers that JSON lacks (NaN, Infinity) texts. A text is compact, and in its own letters.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

_EPOCH = datetime(1970, 1, 1)


def compact(value: Any, default: Callable[[Any], Any] | None = None) -> str:
    """The text of what JSON has; `default` makes it of what it has not. Raises ValueError for a number that has not been through `number`."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=default)


def number(value: float) -> float | str:
    """A number, or the text that stands for one that JSON lacks."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def encoded(raw: bytes) -> str:
    """Bytes in base64."""
    return base64.b64encode(raw).decode("ascii")


def iso_date(days: int) -> str:
    """The date so many days after 1970-01-01. Raises OverflowError outside of the years 1 to 9999, where ISO 8601 has no plain form."""
    return (_EPOCH + timedelta(days=days)).date().isoformat()


def iso_time(seconds: int, fraction: str = "", *, zoned: bool) -> str:
    """The time so many seconds after 1970 began, with these digits behind its point, in UTC or in no zone. Raises OverflowError as `iso_date`."""
    whole = (_EPOCH + timedelta(seconds=seconds)).isoformat()
    return f"{whole}{'.' if fraction else ''}{fraction}{'Z' if zoned else ''}"
