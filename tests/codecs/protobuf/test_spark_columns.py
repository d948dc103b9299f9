"""Each option of Spark's `from_protobuf`, and all of them together: the columns, and the values by both ways of decoding."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import text_format
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.codecs.from_protobuf_rules import from_protobuf_row, rows_are
from tests.codecs.protobuf_golden import FILE, FILE2, path_of
from tests.codecs.protobuf_samples import RICH, RICH_PATH, descriptor, message_class, messages, schema
from tests.examples import examples

from distributary.codecs.protobuf.codec import ProtobufCodec, ProtobufReader
from distributary.codecs.protobuf.spark_columns import MAX_DEPTH, ProtobufOptions, protobuf_options
from distributary.errors import ConfigError

RICH_TYPE = descriptor(RICH, "rich.Rich")
FLAGS = (
    "emit.default.values",
    "enums.as.ints",
    "upcast.unsigned.ints",
    "unwrap.primitive.wrapper.types",
    "retain.empty.message.types",
    "convert.any.fields.to.json",
)
OPTIONS = st.fixed_dictionaries(
    {}, optional={**dict.fromkeys(FLAGS, st.booleans()), "recursive.fields.max.depth": st.integers(-1, 3)}
)
DUMMY = pa.struct([("__dummy_field_in_empty_struct", pa.string())])


def reader(text: str, path: tuple[int, ...], **options: Any) -> ProtobufReader:
    given_ = {name.replace("_", "."): str(value).lower() for name, value in options.items()}
    return ProtobufCodec().as_spark(given_).reader(schema(text), path)


def golden(kind: str, fields: str, **options: Any) -> tuple[pa.Schema, dict[str, Any]]:
    """The columns of a golden type, and what becomes of one record of it."""
    text = FILE if f"message {kind} " in FILE else FILE2
    package = "golden" if text is FILE else "golden2"
    payload = text_format.Parse(fields, message_class(text, f"{package}.{kind}")()).SerializeToString()
    found = reader(text, path_of(descriptor(text, f"{package}.{kind}")), **options)
    payloads = pa.array([payload], pa.binary())
    decoded = found.decode(payloads)
    assert not decoded.failures
    assert found._exact.batch(payloads).equals(decoded.rows)
    return found.schema, decoded.rows.to_pylist()[0]


@settings(max_examples=examples(30), deadline=None)
@given(sent=st.lists(messages(RICH_TYPE), min_size=1, max_size=3), options=OPTIONS)
def test_random_records_are_what_the_options_say(sent: list[Any], options: dict[str, Any]) -> None:
    found = ProtobufCodec().as_spark({k: str(v) for k, v in options.items()}).reader(schema(RICH), RICH_PATH)
    payloads = pa.array([message.SerializeToString() for message in sent], pa.binary())
    decoded = found.decode(payloads)
    assert not decoded.failures
    wanted = [from_protobuf_row(message, options) for message in sent]
    assert rows_are(decoded.rows, wanted)
    assert rows_are(found._exact.batch(payloads), wanted)
    assert found._fast is not None


def test_without_options_the_types_are_sparks() -> None:
    columns, row = golden("Signed", "i32: 0 d: -0.0")
    assert row == {name: (-0.0 if name == "d" else None) for name in columns.names}
    columns, row = golden("Unsigned", "u32: 4294967295 u64: 18446744073709551615 f32: 2147483648 f64: 1")
    assert columns.types == [pa.int32(), pa.int64()] * 2
    assert row == {"u32": -1, "u64": -1, "f32": -(2**31), "f64": 1}
    columns, row = golden("Wrappers", "i {} s {value: 'x'}")
    assert columns.field("i").type == pa.struct([("value", pa.int32())])
    assert (row["i"], row["s"], row["b"]) == ({"value": None}, {"value": "x"}, None)
    columns, row = golden("Empties", "nothing {} n: 1")
    assert columns.names == ["n"]
    columns, row = golden("Times", "at {seconds: 1} took {seconds: 2}")
    assert columns.field("took").type == pa.duration("us")
    assert row["took"].total_seconds() == 2


def test_zeros_are_zeros_on_demand() -> None:
    _, row = golden("Signed", "", emit_default_values=True)
    assert (row["i32"], row["d"], row["s"], row["by"], row["b"]) == (0, 0.0, "", b"", False)
    _, row = golden("Optional", "", emit_default_values=True)
    assert set(row.values()) == {None}


def test_enums_are_numbers_on_demand() -> None:
    fields = "c: BLUE many: [RED, NEGATIVE, 77] named {key: 'k' value: NEGATIVE} maybe: RED"
    columns, row = golden("Enums", fields, enums_as_ints=True)
    assert columns.field("c").type == pa.int32()
    assert row == {"c": 1, "many": [0, -5, 77], "named": [("k", -5)], "maybe": 0}
    _, row = golden("Two", "needed: 1", enums_as_ints=True)
    assert (row["size"], row["plain"]) == (2, None)


def test_unsigned_numbers_are_wide_on_demand_and_fixed_ones_never() -> None:
    fields = "u32: 4294967295 u64: 18446744073709551615 f32: 4294967295 f64: 18446744073709551615"
    columns, row = golden("Unsigned", fields, upcast_unsigned_ints=True)
    assert columns.types == [pa.int64(), pa.decimal128(20, 0), pa.int32(), pa.int64()]
    assert [int(value) for value in row.values()] == [2**32 - 1, 2**64 - 1, -1, -1]


def test_wrappers_are_their_values_on_demand_and_zeros_in_them_null_unless_zeros_are_wanted() -> None:
    fields = "i {} s {value: 'x'} many: [{}, {value: 'y'}]"
    columns, row = golden("Wrappers", fields, unwrap_primitive_wrapper_types=True)
    assert columns.field("i").type == pa.int32()
    assert (row["i"], row["s"], row["b"], row["many"]) == (None, "x", None, [None, "y"])
    _, row = golden("Wrappers", fields, unwrap_primitive_wrapper_types=True, emit_default_values=True)
    assert (row["i"], row["s"], row["b"], row["many"]) == (0, "x", None, ["", "y"])


def test_messages_without_fields_are_structs_of_a_dummy_on_demand() -> None:
    columns, row = golden("Empties", "nothing {} many: [{}]", retain_empty_message_types=True)
    assert columns.field("nothing").type == DUMMY
    there = {"__dummy_field_in_empty_struct": None}
    assert (row["nothing"], row["many"], row["empty"]) == (there, [there], None)


def test_an_any_is_a_struct_or_json() -> None:
    fields = "any {type_url: 'x/golden.Point' value: '\\010\\005'}"
    columns, row = golden("Json", fields)
    assert row["any"] == {"type_url": "x/golden.Point", "value": b"\x08\x05"}
    columns, row = golden("Json", fields, convert_any_fields_to_json=True)
    assert columns.field("any").type == pa.string()
    assert row["any"] == '{"@type":"x/golden.Point","x":5}'
    fields = "any {type_url: 'x/golden.Enums' value: '\\010\\001'}"
    _, row = golden("Json", fields, convert_any_fields_to_json=True, enums_as_ints=True)
    assert row["any"] == '{"@type":"x/golden.Enums","c":1}'


@pytest.mark.parametrize(
    ("depth", "wanted"),
    [
        (-1, "struct<v: int32, next: string, named: map<string, string>>"),
        (0, "struct<v: int32, next: string, named: map<string, string>>"),
        (1, "struct<v: int32>"),
        (2, "struct<v: int32, next: struct<v: int32>, named: map<string, struct<v: int32>>>"),
    ],
)
def test_a_message_that_contains_itself_is_columns_as_often_as_asked(depth: int, wanted: str) -> None:
    columns, _ = golden("Chain", "v: 1 next {v: 2 next {v: 3}}", recursive_fields_max_depth=depth)
    assert str(pa.struct(list(columns))) == wanted


def test_what_is_left_of_a_message_that_is_cut_goes_with_it() -> None:
    text = 'syntax = "proto3"; message Tree { repeated Tree all = 1; map<string, Tree> by = 2; Side side = 3; } message Side { Tree tree = 1; }'
    assert reader(text, (0,), recursive_fields_max_depth=1).schema.names == []
    alone = 'syntax = "proto3"; message Alone { Alone alone = 1; }'
    whole = reader(alone, (0,), recursive_fields_max_depth=1, retain_empty_message_types=True)
    decoded = whole.decode(pa.array([b"", b"\x0a\x00", b"\x7b\x7c"], pa.binary()))
    assert decoded.rows.to_pylist() == [{"__dummy_field_in_empty_struct": None}] * 3
    kept = reader(text, (0,), recursive_fields_max_depth=1, retain_empty_message_types=True).schema
    assert kept == pa.schema([("side", DUMMY)])
    twice = reader(text, (0,), recursive_fields_max_depth=2, retain_empty_message_types=True)
    decoded = twice.decode(pa.array([b"\x0a\x00\x1a\x02\x0a\x00"], pa.binary()))
    assert not decoded.failures
    row = decoded.rows.to_pylist()[0]
    assert row["all"] == [{"side": None}]
    assert row["by"] == []


def test_a_copy_of_timestamp_in_another_package_is_a_time_as_in_spark() -> None:
    text = 'syntax = "proto3"; package own; message Event { Timestamp at = 1; } message Timestamp { int64 seconds = 1; int32 nanos = 2; }'
    assert reader(text, (0,)).schema.field("at").type == pa.timestamp("us", tz="UTC")


def test_a_large_default_of_an_unsigned_field_turns_negative_as_it_does_when_sent() -> None:
    text = 'syntax = "proto2"; message M { optional uint32 u = 1 [default = 4294967295]; optional fixed64 f = 2 [default = 18446744073709551614]; }'
    decoded = reader(text, (0,)).decode(pa.array([b""], pa.binary()))
    assert decoded.rows.to_pylist() == [{"u": -1, "f": -2}]


def test_a_oneof_s_member_that_was_not_sent_has_its_default_as_from_spark() -> None:
    text = 'syntax = "proto2"; message M { oneof one { string a = 1 [default = "x"]; uint32 b = 2 [default = 4294967295]; } }'
    decoded = reader(text, (0,)).decode(pa.array([b"\x0a\x01s", b"\x10\x05", b""], pa.binary()))
    assert decoded.rows.to_pylist() == [{"a": "s", "b": -1}, {"a": "x", "b": 5}, {"a": "x", "b": -1}]


def test_names_are_found_whatever_their_capitals_and_none_is_passed_over() -> None:
    assert protobuf_options({"Enums.As.Ints": "TRUE"}) == ProtobufOptions(enums_as_ints=True)
    with pytest.raises(ConfigError, match=r"no option 'enums\.as\.int'"):
        protobuf_options({"enums.as.int": "true"})
    with pytest.raises(ConfigError, match="must be true or false"):
        protobuf_options({"enums.as.ints": "yes"})
    with pytest.raises(ConfigError, match=f"a number up to {MAX_DEPTH}"):
        protobuf_options({"recursive.fields.max.depth": "11"})
