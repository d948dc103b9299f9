"""What is written is read again: values of any type, by the schema that the type makes and our own decoders."""

from __future__ import annotations

import json
import math
from datetime import date, datetime, time, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import types as T

from distributary.codecs.base import load_codec
from distributary.codecs.writing import avro, protobuf
from distributary.codecs.writing.column import type_name
from distributary.codecs.writing.values import Misfit
from distributary.errors import BadSchema
from distributary.registry.base import Schema

_MOMENTS = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(timezone.utc))
_TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
_FLOATS = st.floats(width=32)

_SHARED: list[tuple[T.DataType, st.SearchStrategy[Any]]] = [
    (T.BooleanType(), st.booleans()),
    (T.IntegerType(), st.integers(-(2**31), 2**31 - 1)),
    (T.ShortType(), st.integers(-(2**15), 2**15 - 1)),
    (T.LongType(), st.integers(-(2**63), 2**63 - 1)),
    (T.FloatType(), _FLOATS),
    (T.DoubleType(), st.floats()),
    (T.StringType(), _TEXTS),
    (T.BinaryType(), st.binary()),
    (T.TimestampType(), _MOMENTS),
]

_OF_AVRO: list[tuple[T.DataType, st.SearchStrategy[Any]]] = [
    *_SHARED,
    (T.DateType(), st.dates(date(1, 1, 2))),
    (T.TimestampNTZType(), st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30))),
    (T.DecimalType(12, 3), st.decimals(-(10**8), 10**8, places=3)),
]

_NAMES = st.sampled_from(["a", "b", "camelCase", "snake_case", "x1", "Of_a", "message"])


def _structs(draw: Any, fields: list[tuple[T.DataType, st.SearchStrategy[Any]]]) -> tuple[Any, Any]:
    names = draw(st.lists(_NAMES, min_size=1, max_size=len(fields), unique_by=str.lower))
    kind = T.StructType([T.StructField(name, one[0]) for name, one in zip(names, fields, strict=False)])
    values = st.fixed_dictionaries({name: one[1] for name, one in zip(names, fields, strict=False)})
    return kind, values


@st.composite
def kinds(
    draw: st.DrawFn, plain: list[tuple[T.DataType, st.SearchStrategy[Any]]], *, nulls: bool, depth: int = 2
) -> tuple[T.DataType, st.SearchStrategy[Any]]:
    """A type with its values; with `nulls` within arrays and maps too, and as the whole of them."""
    what = draw(st.sampled_from(["plain", "array", "map", "struct"] if depth else ["plain"]))
    if what == "plain":
        found: tuple[T.DataType, st.SearchStrategy[Any]] = draw(st.sampled_from(plain))
        return found
    if what == "struct":
        fields = draw(st.lists(kinds(plain, nulls=nulls, depth=depth - 1), min_size=1, max_size=3))
        both: tuple[T.DataType, st.SearchStrategy[Any]] = _structs(
            draw, [_field(one, nulls=nulls) for one in fields]
        )
        return both
    one = draw(
        kinds(plain, nulls=nulls, depth=0) if not nulls else kinds(plain, nulls=nulls, depth=depth - 1)
    )
    inner = st.none() | one[1] if nulls else one[1]
    if what == "array":
        return T.ArrayType(one[0]), st.lists(inner, max_size=4)
    return T.MapType(T.StringType(), one[0]), st.dictionaries(_TEXTS, inner, max_size=4)


def _field(one: tuple[Any, Any], *, nulls: bool) -> tuple[Any, Any]:
    """A field may be null, but for what Protobuf has no null for."""
    many = isinstance(one[0], T.ArrayType | T.MapType)
    return one if many and not nulls else (one[0], st.none() | one[1])


@st.composite
def records(
    draw: st.DrawFn, plain: list[tuple[T.DataType, st.SearchStrategy[Any]]], *, nulls: bool
) -> tuple[T.StructType, list[dict[str, Any]]]:
    fields = draw(st.lists(kinds(plain, nulls=nulls), min_size=1, max_size=4))
    kind, values = _structs(draw, [_field(one, nulls=nulls) for one in fields])
    return kind, draw(st.lists(values, min_size=1, max_size=3))


def read_again(codec: str, schema: Schema, payloads: list[bytes]) -> list[dict[str, Any]]:
    loaded = load_codec(codec)
    decoded = loaded.reader(schema, loaded.default_path).decode(pa.array(payloads, pa.binary()))
    assert not decoded.failures
    rows: list[dict[str, Any]] = decoded.rows.to_pylist(maps_as_pydicts="strict")
    return rows


def same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return (math.isnan(one) and math.isnan(other)) or one == other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


@given(records(_OF_AVRO, nulls=True))
def test_rows_of_any_type_are_the_same_through_avro(made: tuple[T.StructType, list[dict[str, Any]]]) -> None:
    kind, rows = made
    schema = Schema(7, "AVRO", avro.schema_text(kind, "Row"))
    encode = avro.encoder(schema)
    assert same(read_again("avro", schema, [encode(row) for row in rows]), rows)


@given(records(_SHARED, nulls=False))
def test_rows_of_any_type_are_the_same_through_protobuf(
    made: tuple[T.StructType, list[dict[str, Any]]],
) -> None:
    kind, rows = made
    schema = Schema(7, "PROTOBUF", protobuf.schema_text(kind, "Row"))
    encode, path = protobuf.encoder(schema)
    assert path == (0,)
    assert same(read_again("protobuf", schema, [encode(row) for row in rows]), rows)


def test_avro_that_others_have_written_the_schema_of_takes_its_values() -> None:
    text = """{"type": "record", "name": "R", "fields": [
        {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["ONE", "TWO"]}},
        {"name": "f", "type": {"type": "fixed", "name": "F", "size": 2}},
        {"name": "u", "type": ["null", "string", "long", {"type": "record", "name": "I", "fields": [{"name": "x", "type": "int"}]}]},
        {"name": "again", "type": ["null", "I"], "default": null},
        {"name": "ms", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "wide", "type": ["int", "long"]}]}"""
    schema = Schema(7, "AVRO", text)
    at = datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=timezone.utc)
    shared = {"e": "TWO", "f": b"ab", "ms": at, "wide": 2**40}
    members = [
        {"member0": "text", "member1": None, "member2": None},
        {"member0": None, "member1": 5, "member2": None},
        {"member0": None, "member1": None, "member2": {"x": 1}},
    ]
    rows = [{**shared, "u": member, "again": {"x": 3}} for member in members]
    encode = avro.encoder(schema)
    assert read_again("avro", schema, [encode(row) for row in rows]) == rows


def test_times_of_day_are_written_as_avro_counts_them_and_numbers_as_they_are() -> None:
    schema = Schema(
        7,
        "AVRO",
        """{"type": "record", "name": "R", "fields": [
        {"name": "ms", "type": {"type": "int", "logicalType": "time-millis"}},
        {"name": "us", "type": ["null", {"type": "long", "logicalType": "time-micros"}]}]}""",
    )
    encode, at, last = avro.encoder(schema), time(3, 4, 5, 678_901), 86_400_000_000 - 1
    rows = [{"ms": at, "us": at}, {"ms": 7, "us": last}, {"ms": time.max, "us": time.max}]
    assert read_again("avro", schema, [encode(row) for row in rows]) == [
        {"ms": 11_045_678, "us": 11_045_678_901},
        {"ms": 7, "us": last},
        {"ms": last // 1000, "us": last},
    ]
    with pytest.raises(Misfit, match="ms is no whole number of 32 bits"):
        encode({"ms": "03:04:05", "us": None})


def test_protobuf_that_others_have_written_the_schema_of_takes_its_values() -> None:
    text = """syntax = "proto3"; package p;
        import "google/protobuf/wrappers.proto"; import "google/protobuf/duration.proto";
        enum E { ZERO = 0; ONE = 1; }
        message R { E e = 1; google.protobuf.Int32Value w = 2; uint64 u = 3; oneof o { string s = 4; bytes b = 5; }
                    google.protobuf.Duration d = 6; repeated I many = 7; I one = 8; }
        message I { uint32 x = 1; }"""
    schema = Schema(7, "PROTOBUF", text)
    encode, path = protobuf.encoder(schema)
    assert path == (0,)
    row = {
        "e": "ONE",
        "w": 0,
        "u": Decimal(2**64 - 1),
        "s": "text",
        "b": None,
        "d": -999_995,
        "many": [{"x": 2**32 - 1}, {"x": 0}],
        "one": {"x": 0},
    }
    assert read_again("protobuf", schema, [encode(row)]) == [row]
    assert protobuf.encoder(schema, "p.I")[1] == (1,)


_SHORT: dict[str, tuple[str, str, list[Any], list[Any]]] = {
    "flag": ("boolean", "bool", [True, 1], ["false", 5, 1.0]),
    "small": ("int", "int32", [-(2**31), Decimal("7.00")], [2**31, 1.7, Decimal("1.5"), "7"]),
    "large": ("long", "int64", [2**63 - 1], [2**63, 1.0, "7"]),
    "single": ("float", "float", [0.1, math.inf, 2**24], [1e300, 2**24 + 1, Decimal("1e39"), "7"]),
    "double": ("double", "double", [0.1, Decimal("0.1"), 2**53], [2**53 + 1, "7"]),
}


@pytest.mark.parametrize("name", _SHORT)
def test_what_is_no_value_of_a_fields_type_is_not_written_as_another(name: str) -> None:
    """The libraries would: false as true, and a whole number without its upper bits."""
    of_avro, of_protobuf, right, wrong = _SHORT[name]
    record = f'{{"type":"record","name":"R","fields":[{{"name":"x","type":["null","{of_avro}"]}}]}}'
    message = f'syntax = "proto3"; message R {{ optional {of_protobuf} x = 1; }}'
    writers = [
        avro.encoder(Schema(7, "AVRO", record)),
        protobuf.encoder(Schema(7, "PROTOBUF", message))[0],
    ]
    for write in writers:
        assert all(write({"x": value}) for value in right)
        for value in wrong:
            with pytest.raises(Misfit, match="x is no"):
                write({"x": value})


@pytest.mark.parametrize("of", ['"type": "bytes"', '"type": "fixed", "name": "F", "size": 4'])
def test_a_decimal_has_no_more_digits_than_its_schema_says(of: str) -> None:
    """The library writes others, which nobody reads, and leaves out some of those that fit."""
    schema = Schema(7, "AVRO", f'{{"type": "record", "name": "R", "fields": [{{"name": "x", "type": {{{of}, "logicalType": "decimal", "precision": 3, "scale": 2}}}}]}}')  # fmt: skip
    write = avro.encoder(schema)
    right = [Decimal(text) for text in ("9.99", "-9.990", "1", "0E-18", "0E+2")]
    assert read_again("avro", schema, [write({"x": value}) for value in right]) == [
        {"x": value} for value in right
    ]
    for text in ("99", "1E+1", "-10.00", "9.991"):
        with pytest.raises(Misfit, match=r"x is no decimal\(3,2\)"):
            write({"x": Decimal(text)})


def test_of_a_oneof_no_member_is_lost() -> None:
    text = 'syntax = "proto3"; message R { I i = 1; } message I { oneof o { string s = 1; R r = 2; } optional int32 n = 3; }'
    schema = Schema(7, "PROTOBUF", text)
    write, _ = protobuf.encoder(schema)
    assert write({"i": {"s": None, "r": {"i": None}, "n": 0}}) == b"\x0a\x04\x12\x00\x18\x00"
    with pytest.raises(Misfit, match=r"of the members of i\.o one is to be set, not more"):
        write({"i": {"s": "", "r": {"i": None}, "n": 0}})


def test_a_fraction_is_no_number_without_a_sign() -> None:
    write, _ = protobuf.encoder(
        Schema(7, "PROTOBUF", 'syntax = "proto3"; message R { uint32 a = 1; uint64 b = 2; }')
    )
    for row in ({"a": 1.5}, {"a": 2**32}, {"b": Decimal("1.50")}, {"b": "12"}, {"b": -1}):
        with pytest.raises(Misfit, match="is no whole number of"):
            write(row)


@pytest.mark.parametrize("encode", [avro.encoder, lambda schema: protobuf.encoder(schema)[0]])
def test_what_a_schema_has_no_place_for_is_told_by_its_place_and_no_value(encode: Any) -> None:
    of_avro = encode is avro.encoder
    kind = T.StructType([T.StructField("s", T.StructType([T.StructField("n", T.IntegerType())]))])
    schema = (
        Schema(7, "AVRO", avro.schema_text(kind, "Row"))
        if of_avro
        else Schema(7, "PROTOBUF", protobuf.schema_text(kind, "Row"))
    )
    write = encode(schema)
    for value, why in (
        ({"s": {"n": 1, "m": 2}}, r"no field s\.m"),
        ({"s": "a secret"}, "s is to be a struct"),
        ({"s": {"n": "a secret"}}, r"s\.n is no whole number of 32 bits"),
    ):
        with pytest.raises(Misfit, match=why) as told:
            write(value)
        assert "secret" not in str(told.value)


@pytest.mark.parametrize("kind", [T.DateType(), T.DecimalType(3, 1), T.ArrayType(T.ArrayType(T.LongType()))])
def test_types_that_protobuf_lacks_are_refused_with_what_to_do(kind: T.DataType) -> None:
    with pytest.raises(BadSchema, match=r"Row\.x is of type .*cast it"):
        protobuf.schema_text(T.StructType([T.StructField("x", kind)]), "Row")


def test_names_that_a_format_lacks_are_refused() -> None:
    kind = T.StructType([T.StructField("no name", T.LongType())])
    for text in (avro.schema_text, protobuf.schema_text):
        with pytest.raises(BadSchema, match="no field called 'no name'"):
            text(kind, "Row")


def test_fields_of_protobuf_keep_their_numbers_and_none_gets_anothers() -> None:
    def struct(*names: str) -> T.StructType:
        return T.StructType([T.StructField(name, T.LongType()) for name in names])

    versions = [Schema(1, "PROTOBUF", protobuf.schema_text(struct("a", "gone"), "Row"))]
    versions.append(
        Schema(2, "PROTOBUF", protobuf.schema_text(struct("b", "a"), "Row", protobuf.Numbers.of(versions)))
    )
    newest = protobuf.schema_text(struct("c", "b", "a"), "Row", protobuf.Numbers.of(versions))
    assert "int64 a = 1;" in newest
    assert "int64 b = 3;" in newest
    assert "int64 c = 4;" in newest


def test_a_column_may_be_called_like_the_message_of_another() -> None:
    inner = T.StructType([T.StructField("x", T.BooleanType())])
    kind = T.StructType([T.StructField("a", inner), T.StructField("Of_a", T.BooleanType())])
    assert "message Of_a_ {" in protobuf.schema_text(kind, "Row")


@pytest.mark.parametrize(("table", "name"), [("2024_gold", "_2024_gold"), ("gold_2024", "gold_2024")])
def test_rows_of_a_table_whose_name_begins_with_a_digit_have_a_schema(table: str, name: str) -> None:
    kind = T.StructType([T.StructField("a", T.IntegerType())])
    assert type_name(table) == name
    assert json.loads(avro.schema_text(kind, type_name(table)))["name"] == name
    schema = Schema(1, "PROTOBUF", protobuf.schema_text(kind, type_name(table)))
    encode, _ = protobuf.encoder(schema, None)
    assert encode({"a": 1}) == b"\x08\x01"


@pytest.mark.parametrize(("outer", "beside"), [("struct", "a_b"), ("array", "a_element"), ("map", "a_value")])
def test_structs_whose_places_are_called_alike_are_two_records(outer: str, beside: str) -> None:
    """As a column `user_address` beside the `address` of a `user`."""
    inner = T.StructType([T.StructField("x", T.IntegerType())])
    around: dict[str, tuple[T.DataType, Any]] = {
        "struct": (T.StructType([T.StructField("b", inner)]), {"b": {"x": 1}}),
        "array": (T.ArrayType(inner), [{"x": 1}]),
        "map": (T.MapType(T.StringType(), inner), {"k": {"x": 1}}),
    }
    other = T.StructType([T.StructField("y", T.IntegerType())])
    nested, value = around[outer]
    kind = T.StructType([T.StructField("a", nested), T.StructField(beside, other)])
    row = {"a": value, beside: {"y": 2}}
    schema = Schema(7, "AVRO", avro.schema_text(kind, "Row"))
    assert same(read_again("avro", schema, [avro.encoder(schema)(row)]), [row])
