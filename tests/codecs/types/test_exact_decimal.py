"""Decimals with as many digits as a type has, and with one more."""

from __future__ import annotations

from decimal import Decimal

import pytest

from distributary.codecs.types.exact_decimal import exact_decimal


@pytest.mark.parametrize(("precision", "scale"), [(38, 18), (38, 0), (38, 38), (29, 2), (5, 2)])
def test_the_largest_number_of_a_type_has_a_place_in_it(precision: int, scale: int) -> None:
    largest = Decimal((0, (9,) * precision, -scale))
    for one in (largest, largest.copy_negate()):
        assert exact_decimal(one, precision, scale) == one
    beyond = Decimal((0, (1, *(0,) * precision), -scale))
    assert exact_decimal(beyond, precision, scale) is None
    assert exact_decimal(Decimal((0, (1,), -scale - 1)), precision, scale) is None
