"""The curve: no two points in one place, neighbours on it near each other, and values of every type in their order."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.ingest.clustering.curve import BITS, SAMPLE, Curve, hilbert, ranks

TYPES: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.int8(), st.integers(-128, 127)),
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.float64(), st.floats(allow_nan=False)),
    (pa.string(), st.text(max_size=5)),
    (pa.date32(), st.dates()),
    (pa.timestamp("us"), st.datetimes()),
    (pa.timestamp("us", "UTC"), st.datetimes()),
    (pa.decimal128(10, 3), st.decimals(-9999999, 9999999, places=3)),
]


@pytest.mark.parametrize(("sides", "bits"), [(1, 5), (2, 1), (2, 5), (3, 3), (4, 2)])
def test_the_curve_comes_to_each_point_once_and_goes_from_one_to_its_neighbour(sides: int, bits: int) -> None:
    points = np.array(list(product(range(2**bits), repeat=sides)), np.uint32)
    places = hilbert(list(points.T), bits)
    assert sorted(places.tolist()) == list(range(len(points)))
    steps = np.abs(np.diff(points[np.argsort(places)].astype(np.int64), axis=0)).sum(axis=1)
    assert set(steps.tolist()) <= {1}


def test_four_columns_have_room(bits: int = BITS) -> None:
    last = [np.array([2**bits - 1], np.uint32)] * 4
    first = [np.array([0], np.uint32)] * 4
    assert hilbert(first, bits).tolist() == [0]
    assert hilbert(last, bits).tolist()[0] < 2 ** (4 * bits) <= 2**63


@pytest.mark.parametrize(("dtype", "values"), TYPES, ids=str)
@given(data=st.data())
def test_ranks_keep_the_order_of_values_and_nulls_come_first(
    dtype: pa.DataType, values: st.SearchStrategy[Any], data: st.DataObject
) -> None:
    given_ = data.draw(st.lists(st.none() | values, max_size=30))
    array = pa.array(given_, dtype)
    ends = pa.array(sorted(one for one in array.to_pylist() if one is not None), dtype)
    found = ranks(array, ends).tolist()
    told = ends.to_pylist()
    assert found == [0 if one is None else sum(end <= one for end in told) for one in array.to_pylist()]


def test_what_is_no_number_has_a_place_as_well() -> None:
    values = pa.array([float("nan"), None, float("-inf"), 1.0, float("inf")])
    curve = Curve.through([values])
    places = curve.places([values]).tolist()
    assert places[1] == 0
    assert places[2] < places[3] < places[4]


def test_columns_without_a_value_are_all_in_one_place() -> None:
    nothing = pa.nulls(5, pa.string())
    assert Curve.through([nothing, nothing]).places([nothing, nothing]).tolist() == [0] * 5
    assert Curve.through([pa.array([], pa.int32())]).places([pa.array([], pa.int32())]).tolist() == []


def test_stretches_have_as_many_rows_each_however_values_lie() -> None:
    rng = np.random.default_rng(7)
    values = pa.array(np.exp(rng.normal(0, 9, SAMPLE)))
    places = Curve.through([values]).places([values])
    counts = np.bincount(places.astype(np.int64), minlength=2**BITS)
    assert counts.min() > 0
    assert counts.max() <= 2 * SAMPLE // 2**BITS


def test_a_value_that_most_rows_have_takes_no_room_from_the_others() -> None:
    values = pa.array([5] * 900 + list(range(1000, 1100)))
    places = Curve.through([values]).places([values])
    assert len(set(places[:900].tolist())) == 1
    assert len(set(places[900:].tolist())) > 50


def test_boxes_of_rows_that_follow_each_other_are_small_in_every_column() -> None:
    """Of two columns of different types; a sort by the first would leave the second as it is."""
    rng = np.random.default_rng(3)
    count, files = 20_000, 64
    days = rng.integers(0, 3650, count)
    names = rng.integers(0, 10**6, count)
    columns = [
        pa.array([date.fromordinal(700_000 + int(day)) for day in days]),
        pa.array([f"customer-{name:07}" for name in names]),
    ]
    order = np.argsort(Curve.through(columns).places(columns), kind="stable")
    for values, whole in ((days, 3650), (names, 10**6)):
        spans = [part.max() - part.min() for part in np.array_split(values[order], files)]
        # Eight by eight boxes would be an eighth of each side.
        assert np.mean(spans) < whole / 8 * 1.5


def test_values_that_the_sample_did_not_have_are_where_their_neighbours_are() -> None:
    for sample, within in (
        (pa.array([datetime(2020, 1, 1), datetime(2021, 1, 1)]), pa.array([datetime(2020, 6, 1)])),
        (pa.array([Decimal("1.00"), Decimal("9.00")]), pa.array([Decimal("5.00")])),
        (pa.array(["b", "d"]), pa.array(["c"])),
    ):
        curve = Curve.through([sample])
        low, high = curve.places([sample]).tolist()
        assert low <= curve.places([within.cast(sample.type)]).tolist()[0] <= high
