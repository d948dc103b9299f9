"""Values as texts, and what stands in their place."""

from __future__ import annotations

import hashlib
import hmac
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples

from distributary.ingest.reshaping.rule import Op, Secret
from distributary.ingest.reshaping.texts import STARS, canonical, hashed, masked

SECRET = Secret(b"0123456789abcdef")


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (pa.array(["é", "", None]), ["é", "", None]),
        (pa.array([b"\xff", None]), [b"\xff", None]),
        (pa.array([3, -3, 2**62, None]), ["3", "-3", "4611686018427387904", None]),
        (pa.array([3.0, -0.0, 0.1, 1e22, 1.5e-7, None]), ["3", "0", "0.1", "1" + "0" * 22, "0.00000015", None]),
        (pa.array([0.1, None, 16777216.0], pa.float32()), ["0.1", None, "16777216"]),
        (pa.array([float("nan"), float("inf"), float("-inf")]), ["NaN", "Infinity", "-Infinity"]),
        (pa.array([Decimal("3.00"), Decimal("-3.10"), Decimal("0.00"), Decimal("100.00")]), ["3", "-3.1", "0", "100"]),
        (pa.array([True, False, None]), ["true", "false", None]),
        (pa.array([0, None, 2**31 - 1], pa.date32()), ["1970-01-01", None, "2147483647"]),
        (pa.array([0, 86_400_000], pa.date64()), ["1970-01-01", "1970-01-02"]),
        (pa.array([1_500_000, 0, -1, None], pa.timestamp("us", "UTC")),
         ["1970-01-01T00:00:01.5Z", "1970-01-01T00:00:00Z", "1969-12-31T23:59:59.999999Z", None]),
        (pa.array([1_500], pa.timestamp("ms")), ["1970-01-01T00:00:01.5"]),
        (pa.array([2**62], pa.timestamp("us")), [str(2**62)]),
    ],
)  # fmt: skip
def test_the_canonical_text(values: pa.Array, expected: list[bytes | str | None]) -> None:
    assert canonical(values) == expected


def test_a_number_has_one_text_whatever_its_type() -> None:
    alike = [
        pa.array([3], of)
        for of in (
            pa.int8(),
            pa.uint64(),
            pa.float32(),
            pa.float64(),
            pa.decimal128(9, 2),
            pa.decimal256(50, 9),
        )
    ]
    assert {canonical(one)[0] for one in alike} == {"3"}
    assert len({hashed(SECRET, one)[0].as_py() for one in (*alike, pa.array(["3"]))}) == 1


@given(st.lists(st.one_of(st.none(), st.text(), st.sampled_from(["a", "b"]))), st.integers(0, 3))
@settings(max_examples=examples(50))
def test_a_hash_is_that_of_the_text_and_null_of_null(values: list[str | None], cut: int) -> None:
    # Half a surrogate pair is no text to Arrow.
    whole = pa.array(
        [None if one is None else one.encode("utf-8", "replace").decode() for one in values], pa.string()
    )
    found = hashed(SECRET, whole.slice(cut))
    assert found.type == pa.string()
    for text, made in zip(whole.slice(cut).to_pylist(), found.to_pylist(), strict=True):
        expected = None if text is None else hmac.new(SECRET.value, text.encode(), hashlib.sha256).hexdigest()
        assert made == expected


def test_another_secret_makes_another_hash() -> None:
    one, other = (hashed(Secret(secret), pa.array(["a"])) for secret in (b"0" * 16, b"1" * 16))
    assert one != other
    assert Secret(b"0" * 16).fingerprint != Secret(b"1" * 16).fingerprint


def test_what_is_in_a_dictionary_is_hashed_by_its_value() -> None:
    plain = pa.array(["a", None, "b", "a"])
    assert hashed(SECRET, plain.dictionary_encode()) == hashed(SECRET, plain)


@pytest.mark.parametrize(
    ("op", "values", "expected"),
    [
        (Op("mask", "hidden"), ["a", None, ""], ["hidden", None, "hidden"]),
        (Op("mask", ""), ["a", None], ["", None]),
        (Op("mask", last=4), ["4111111111111234", "1234", "12345", "", None], [f"{STARS}1234", STARS, f"{STARS}2345", STARS, None]),
        (Op("mask", last=2), [12345, 12, None], [f"{STARS}45", STARS, None]),
        (Op("mask", last=2), [b"abc"], [f"{STARS}Jj"]),
        (Op("mask", last=1), ["日本"], [f"{STARS}本"]),
    ],
)  # fmt: skip
def test_a_mask(op: Op, values: list[object], expected: list[str | None]) -> None:
    assert masked(op, pa.array(values)).to_pylist() == expected
