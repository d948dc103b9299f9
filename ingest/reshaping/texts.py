"""Values as texts that say nothing of how they were typed, and what is put in their place: hashes and masks.

A number's text is its digits, whatever type it has: 3 as `int`, 3.0 as `double` and 3.00 as `decimal` are all `3`, so that a wider
column changes no hash.
"""

from __future__ import annotations

import hmac
import math
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from distributary.codecs.types.json_value import encoded, iso_date, iso_time
from distributary.ingest.reshaping.rule import Op, Secret

# As many whatever stood there: how long a value was is a part of it.
STARS = "****"

_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def hashed(secret: Secret, values: pa.Array) -> pa.StringArray:
    """HMAC-SHA256 of each value, as 64 hexadecimal digits; null of null."""

    def one(value: bytes | str) -> str:
        return hmac.digest(secret.value, _bytes(value), "sha256").hex()

    return _of_each(values, one)


def masked(op: Op, values: pa.Array) -> pa.StringArray:
    """A text in place of each value, or its last characters behind stars; null of null. A value that is no longer keeps none."""
    if not op.last:
        return pc.if_else(values.is_valid(), pa.scalar(op.to), pa.scalar(None, pa.string()))

    def one(value: bytes | str) -> str:
        text = encoded(value) if isinstance(value, bytes) else value
        return STARS + (text[-op.last :] if len(text) > op.last else "")

    return _of_each(values, one)


def as_texts(values: pa.Array) -> pa.StringArray:
    """The canonical text of each value; bytes in base64."""
    if kinds.is_string(values.type):
        return values
    return _of_each(values, lambda value: encoded(value) if isinstance(value, bytes) else value)


def _of_each(values: pa.Array, make: Callable[[bytes | str], str]) -> pa.StringArray:
    """A text of each value, made once of those that are alike."""
    found = values if kinds.is_dictionary(values.type) else values.dictionary_encode()
    made = [None if value is None else make(value) for value in canonical(found.dictionary)]
    return pa.array(made, pa.string()).take(found.indices)


def canonical(values: pa.Array) -> list[bytes | str | None]:
    """Values as what is hashed of them: bytes as they are, everything else as text."""
    of = values.type
    if kinds.is_date(of):
        return _of_date(values)
    if kinds.is_timestamp(of):
        return [_time(ticks, of) for ticks in values.view(pa.int64()).to_pylist()]
    if kinds.is_float16(of) or kinds.is_float32(of):
        # By the fewest digits that tell it from others of its type, not by those of a wider one.
        return [_float(value) for value in _floats(values)]
    return [_text(value) for value in values.to_pylist()]


def _bytes(value: bytes | str) -> bytes:
    return value if isinstance(value, bytes) else value.encode("utf-8", "surrogatepass")


def _of_date(values: pa.Array) -> list[bytes | str | None]:
    days = values.cast(pa.date32(), safe=False).view(pa.int32()).to_pylist()
    return [None if day is None else _within(partial(iso_date, day), day) for day in days]


def _time(ticks: int | None, of: pa.TimestampType) -> str | None:
    if ticks is None:
        return None
    per = _PER_SECOND[of.unit]
    seconds, rest = divmod(ticks, per)
    # Of as many digits as it needs, so that the unit says nothing.
    fraction = f"{rest:0{len(str(per)) - 1}d}".rstrip("0") if rest else ""
    return _within(lambda: iso_time(seconds, fraction, zoned=bool(of.tz)), ticks)


def _within(make: Callable[[], str], otherwise: int) -> str:
    try:
        return make()
    except OverflowError:
        return str(otherwise)


def _floats(values: pa.Array) -> list[np.floating[Any] | None]:
    plain = values.fill_null(0).to_numpy(zero_copy_only=False)
    return [
        value if there else None for value, there in zip(plain, values.is_valid().to_pylist(), strict=True)
    ]


def _float(value: Any) -> str | None:
    return None if value is None else _number(float(value), str(value))


def _text(value: Any) -> bytes | str | None:
    if value is None or isinstance(value, bytes | str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _number(value, repr(value))
    if isinstance(value, Decimal):
        return _digits(value)
    return str(value)


def _number(value: float, text: str) -> str:
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return _digits(Decimal(text))


def _digits(value: Decimal) -> str:
    text = f"{value:f}"
    if "." in text:
        text = text.rstrip("0").removesuffix(".")
    return "0" if text == "-0" else text
