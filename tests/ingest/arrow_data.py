"""Random schemas that grow, and values for them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.types as kinds
from hypothesis import strategies as st

from distributary.ingest.columns.layout import source_of

FIELD_NAMES = st.sampled_from(["a", "A", "b", "c", "a b", "kafka_key", "x.y", "d", "e_1"])
LEAVES = [
    pa.bool_(),
    pa.int8(),
    pa.int16(),
    pa.int32(),
    pa.int64(),
    pa.float32(),
    pa.float64(),
    pa.decimal128(12, 2),
    pa.decimal128(20, 0),
    pa.string(),
    pa.binary(),
    pa.date32(),
    pa.timestamp("us"),
    pa.timestamp("us", "UTC"),
]


@st.composite
def structs(draw: st.DrawFn, inside: st.SearchStrategy[pa.DataType]) -> pa.DataType:
    names = draw(st.lists(FIELD_NAMES, min_size=1, max_size=3, unique=True))
    return pa.struct([pa.field(name, draw(inside)) for name in names])


def _nested(inside: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    keys = st.sampled_from([pa.string(), pa.int32(), pa.int64()])
    return st.one_of(
        structs(inside), inside.map(pa.list_), st.tuples(keys, inside).map(lambda both: pa.map_(*both))
    )


TYPES = st.recursive(st.sampled_from(LEAVES), _nested, max_leaves=6)


@st.composite
def schemas(draw: st.DrawFn) -> pa.Schema:
    names = draw(st.lists(FIELD_NAMES, min_size=0, max_size=5, unique=True))
    return pa.schema([pa.field(name, draw(TYPES)) for name in names])


def values(of: pa.DataType) -> st.SearchStrategy[Any]:
    """Values of a type, null among them."""
    return st.none() | some(of)


def some(of: pa.DataType) -> st.SearchStrategy[Any]:
    """Values of a type, never null themselves."""
    if kinds.is_struct(of):
        return st.fixed_dictionaries({field.name: values(field.type) for field in of})
    if kinds.is_list(of):
        return st.lists(values(of.value_type), max_size=3)
    if kinds.is_map(of):
        return st.dictionaries(some(of.key_type), values(of.item_type), max_size=3).map(
            lambda d: list(d.items())
        )
    return _leaf(of)


def _leaf(of: pa.DataType) -> st.SearchStrategy[Any]:  # noqa: PLR0911
    if kinds.is_boolean(of):
        return st.booleans()
    if kinds.is_integer(of):
        greatest = 2 ** (of.bit_width - 1) - 1
        return st.integers(-3, 3) | st.integers(-greatest - 1, greatest)
    if kinds.is_floating(of):
        return st.sampled_from([0.5, -2.0, 3.0]) | st.floats(width=of.bit_width, allow_nan=False)
    if kinds.is_decimal(of):
        whole = st.integers(-(10**of.precision) + 1, 10**of.precision - 1) | st.integers(-300, 300)
        return whole.map(lambda n: Decimal(n).scaleb(-of.scale))
    if kinds.is_timestamp(of):
        moments = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)) | st.just(datetime(2024, 5, 1))
        return moments.map(lambda m: m.replace(tzinfo=timezone.utc)) if of.tz else moments
    if kinds.is_date(of):
        return st.dates(date(1, 1, 2), date(9999, 12, 30))
    return st.text(max_size=5) if kinds.is_string(of) else st.binary(max_size=5)


@st.composite
def batches(draw: st.DrawFn, schema: pa.Schema, max_rows: int = 5) -> pa.RecordBatch:
    """A batch of a schema, possibly a slice of a longer one."""
    count = draw(st.integers(0, max_rows))
    columns = [
        pa.array(draw(st.lists(values(field.type), min_size=count, max_size=count)), field.type)
        for field in schema
    ]
    if not columns:
        return pa.RecordBatch.from_arrays([], schema=schema)
    whole = pa.RecordBatch.from_arrays(columns, schema=schema)
    start = draw(st.integers(0, count))
    return whole.slice(start) if draw(st.booleans()) else whole


def same(one: pa.Schema, other: pa.Schema) -> bool:
    """Whether two schemas are the same, with where their columns came from."""
    return bool(one.equals(other, check_metadata=True))


def columns_within(small: Sequence[pa.Field], big: Sequence[pa.Field]) -> bool:
    """Whether columns are among others, nested ones too, with the same names, origins and leaves."""
    there = {column.name: column for column in big}
    return all(
        column.name in there
        and source_of(column) == source_of(there[column.name])
        and is_within(column.type, there[column.name].type)
        for column in small
    )


def is_within(small: pa.DataType, big: pa.DataType) -> bool:
    """Whether all of a type is in another at the same names, with the same leaves."""
    if kinds.is_struct(small) and kinds.is_struct(big):
        return columns_within(list(small), list(big))
    if kinds.is_list(small) and kinds.is_list(big):
        return is_within(small.value_type, big.value_type)
    if kinds.is_map(small) and kinds.is_map(big):
        return small.key_type == big.key_type and is_within(small.item_type, big.item_type)
    return bool(small == big)
