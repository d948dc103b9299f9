"""Arithmetic as Spark does it in its ANSI mode, where what overflows, or is divided by zero, has no value: that record fails, and no other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from distributary.ingest.routing.comparing import less
from distributary.ingest.routing.kinds import Kind, beyond, kind_of, of_kind, of_one_kind, to_type

Failed = npt.NDArray[np.uint8]
"""Per row whether it has no value, and why: 0 where it has one, else a place in `WHYS`."""

WHYS = ("", "a number overflows", "it divides by zero")

_OVERFLOW, _ZERO = 1, 2

_NUMBERS = (Kind.WHOLE, Kind.FRACTION, Kind.DECIMAL, Kind.NULL)

_SURE = 2.0**62


def none_failed(count: int) -> Failed:
    """What is said of so many rows that all have a value."""
    return np.zeros(count, np.uint8)


def _numbers(arrays: Sequence[pa.Array], name: str) -> list[pa.Array] | None:
    """All as one type, which is no decimal: what digits those would have is not done here. None where one is null, and so is what comes of it."""
    kinds = [kind_of(values) for values in arrays]
    for kind, values in zip(kinds, arrays, strict=True):
        if kind not in _NUMBERS:
            raise beyond(f"{name} is given {values.type}")
    if Kind.NULL in kinds:
        return None
    found = of_one_kind(arrays, name)
    if any(kind_of(values) is Kind.DECIMAL for values in found):
        raise beyond(f"{name} is given decimals")
    return found


def _nothing(beside: pa.Array) -> tuple[pa.Array, Failed]:
    return pa.nulls(len(beside)), none_failed(len(beside))


def _valid(*arrays: pa.Array) -> npt.NDArray[np.bool_]:
    found = np.ones(len(arrays[0]), np.bool_)
    for values in arrays:
        found &= values.is_valid().to_numpy(zero_copy_only=False)
    return found


def _plain(values: pa.Array) -> npt.NDArray[np.generic]:
    found: npt.NDArray[np.generic] = values.fill_null(0).to_numpy(zero_copy_only=False)
    return found


def _made(
    found: npt.NDArray[np.generic], dtype: pa.DataType, valid: npt.NDArray[np.bool_], failed: Failed
) -> tuple[pa.Array, Failed]:
    failed = np.where(valid, failed, 0).astype(np.uint8)
    return pa.array(found, dtype, mask=~valid | (failed > 0)), failed


def _sum_or_product(name: str) -> Callable[..., tuple[pa.Array, Failed]]:
    on = {"+": np.add, "-": np.subtract, "*": np.multiply}[name]

    def run(left: pa.Array, right: pa.Array) -> tuple[pa.Array, Failed]:
        both = _numbers([left, right], name)
        if both is None:
            return _nothing(left)
        left, right = both
        valid, a, b = _valid(left, right), _plain(left), _plain(right)
        with np.errstate(all="ignore"):
            if kind_of(left) is Kind.FRACTION:
                return _made(on(a, b), left.type, valid, none_failed(len(a)))
            found, over = _whole(on, a, b, _most(left.type))
        return _made(found, left.type, valid, over.astype(np.uint8) * _OVERFLOW)

    return run


def _most(dtype: pa.DataType) -> int:
    """The greatest whole number of a type; the least one is one further from 0."""
    return int(2 ** (dtype.bit_width - 1) - 1)


def _whole(
    on: np.ufunc, a: npt.NDArray[np.generic], b: npt.NDArray[np.generic], most: int
) -> tuple[npt.NDArray[np.generic], npt.NDArray[np.bool_]]:
    """The result in the type that both have, and where it does not go into that."""
    found = on(a, b)
    # Exact up to there; what is larger is looked at by itself.
    about = np.abs(on(a.astype(np.float64), b.astype(np.float64)))
    over = np.zeros(len(a), np.bool_)
    for row in np.flatnonzero(about >= min(_SURE, float(most))).tolist():
        exact = {"add": int.__add__, "subtract": int.__sub__, "multiply": int.__mul__}[on.__name__](
            int(a[row]), int(b[row])
        )
        over[row] = not -most - 1 <= exact <= most
    return found, over


def _divide(left: pa.Array, right: pa.Array) -> tuple[pa.Array, Failed]:
    """Always as floating point numbers."""
    both = _numbers([left, right], "/")
    if both is None:
        return _nothing(left)
    left, right = (to_type(values, pa.float64()) for values in both)
    valid, a, b = _valid(left, right), _plain(left), _plain(right)
    with np.errstate(all="ignore"):
        found = np.divide(a, b)
    return _made(found, pa.float64(), valid, (b == 0).astype(np.uint8) * _ZERO)


def _remainder(left: pa.Array, right: pa.Array) -> tuple[pa.Array, Failed]:
    """It has the sign of the first."""
    both = _numbers([left, right], "%")
    if both is None:
        return _nothing(left)
    left, right = both
    valid, a, b = _valid(left, right), _plain(left), _plain(right)
    zero = b == 0
    safe = np.where(zero | (b == -1), 1, b) if kind_of(left) is Kind.WHOLE else b
    with np.errstate(all="ignore"):
        found = np.fmod(a, safe.astype(a.dtype))
    return _made(found, left.type, valid, zero.astype(np.uint8) * _ZERO)


def _negative(values: pa.Array) -> tuple[pa.Array, Failed]:
    one = _numbers([values], "-")
    if one is None:
        return _nothing(values)
    (values,) = one
    valid, a = _valid(values), _plain(values)
    with np.errstate(all="ignore"):
        found = np.negative(a)
    over = none_failed(len(a))
    if kind_of(values) is Kind.WHOLE:
        over = (a == -_most(values.type) - 1).astype(np.uint8) * _OVERFLOW
    return _made(found, values.type, valid, over)


ARITHMETIC: Mapping[str, Callable[..., tuple[pa.Array, Failed]]] = {
    **{name: _sum_or_product(name) for name in ("+", "-", "*")},
    "/": _divide,
    "%": _remainder,
    "negative": _negative,
}

# What is not evaluated for a row where something before it decides already fails for none. Of all other functions nothing that may
# fail is an argument.
TAKE_FAILING = frozenset(
    {"=", "<", "<=", ">", ">=", "<=>", "and", "or", "not", "is null", "is not null"}
    | {"case", "coalesce", "between", "isnan", *ARITHMETIC}
)


def failed_by(name: str, values: Sequence[pa.Array], failed: Sequence[Failed]) -> Failed:
    """Which rows fail because an argument does that Spark evaluates for them."""
    if not any(one.any() for one in failed):
        return failed[0]
    return _ORDERS.get(name, _in_turn)(values, failed)


def _true(values: pa.Array) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = (
        of_kind(values, Kind.TRUTH, "a condition").fill_null(False).to_numpy(zero_copy_only=False)
    )
    return found


def _false(values: pa.Array) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = (
        of_kind(values, Kind.TRUTH, "a condition").fill_null(True).to_numpy(zero_copy_only=False)
    )
    return ~found


def _all(values: Sequence[pa.Array], failed: Sequence[Failed]) -> Failed:
    found = failed[0]
    for one in failed[1:]:
        found = np.where(found > 0, found, one)
    return found


def _in_turn(values: Sequence[pa.Array], failed: Sequence[Failed]) -> Failed:
    """Where one is null the next ones do not matter."""
    found, goes_on = failed[0], _valid(values[0])
    for one, its in zip(values[1:], failed[1:], strict=True):
        found = np.where(found > 0, found, np.where(goes_on, its, 0))
        goes_on = goes_on & _valid(one)
    return found


def _divisor_first(values: Sequence[pa.Array], failed: Sequence[Failed]) -> Failed:
    return _in_turn(values[::-1], failed[::-1])


def _until(decided: Callable[[pa.Array], npt.NDArray[np.bool_]]) -> Callable[..., Failed]:
    def run(values: Sequence[pa.Array], failed: Sequence[Failed]) -> Failed:
        found = none_failed(len(values[0]))
        goes_on = np.ones(len(values[0]), np.bool_)
        for one, its in zip(values, failed, strict=True):
            found = np.where(goes_on, its, found)
            goes_on = goes_on & (its == 0) & ~decided(one)
        return found

    return run


def _by_case(values: Sequence[pa.Array], failed: Sequence[Failed]) -> Failed:
    found, goes_on = none_failed(len(values[0])), np.ones(len(values[0]), np.bool_)
    whole = len(values) // 2 * 2
    for place in range(0, whole, 2):
        found = np.where(goes_on, failed[place], found)
        goes_on &= failed[place] == 0
        taken = goes_on & _true(values[place])
        found = np.where(taken, failed[place + 1], found)
        goes_on &= ~taken
    return found if whole == len(values) else np.where(goes_on, failed[whole], found)


def _between(values: Sequence[pa.Array], failed: Sequence[Failed]) -> Failed:
    """What is below the first bound is not held against the second."""
    value, low, _ = values
    found = _in_turn(values[:2], failed[:2])
    goes_on = (found == 0) & _valid(value) & ~_true(less(*of_one_kind([value, low], "between")))
    return np.where(goes_on, failed[2], found)


_ORDERS: Mapping[str, Callable[[Sequence[pa.Array], Sequence[Failed]], Failed]] = {
    "and": _until(_false),
    "or": _until(_true),
    "coalesce": _until(_valid),
    "case": _by_case,
    "between": _between,
    "<=>": _all,
    "/": _divisor_first,
    "%": _divisor_first,
}
