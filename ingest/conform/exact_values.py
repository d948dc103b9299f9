"""Values of one type as values of another, exactly or not at all."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from distributary.codecs.types.exact_decimal import exact_decimal
from distributary.codecs.types.fit import integer_range
from distributary.codecs.types.masks import Mask, is_valid

_DAY = 86_400_000_000


def cast_exactly(values: pa.Array, to: pa.DataType) -> pa.Array:
    """Values as another type that can hold every one of them exactly."""
    if kinds.is_integer(values.type) and kinds.is_decimal(to):
        # Arrow asks for room for the widest integer, whatever the values: give it, then take it back.
        values = values.cast(pa.decimal256(to.scale + 20, to.scale))
    return values.cast(to)


def cast_where_exact(values: pa.Array, to: pa.DataType) -> tuple[pa.Array, Mask]:
    """Values as another type, and where one cannot be stored exactly (there the result is null)."""
    if kinds.is_dictionary(values.type):
        values = values.dictionary_decode()
    if kinds.is_temporal(to):
        return _temporal(values, to)
    if kinds.is_decimal(values.type) or kinds.is_decimal(to):
        return _by_decimal(values, to)
    there = is_valid(values)
    numbers = pc.fill_null(values, 0).to_numpy(zero_copy_only=False)
    converted, exact = _numbers(numbers, to)
    exact &= there
    return pa.array(converted, type=to, mask=~exact), there & ~exact


def _numbers(numbers: npt.NDArray[Any], to: pa.DataType) -> tuple[npt.NDArray[Any], Mask]:
    target = np.dtype(to.to_pandas_dtype())
    if kinds.is_integer(to):
        inside = _inside(numbers, *integer_range(to))
        converted = np.where(inside, numbers, np.zeros_like(numbers)).astype(target)
        return converted, inside & (converted.astype(numbers.dtype) == numbers)
    with np.errstate(over="ignore"):
        converted = numbers.astype(target)
    if numbers.dtype.kind == "f":
        back = converted.astype(numbers.dtype)
        return converted, (back == numbers) | np.isnan(numbers)
    info = np.iinfo(numbers.dtype)
    whole = _inside(converted, info.min, info.max)
    back = np.where(whole, converted, np.zeros_like(converted)).astype(numbers.dtype)
    return converted, whole & (back == numbers)


def _inside(numbers: npt.NDArray[Any], least: int, greatest: int) -> Mask:
    """Where numbers lie within bounds; NaN does not."""
    if numbers.dtype.kind == "f":
        # The first number out of bounds is a power of two and so exact in a float; the greatest within may not be.
        wide = numbers.astype(np.float64)
        return (wide >= float(least)) & (wide < float(greatest + 1))
    info = np.iinfo(numbers.dtype)
    low = numbers.dtype.type(max(least, int(info.min)))
    high = numbers.dtype.type(min(greatest, int(info.max)))
    return np.asarray((numbers >= low) & (numbers <= high))


def _temporal(values: pa.Array, to: pa.DataType) -> tuple[pa.Array, Mask]:
    """Dates and timestamps, whose numbers are scaled by whole factors."""
    there = is_valid(values)
    ticks = pc.fill_null(_as_integers(values), 0).to_numpy(zero_copy_only=False)
    per_tick, per_target = _nanoseconds(values.type), _nanoseconds(to)
    if per_tick >= per_target:
        factor = per_tick // per_target
        bound = (2**31 if kinds.is_date32(to) else 2**63) // factor - 1
        exact = (ticks <= bound) & (ticks >= -bound)
        scaled = np.where(exact, ticks, 0) * np.int64(factor)
    else:
        factor = per_target // per_tick
        scaled = ticks // factor
        exact = scaled * factor == ticks
        if kinds.is_date32(to):
            exact &= np.abs(scaled) < 2**31
    exact &= there
    width = np.int32 if kinds.is_date32(to) else np.int64
    stored = np.where(exact, scaled, 0).astype(width)
    return pa.array(stored, mask=~exact).view(to), there & ~exact


def _as_integers(values: pa.Array) -> pa.Array:
    return (
        values.view(pa.int32()).cast(pa.int64()) if kinds.is_date32(values.type) else values.view(pa.int64())
    )


def _nanoseconds(of: pa.DataType) -> int:
    if kinds.is_date32(of):
        return _DAY * 1000
    return {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}[of.unit]


def _by_decimal(values: pa.Array, to: pa.DataType) -> tuple[pa.Array, Mask]:
    """Where decimals meet another type of number: value by value, since Arrow's casts round or refuse whole arrays."""
    given = values.to_pylist()
    stored = [None if value is None else _one_number(Decimal(value), to) for value in given]
    misfit = np.fromiter(
        (one is None and value is not None for one, value in zip(stored, given, strict=True)),
        dtype=np.bool_,
        count=len(given),
    )
    return pa.array(stored, type=to), misfit


def _one_number(value: Decimal, to: pa.DataType) -> Decimal | int | float | None:
    if kinds.is_floating(to):
        return _one_float(value, to)
    if not value.is_finite():
        return None
    if kinds.is_decimal(to):
        return exact_decimal(value, to.precision, to.scale)
    low, high = integer_range(to)
    return int(value) if low <= value <= high and value == int(value) else None


def _one_float(value: Decimal, to: pa.DataType) -> float | None:
    with np.errstate(over="ignore"):
        stored = float(np.dtype(to.to_pandas_dtype()).type(float(value)))
    return stored if value.is_nan() or Decimal(stored) == value else None
