"""The rules for what JSON has no form for."""

from __future__ import annotations

import math

import pytest

from distributary.codecs.types.json_value import compact, encoded, iso_date, iso_time, number


def test_numbers_that_json_lacks_are_texts() -> None:
    found = [number(value) for value in (1.5, -0.0, math.nan, math.inf, -math.inf)]
    assert found == [1.5, 0.0, "NaN", "Infinity", "-Infinity"]


def test_bytes_are_base64_and_texts_keep_their_letters() -> None:
    assert encoded(b"\xff\x00") == "/wA="
    assert compact({"ä": [b"\xff"]}, encoded) == '{"ä":["/w=="]}'


def test_dates_and_times_are_iso_8601() -> None:
    assert [iso_date(days) for days in (-719_162, 0, 2_932_896)] == ["0001-01-01", "1970-01-01", "9999-12-31"]
    assert iso_time(-1, "25", zoned=True) == "1969-12-31T23:59:59.25Z"
    assert iso_time(0, zoned=False) == "1970-01-01T00:00:00"
    with pytest.raises(OverflowError):
        iso_date(2_932_897)
    with pytest.raises(OverflowError):
        iso_time(-62_135_596_801, zoned=True)
