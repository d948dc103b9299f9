"""Both ways to decode Protobuf against each other, against Protobuf's own Python interface, and against bad input."""

from __future__ import annotations

import gc
import random
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf.descriptor_pool import DescriptorPool
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.codecs.protobuf_samples import (
    RICH,
    RICH_PATH,
    comparable,
    descriptor,
    expected,
    message_class,
    messages,
    otherwise,
    part,
    schema,
    varint,
)

from distributary.codecs import reasons
from distributary.codecs.base import Decoded
from distributary.codecs.protobuf.codec import ProtobufCodec, ProtobufReader
from distributary.codecs.protobuf.spark_columns import ProtobufOptions
from distributary.errors import BadSchema
from distributary.registry.protobuf.text import compile_text

RICH_TYPE = descriptor(RICH, "rich.Rich")
READER = ProtobufCodec().reader(schema(RICH), RICH_PATH)
slow = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


def binary(payloads: Sequence[bytes]) -> pa.BinaryArray:
    return pa.array(payloads, pa.binary())


def rows_of(reader: ProtobufReader, payloads: Sequence[bytes]) -> list[dict[str, Any]]:
    decoded = reader.decode(binary(payloads))
    assert not decoded.failures
    decoded.rows.validate(full=True)
    assert decoded.rows.schema == reader.schema
    return comparable(decoded.rows)


def reader_of(text: str, *path: int) -> ProtobufReader:
    return ProtobufCodec().reader(schema('syntax = "proto3"; ' + text), path or (0,))


@slow
@given(st.lists(messages(RICH_TYPE), min_size=1, max_size=4))
def test_both_ways_give_what_the_fields_of_a_message_say(sent: list[Any]) -> None:
    payloads = [message.SerializeToString() for message in sent]
    fast = READER._fast
    assert fast is not None
    wanted = [expected(message) for message in sent]
    assert comparable(fast.batch(binary(payloads))) == wanted
    assert comparable(READER._exact.batch(binary(payloads))) == wanted
    assert rows_of(READER, payloads) == wanted


@slow
@given(messages(RICH_TYPE), messages(RICH_TYPE))
def test_a_message_in_two_parts_is_merged_as_protobuf_asks(first: Any, second: Any) -> None:
    parts = first.SerializeToString() + second.SerializeToString()
    assert rows_of(READER, [parts]) == [expected(type(first).FromString(parts))]


@slow
@given(messages(RICH_TYPE), st.randoms(use_true_random=False))
def test_the_order_of_fields_and_idle_bits_of_numbers_say_nothing(sent: Any, dice: random.Random) -> None:
    payload = otherwise(sent.SerializeToString(), dice)
    assert rows_of(READER, [payload, payload]) == [expected(sent)] * 2
    assert comparable(READER._exact.one(payload)) == [expected(sent)]


@slow
@given(st.lists(st.binary(max_size=40), max_size=12))
def test_any_bytes_end_in_rows_or_failures_exactly_once(payloads: list[bytes]) -> None:
    check_account(READER.decode(binary(payloads)), len(payloads))


def check_account(decoded: Decoded, count: int) -> None:
    decoded.rows.validate(full=True)
    source = decoded.source.tolist()
    assert decoded.rows.num_rows == len(source)
    assert source == sorted(source)
    assert sorted([*source, *(failure.row for failure in decoded.failures)]) == list(range(count))
    for failure in decoded.failures:
        assert failure.detail == reasons.SENTENCES[failure.reason]


def test_an_empty_payload_is_a_record_of_zeros() -> None:
    row = rows_of(READER, [b""])[0]
    assert (row["i32"], row["s"], row["c"], row["b"], row["u64"]) == (0, "", "RED", False, 0)
    assert (row["oi"], row["inner"], row["ts"], row["wi"], row["nothing"], row["any"]) == (None,) * 6
    assert (row["strings"], row["m_si"], row["chains"]) == ([], {}, [])


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_batch_may_have_any_length(count: int) -> None:
    decoded = READER.decode(binary([b""] * count))
    assert decoded.rows.num_rows == count
    assert decoded.rows.schema == READER.schema


def test_a_sliced_batch_is_decoded_as_what_it_is_a_slice_of() -> None:
    reader = reader_of("message M { int32 a = 1; }")
    payloads = binary([b"\x08\x01", b"\x08\x02", b"\xff", b"\x08\x04", b"\x08\x05"]).slice(1, 3)
    decoded = reader.decode(payloads)
    assert decoded.rows.to_pylist() == [{"a": 2}, {"a": 4}]
    assert decoded.source.tolist() == [0, 2]
    assert [failure.row for failure in decoded.failures] == [1]


def number(number: int, value: int) -> bytes:
    """A varint field."""
    return varint(number << 3) + varint(value & (2**64 - 1))


def chain(depth: int) -> bytes:
    """Field `next` of Chain, nested this often."""
    body = b"\x08\x01"
    for _ in range(depth):
        body = part(2, body)
    return body


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (part(41, part(2, b"\xff")), reasons.INVALID_UTF8),
        (b"\x0f", reasons.MALFORMED),
        (b"\x00\x01", reasons.MALFORMED),
        (part(51, number(1, 253_402_300_800)), reasons.OUT_OF_RANGE),
        (part(51, number(1, -(2**63))), reasons.OUT_OF_RANGE),
        (part(51, number(1, 2**63 - 1) + number(2, 2**31 - 1)), reasons.OUT_OF_RANGE),
        (part(53, number(1, -62_135_596_801)), reasons.OUT_OF_RANGE),
        (part(52, number(1, 2**62)), reasons.OUT_OF_RANGE),
        (part(34, part(2, number(1, 2**40))), reasons.OUT_OF_RANGE),
        (part(73, chain(150)), reasons.TOO_DEEP),
        (part(73, b"\x0f"), reasons.MALFORMED),
    ],
)
def test_a_broken_payload_fails_alone_and_says_why(payload: bytes, reason: str) -> None:
    decoded = READER.decode(binary([b"", payload, b""]))
    assert [(failure.row, failure.reason) for failure in decoded.failures] == [(1, reason)]
    assert decoded.source.tolist() == [0, 2]
    check_account(decoded, 3)


def test_the_ends_of_the_range_of_times_are_kept() -> None:
    first, last = number(1, -62_135_596_800), number(1, 253_402_300_799) + number(2, 999_999_999)
    row = rows_of(READER, [part(53, first) + part(53, last)])[0]
    assert row["tss"] == [-62_135_596_800_000_000, 253_402_300_799_999_999]


@pytest.mark.parametrize(
    ("payload", "field", "value"),
    [
        (number(21, 1) + part(22, b"z"), "pick_i", None),
        (number(21, 1) + part(22, b"z"), "pick_s", "z"),
        (part(25, b"") + number(21, 5), "pick_j", None),
        (part(31, part(1, b"k") + number(2, 1)) + part(31, part(1, b"k") + number(2, 2)), "m_si", {"k": 2}),
        (part(32, number(1, 7))[:0] + part(34, number(1, 7)), "m_it", {7: 0}),
        (part(31, b""), "m_si", {"": 0}),
        (part(51, number(1, 1)) + part(51, number(2, 5_000)), "ts", 1_000_005),
        (part(54, number(1, 3)) + part(54, b""), "wi", 3),
        (part(73, number(1, 3)) + part(73, part(2, b"")), "chain", {"v": 3, "next": {}}),
        (part(1, b"abc"), "d", 0.0),
        (number(3, 2**32 + 5), "i32", 5),
        (number(16, 99), "c", "99"),
        (part(43, b"\x01\x63"), "colours", ["BLUE", "99"]),
        (number(999, 1) + number(3, 4), "i32", 4),
        (part(81, b""), "nothing", True),
    ],
)
def test_odd_but_valid_bytes_mean_what_protobuf_says(payload: bytes, field: str, value: Any) -> None:
    assert rows_of(READER, [payload])[0][field] == value


def test_an_entry_of_a_map_without_a_value_has_the_one_that_is_absent_and_nothing_is_written_about_it(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """As prost writes those of messages without a field; ptars told of each on stderr."""
    reader = reader_of("message A { map<string, B> m = 1; } message B { int32 x = 1; }")
    without = part(1, part(1, b"a"))
    assert rows_of(reader, [without, part(1, part(1, b"b") + part(2, b"\x08\x07")), without]) == [
        {"m": {"a": {"x": 0}}},
        {"m": {"b": {"x": 7}}},
        {"m": {"a": {"x": 0}}},
    ]
    assert capfd.readouterr() == ("", "")


def test_types_are_those_of_the_table() -> None:
    types = {
        "u32": pa.int64(),
        "u64": pa.decimal128(20, 0),
        "c": pa.string(),
        "ts": pa.timestamp("us", tz="UTC"),
        "du": pa.int64(),
        "wu": pa.decimal128(20, 0),
        "wu32": pa.int64(),
        "any": pa.string(),
        "struct": pa.string(),
        "chain": pa.string(),
        "nothing": pa.bool_(),
        "empty": pa.bool_(),
        "strings": pa.list_(pa.field("element", pa.string())),
        "m_um": pa.map_(pa.decimal128(20, 0), READER.schema.field("inner").type),
        "mask": pa.struct([pa.field("paths", pa.list_(pa.field("element", pa.string())))]),
    }
    assert {name: READER.schema.field(name).type for name in types} == types
    assert all(field.nullable for field in READER.schema)


PROTO2 = """syntax = "proto2"; package two;
enum Size { SMALL = 1; LARGE = 2; }
message Two {
  required int32 needed = 1; optional string name = 2 [default = "none"]; optional Size size = 3 [default = LARGE];
  optional Size plain = 4; repeated int32 packed = 5 [packed = true]; optional bytes raw = 6 [default = "\\001x"];
  %s
}"""
GROUPS = "optional group Deep = 7 { optional int32 x = 1 [default = 9]; repeated group Item = 2 { optional string s = 3; } }"


@pytest.mark.parametrize("groups", [False, True])
def test_proto2_defaults_stand_for_what_is_absent(groups: bool) -> None:
    reader = ProtobufCodec().reader(schema(PROTO2 % (GROUPS if groups else "")), (0,))
    row = rows_of(reader, [b""])[0]
    assert row == {
        "needed": None,
        "name": "none",
        "size": "LARGE",
        "plain": None,
        "packed": [],
        "raw": b"\x01x",
        **({"deep": None} if groups else {}),
    }
    assert rows_of(reader, [number(4, 44)])[0]["plain"] == "44"


@pytest.mark.parametrize("groups", ["", "optional group Deep = 9 { }"])
def test_a_default_of_a_oneof_s_member_stands_for_nothing_since_another_one_was_sent(groups: str) -> None:
    text = f"""syntax = "proto2"; message M {{
      oneof one {{ string a = 1 [default = "x"]; int32 b = 2 [default = 7]; }} oneof alone {{ bool c = 3 [default = true]; }} {groups} }}"""
    reader = ProtobufCodec().reader(schema(text), (0,))
    row = dict.fromkeys(("a", "b", "c"))
    sent = rows_of(reader, [part(1, b"sent"), number(2, 5), number(3, 0), b""])
    names = [{name: one[name] for name in row} for one in sent]
    assert names == [row | {"a": "sent"}, row | {"b": 5}, row | {"c": False}, row]


def test_groups_are_decoded() -> None:
    text = PROTO2 % GROUPS
    kind = message_class(text, "two.Two")
    message = kind(needed=1, deep={"item": [{"s": "a"}, {}]})
    reader = ProtobufCodec().reader(schema(text), (0,))
    decoded = reader.decode(binary([message.SerializeToString(), b"\x0f", b""]))
    assert decoded.rows.to_pylist()[0]["deep"] == {"x": 9, "item": [{"s": "a"}, {"s": None}]}
    assert [failure.row for failure in decoded.failures] == [1]


def test_an_extension_is_a_column_by_its_full_name_and_in_json_text_as_protobuf_writes_it() -> None:
    text = """syntax = "proto2"; package p; message Chain { optional Chain next = 1; extensions 10 to 20; }
    extend Chain { optional int32 x = 10; repeated Chain more = 11; } message M { optional int32 x = 1; extensions 10 to 20; }
    extend M { optional Chain chain = 10; } message Scope { extend M { optional string x = 12; } }"""
    payload = number(1, 7) + part(10, part(1, number(10, 5)) + part(11, b"")) + part(12, b"y")
    reader = ProtobufCodec().reader(schema(text), (1,))
    row = reader.decode(binary([payload])).rows.to_pylist()
    assert row == [{"x": 7, "p.chain": '{"next":{"[p.x]":5},"[p.more]":[{}]}', "p.Scope.x": "y"}]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('edition = "2999"; message M {}', "edition .2999"),
        (
            'syntax = "proto2"; message M { option message_set_wire_format = true; extensions 4 to max; }',
            "MessageSet",
        ),
    ],
)
def test_what_cannot_be_read_right_is_refused(text: str, said: str) -> None:
    with pytest.raises(BadSchema, match=said):
        ProtobufCodec().reader(schema(text), (0,))


def test_an_any_of_a_type_of_the_schema_is_written_out() -> None:
    text = 'syntax = "proto3"; import "google/protobuf/any.proto"; message P { int64 n = 1; } message M { google.protobuf.Any a = 1; }'
    packed = message_class(text, "M")()
    packed.a.Pack(message_class(text, "P")(n=5))
    row = (
        ProtobufCodec()
        .reader(schema(text), (1,))
        .decode(binary([packed.SerializeToString()]))
        .rows.to_pylist()[0]
    )
    assert row == {"a": '{"@type":"type.googleapis.com/P","n":"5"}'}


def test_a_message_without_fields_still_counts_its_records() -> None:
    decoded = reader_of("message M {}").decode(binary([b"", b"\x0f", b"\x08\x01"]))
    assert decoded.rows.num_rows == 2
    assert [failure.row for failure in decoded.failures] == [1]


def test_the_path_leads_to_nested_messages() -> None:
    text = "message A { message B { int32 b = 1; } message C { message D { int32 d = 1; } } } message E { int32 e = 1; }"
    assert [reader_of(text, *path).name for path in ((0,), (0, 0), (0, 1, 0), (1,))] == [
        "A",
        "A.B",
        "A.C.D",
        "E",
    ]


@pytest.mark.parametrize("path", [(5,), (0, 0), (0, 1), ()])
def test_a_path_that_leads_nowhere_is_refused(path: tuple[int, ...]) -> None:
    with pytest.raises(BadSchema, match="no message at index"):
        ProtobufCodec().reader(schema('syntax = "proto3"; message A { map<int32, int32> m = 1; }'), path)


def test_a_schema_that_unfolds_without_end_is_refused() -> None:
    levels = "".join(
        f"message L{i} {{ " + " ".join(f"L{i + 1} f{j} = {j + 1};" for j in range(10)) + " }"
        for i in range(12)
    )
    with pytest.raises(BadSchema, match="more than"):
        reader_of(levels + "message L12 { int32 x = 1; }")


def test_readers_are_kept() -> None:
    again = ProtobufCodec().reader(schema(RICH, 99), RICH_PATH)
    assert again is READER


@pytest.mark.parametrize("options", [None, ProtobufOptions()])
def test_what_was_loaded_for_a_schema_goes_with_its_reader(options: ProtobufOptions | None) -> None:
    """A process meets schemas for as long as it lives."""
    of = schema('syntax = "proto3"; message A { B b = 1; } message B { A a = 1; C c = 2; } message C {}')
    pools = type(DescriptorPool())  # not the class of that name, where the library is C

    def load() -> int:
        ProtobufReader(compile_text(of.text, of.imports), (0,), options)
        ProtobufCodec().description(of, (0,))
        gc.collect()
        return sum(isinstance(held, pools) for held in gc.get_objects())

    before = load()
    assert before
    assert [load() for _ in range(3)] == [before] * 3


def test_an_interrupt_is_not_taken_for_a_broken_record(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: pa.BinaryArray) -> pa.RecordBatch:
        raise KeyboardInterrupt

    monkeypatch.setattr(READER._fast, "batch", interrupted)
    with pytest.raises(KeyboardInterrupt):
        READER.decode(binary([b""]))


BEHIND_A_MAP = 'syntax = "proto3"; message M { map<string, int32> x = 1; message N { string a = 1; } message P { string b = 1; } }'


@pytest.mark.parametrize(("path", "name"), [((0, 1), "M.N"), ((0, 2), "M.P"), ((0, 0), "M.N")])
def test_the_entries_of_maps_count_among_nested_messages_unless_the_index_is_none_then(
    path: tuple[int, ...], name: str
) -> None:
    assert ProtobufCodec().reader(schema(BEHIND_A_MAP), path).name == name
