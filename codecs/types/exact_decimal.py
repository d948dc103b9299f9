"""A decimal number as one of so many digits: exactly, or not at all."""

from __future__ import annotations

from decimal import Context, Decimal, Inexact, InvalidOperation

# More digits than any value of a supported type has; anything longer is an error, never a rounding.
_EXACT = Context(prec=1000, Emax=9999, Emin=-9999, traps=[Inexact, InvalidOperation])


def exact_decimal(value: Decimal, precision: int, scale: int) -> Decimal | None:
    """The same number with so many digits, `scale` of them behind the point; None where it has no place there."""
    try:
        stored = value.quantize(Decimal(1).scaleb(-scale), context=_EXACT)
    except (Inexact, InvalidOperation):
        return None
    # `abs` would round it to 28 digits.
    return stored if stored.copy_abs() < Decimal(10) ** (precision - scale) else None
