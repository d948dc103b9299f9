"""Rows of one version in the columns of another: nothing is ever changed, only left null or refused."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from distributary.codecs.types.row_shape import fit, fits, union

POINT = pa.struct([("x", pa.int32())])
WIDE_POINT = pa.struct([("x", pa.int64()), ("y", pa.string())])


def batch(**columns: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)


@pytest.mark.parametrize(
    ("source", "target", "values", "wanted"),
    [
        (pa.int32(), pa.int64(), [1, None, -(2**31)], [1, None, -(2**31)]),
        (pa.int32(), pa.float64(), [2**31 - 1], [float(2**31 - 1)]),
        (pa.int64(), pa.decimal128(20, 0), [-(2**63)], [Decimal(-(2**63))]),
        (pa.float32(), pa.float64(), [1.5], [1.5]),
        (pa.decimal128(4, 2), pa.decimal128(7, 3), [Decimal("-12.34")], [Decimal("-12.340")]),
        (POINT, WIDE_POINT, [{"x": 1}, None], [{"x": 1, "y": None}, None]),
        (WIDE_POINT, pa.struct([("y", pa.string())]), [{"x": 1, "y": "a"}], [{"y": "a"}]),
        (
            pa.list_(POINT),
            pa.list_(WIDE_POINT),
            [[{"x": 1}, None], [], None],
            [[{"x": 1, "y": None}, None], [], None],
        ),
        (
            pa.map_(pa.string(), POINT),
            pa.map_(pa.string(), WIDE_POINT),
            [[("k", {"x": 1})], None, []],
            [[("k", {"x": 1, "y": None})], None, []],
        ),
    ],
)
def test_values_that_fit_are_taken_whole(
    source: pa.DataType, target: pa.DataType, values: list[Any], wanted: list[Any]
) -> None:
    for rows, expected in (
        (batch(v=pa.array(values, source)), wanted),
        (batch(v=pa.array([None, *values, None], source)).slice(1, len(values)), wanted),
    ):
        fitted = fit(rows, pa.schema([("new", pa.string()), ("v", target)]))
        fitted.rows.validate(full=True)
        assert fitted.misfits == ()
        assert fitted.rows["v"].to_pylist() == expected
        assert fitted.rows["new"].to_pylist() == [None] * len(values)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (pa.int64(), pa.int32()),
        (pa.int64(), pa.float64()),
        (pa.int32(), pa.float32()),
        (pa.int64(), pa.decimal128(18, 0)),
        (pa.decimal128(4, 2), pa.decimal128(4, 3)),
        (pa.date32(), pa.timestamp("us")),
        (pa.timestamp("us"), pa.timestamp("us", "UTC")),
        (pa.string(), pa.int32()),
        (pa.int32(), pa.string()),
        (POINT, pa.struct([("x", pa.string())])),
        (pa.list_(pa.int64()), pa.list_(pa.int32())),
    ],
)
def test_types_that_may_lose_a_value_do_not_fit(source: pa.DataType, target: pa.DataType) -> None:
    assert not fits(source, target)


def test_rows_with_a_value_of_another_type_are_named_and_the_others_kept() -> None:
    fitted = fit(batch(v=pa.array(["1", None, "x"])), pa.schema([("v", pa.int32())]))
    assert fitted.misfits == ((0, "v"), (2, "v"))
    assert fitted.rows.to_pylist() == [{"v": None}] * 3


def test_rows_without_columns_keep_their_count() -> None:
    assert fit(batch(v=pa.array([1, 2])), pa.schema([])).rows.num_rows == 2


def test_all_versions_together_have_every_column_in_the_type_that_holds_both() -> None:
    versions = [
        pa.schema([("a", pa.int32()), ("p", POINT), ("gone", pa.string())]),
        pa.schema([("a", pa.int64()), ("p", WIDE_POINT), ("new", pa.list_(POINT))]),
        pa.schema([("a", pa.int32()), ("new", pa.list_(pa.field("element", WIDE_POINT)))]),
    ]
    whole = union(versions)
    assert whole.names == ["a", "p", "gone", "new"]
    assert whole.field("a").type == pa.int64()
    assert whole.field("new").type.value_type == WIDE_POINT
    assert all(fits(field.type, whole.field(field.name).type) for version in versions for field in version)
