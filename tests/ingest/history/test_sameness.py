"""Rows are the same where who reads them sees the same."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.ingest.history.sameness import same

LEAVES: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.int64(), st.integers(0, 2)),
    (pa.string(), st.sampled_from(["", "a", "b"])),
    (pa.float64(), st.sampled_from([0.0, -0.0, 1.5, math.nan])),
    (pa.bool_(), st.booleans()),
    (pa.binary(), st.sampled_from([b"", b"\0"])),
    (pa.null(), st.none()),
]


def nested(inner: tuple[pa.DataType, st.SearchStrategy[Any]]) -> st.SearchStrategy[Any]:
    dtype, values = inner
    held = st.none() | values
    return st.sampled_from(
        [
            (pa.list_(dtype), st.lists(held, max_size=2)),
            (
                pa.struct([("x", dtype), ("y", pa.int64())]),
                st.fixed_dictionaries({"x": held, "y": st.integers(0, 1)}),
            ),
            (pa.map_(pa.string(), dtype), st.lists(st.tuples(st.sampled_from("ab"), held), max_size=2)),
        ]
    )


TYPES = st.recursive(st.sampled_from(LEAVES), lambda inner: inner.flatmap(nested), max_leaves=3)


def seen(value: Any) -> str:
    """A value as it reads: both zeros are the same number."""
    return repr(value).replace("-0.0", "0.0")


@given(data=st.data())
def test_values_of_any_type(data: st.DataObject) -> None:
    dtype, values = data.draw(TYPES)
    rows = data.draw(st.lists(st.tuples(st.none() | values, st.none() | values), max_size=12))
    left, right = (pa.array([row[at] for row in rows], dtype) for at in (0, 1))
    expected = [
        seen(one) == seen(other) for one, other in zip(left.to_pylist(), right.to_pylist(), strict=True)
    ]
    assert same(left, right).tolist() == expected
    # A part of a longer column begins elsewhere.
    assert same(left[1:], right[1:]).tolist() == expected[1:]


@pytest.mark.parametrize("dtype", [pa.list_(pa.int64()), pa.struct([("x", pa.int64())]), pa.int64()])
def test_no_rows_at_all(dtype: pa.DataType) -> None:
    assert same(pa.array([], dtype), pa.array([], dtype)).tolist() == []
