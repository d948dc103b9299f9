from __future__ import annotations

import datetime as dt
import json
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.codecs.json.codec import JsonCodec
from distributary.codecs.types.spark_struct import struct_json
from distributary.codecs.writing.json_text import objects
from distributary.registry.base import Schema

UTC = dt.timezone.utc

_FIELDS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "flag": (pa.bool_(), st.booleans()),
    "small": (pa.int8(), st.integers(-128, 127)),
    "large": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "short float": (pa.float32(), st.floats(width=32)),
    "float": (pa.float64(), st.one_of(st.floats(), st.integers(-(2**60), 2**60).map(float))),
    'na"me\n': (pa.string(), st.text(st.characters(exclude_categories=["Cs"]), max_size=20)),
    "bytes": (pa.binary(), st.binary(max_size=20)),
    "day": (pa.date32(), st.dates()),
    "time": (pa.timestamp("us", tz="UTC"), st.datetimes(timezones=st.just(UTC))),
    "local": (pa.timestamp("us"), st.datetimes()),
    "decimal": (
        pa.decimal128(20, 6),
        st.decimals(-(10**13), 10**13, places=6, allow_nan=False, allow_infinity=False),
    ),
    "list": (pa.list_(pa.int32()), st.lists(st.one_of(st.none(), st.integers(-9, 9)), max_size=3)),
    "map": (
        pa.map_(pa.string(), pa.string()),
        st.dictionaries(
            st.text(st.characters(exclude_categories=["Cs"]), max_size=3),
            st.text(st.characters(exclude_categories=["Cs"]), max_size=3),
            max_size=3,
        ).map(lambda of: sorted(of.items())),
    ),
    "struct": (
        pa.struct([("a", pa.list_(pa.struct([("b", pa.int64())])))]),
        st.fixed_dictionaries({"a": st.lists(st.fixed_dictionaries({"b": st.integers(0, 5)}), max_size=2)}),
    ),
}

_SCHEMA = pa.schema([(name, of) for name, (of, _) in _FIELDS.items()])

_ROWS = st.lists(
    st.fixed_dictionaries({name: st.one_of(st.none(), values) for name, (_, values) in _FIELDS.items()}),
    min_size=1,
    max_size=5,
)


def plain(value: Any) -> Any:
    """The same with one NaN that is equal to itself, and zeros told apart by their sign."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else (math.copysign(1, value), value)
    if isinstance(value, dict):
        return {name: plain(inner) for name, inner in value.items()}
    return [plain(inner) for inner in value] if isinstance(value, list | tuple) else value


@given(_ROWS, st.integers(0, 2))
def test_the_json_codec_reads_back_what_was_written(rows: list[dict[str, Any]], begin: int) -> None:
    batch = pa.RecordBatch.from_pylist(rows, _SCHEMA).slice(begin)
    texts = objects(batch)
    for text in texts.to_pylist():
        json.loads(text)
    decoded = JsonCodec().reader(Schema(0, "STRUCT", struct_json(_SCHEMA)), ()).decode(texts)
    assert not decoded.failures
    assert decoded.rescued is None or decoded.rescued.null_count == len(decoded.rescued)
    assert plain(decoded.rows.to_pylist()) == plain(batch.to_pylist())


@pytest.mark.parametrize(
    ("values", "text"),
    [
        (pa.array([1], pa.uint64()), "1"),
        (pa.array([1.5], pa.float16()), "1.5"),
        (pa.array([2.0**60], pa.float64()), "1.152921504606847e+18"),
        (pa.array([dt.time(1, 2, 3)], pa.time32("s")), '"01:02:03"'),
        (pa.array([2.0**30], pa.float32()), "1073741800.0"),
        (pa.array([5], pa.duration("ms")), "5"),
        (pa.array([1_500_000_000_123_456_789], pa.timestamp("ns")), '"2017-07-14T02:40:00.123456"'),
        (pa.array([-1], pa.timestamp("ns")), '"1969-12-31T23:59:59.999999"'),
        (pa.array([1 - 2**63], pa.timestamp("ns", tz="UTC")), '"1677-09-21T00:12:43.145224Z"'),
        (pa.array([2**63 - 1], pa.timestamp("us", tz="UTC")), "9223372036854775807"),
        (pa.array([-(2**31)], pa.date32()), "-2147483648"),
        (pa.array([1], pa.timestamp("ms", tz="Europe/Berlin")), '"1970-01-01T00:00:00.001000Z"'),
        (pa.array([2**63 - 1], pa.timestamp("ms", tz="UTC")), "9223372036854775807"),
        (pa.array([-(2**63)], pa.timestamp("s")), "-9223372036854775808"),
        (pa.array([Decimal("1.50")], pa.decimal256(50, 2)), "1.50"),
        (pa.array(["a"]).dictionary_encode(), '"a"'),
        (pa.array([b"abc"], pa.binary(3)), '"YWJj"'),
        (pa.array([[1, 2]], pa.list_(pa.int8(), 2)), "[1,2]"),
        (pa.array([[1, None]], pa.large_list(pa.int8())), "[1,null]"),
        (pa.array([[(1, "a")]], pa.map_(pa.int32(), pa.string())), '{"1":"a"}'),
        (
            pa.array([[(math.nan, 1), (-math.inf, 2), (0.5, 3)]], pa.map_(pa.float64(), pa.int8())),
            '{"NaN":1,"-Infinity":2,"0.5":3}',
        ),
        (pa.array([[(2**63 - 1, 1)]], pa.map_(pa.timestamp("ms"), pa.int8())), '{"9223372036854775807":1}'),
        (pa.array([[(2**31 - 1, 1)]], pa.map_(pa.date32(), pa.int8())), '{"2147483647":1}'),
        (pa.array([{}], pa.struct([])), "{}"),
        (pa.array(["a"], pa.large_string()), '"a"'),
        (pa.array(["\x01\\"], pa.string_view()), '"\\u0001\\u005c"'),
    ],
)
def test_each_type_has_its_text(values: pa.Array, text: str) -> None:
    assert objects(pa.record_batch([values], ["a"])).to_pylist() == [f'{{"a":{text}}}'.encode()]


def test_what_is_null_is_left_out_and_a_row_of_nothing_is_an_object() -> None:
    nothing = pa.record_batch([pa.nulls(2), pa.array([None, 1])], ["a", "b"])
    assert objects(nothing).to_pylist() == [b"{}", b'{"b":1}']
    assert (
        objects(pa.RecordBatch.from_struct_array(pa.array([{}, {}], pa.struct([])))).to_pylist()
        == [b"{}"] * 2
    )


def test_a_text_that_is_no_utf8_costs_no_other_row() -> None:
    broken = pa.array([b"a", b'\xff"'], pa.binary()).view(pa.string())
    assert objects(pa.record_batch([broken], ["a"])).to_pylist() == [b'{"a":"a"}', b'{"a":"\xff\\u0022"}']
