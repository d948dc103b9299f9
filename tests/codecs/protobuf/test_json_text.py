"""Messages as JSON text: they keep, and refuse, what columns of the same fields would."""

from __future__ import annotations

import json
from operator import add
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import json_format
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given
from hypothesis import strategies as st
from tests.codecs.protobuf_samples import descriptor, message_class, part, schema, varint

from distributary.codecs.base import Decoded
from distributary.codecs.protobuf.codec import ProtobufCodec

ENUMS = """syntax = "proto%d"; package p; import "google/protobuf/any.proto"; enum E { option allow_alias = true; Z = 0; A = 1; B = 2; ALSO_A = 1; }
message T { optional E e = 1; repeated E es = 2; optional T t = 3; map<string, E> m = 4; oneof one { E of = 5; string s = 6; } optional int32 n = 7; }
message M { optional T t = 1; optional google.protobuf.Any any = 2; }"""
EXTENDED = """extend T { optional E x = 20; repeated E xs = 21 [packed = true]; }"""


def decoded(text: str, *payloads: bytes, options: dict[str, str] | None = None) -> Decoded:
    """Records of the file's message M, by both ways of decoding alike."""
    codec = ProtobufCodec() if options is None else ProtobufCodec().as_spark(options)
    message = descriptor(text, "p.M")
    reader = codec.reader(schema(text), (list(message.file.message_types_by_name).index("M"),))
    sent = pa.array(payloads, pa.binary())
    found = reader.decode(sent)
    assert not found.unknown
    if not found.failures:
        assert reader._exact.batch(sent).equals(found.rows)
    return found


def texts(found: Decoded, column: str = "t") -> list[Any]:
    assert not found.failures
    return [json.loads(text) for text in found.rows.column(column).to_pylist()]


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value % 2**64)


def packed(name: str, body: bytes) -> bytes:
    """An Any of a type of the file."""
    return part(1, f"x/{name}".encode()) + part(2, body)


UNKNOWN = (
    number(1, 7)
    + b"".join(number(2, one) for one in (1, 7, 2, -3, 7))
    + part(3, part(2, varint(8) + varint(1)))
    + part(4, part(1, b"k") + number(2, 7))
    + part(4, part(1, b"a") + number(2, 2))
    + number(5, 9)
    + number(7, 1)
)
AS_JSON = {
    "e": 7,
    "es": ["A", 7, "B", -3, 7],
    "t": {"es": [8, "A"]},
    "m": {"a": "B", "k": 7},
    "of": 9,
    "n": 1,
}


@pytest.mark.parametrize("syntax", [2, 3])
def test_numbers_that_an_enum_lacks_are_kept_in_their_places_whether_it_is_open_or_closed(
    syntax: int,
) -> None:
    text = ENUMS % syntax
    found = decoded(text, part(1, UNKNOWN) + part(2, packed("p.T", UNKNOWN)))
    assert texts(found) == [AS_JSON]
    assert texts(found, "any") == [{"@type": "x/p.T", **AS_JSON}]


def test_numbers_that_a_closed_enum_lacks_are_kept_in_extensions_and_stand_for_their_oneof() -> None:
    text = (ENUMS % 2).replace("optional int32 n = 7;", "extensions 20 to 30;") + EXTENDED
    body = part(6, b"gone") + number(5, 9) + number(20, 7) + part(21, varint(1) + varint(7))
    [found] = texts(decoded(text, part(1, body)))
    assert found == {"of": 9, "[p.x]": 7, "[p.xs]": ["A", 7]}


def test_numbers_that_a_closed_enum_lacks_are_kept_with_sparks_options_as_in_its_columns() -> None:
    payload = part(1, UNKNOWN) + part(2, packed("p.T", UNKNOWN))
    found = decoded(ENUMS % 2, payload, options={"convert.any.fields.to.json": "true"})
    assert texts(found) == [AS_JSON]
    assert texts(found, "any") == [{"@type": "x/p.T", **AS_JSON}]
    options = {"convert.any.fields.to.json": "true", "enums.as.ints": "true"}
    [found_any] = texts(decoded(ENUMS % 2, payload, options=options), "any")
    assert (found_any["e"], found_any["es"], found_any["m"]) == (7, [1, 7, 2, -3, 7], {"a": 2, "k": 7})


STRINGS = """syntax = "proto2"; package p; import "google/protobuf/any.proto";
message T { optional string s = 1; repeated string ss = 2; map<string, string> m = 3; map<string, T> mt = 4; optional T t = 5; optional bytes b = 6; }
message M { optional T t = 1; optional google.protobuf.Any any = 2; optional string s = 3; map<string, string> m = 4; map<string, T> mt = 5; repeated string ss = 6; %s }"""
GROUP = "optional group G = 7 { optional string s = 1; }"
BAD = b"\xff\xfe"


def pair(key: bytes, value: bytes) -> bytes:
    return part(1, key) + part(2, value)


BAD_STRINGS = {
    "a field": part(1, BAD),
    "one of many": part(2, b"x") + part(2, BAD),
    "a map's value": part(3, pair(b"k", BAD)),
    "a map's key": part(3, pair(BAD, b"v")),
    "one of a map's keys": part(3, pair(b"k", b"v")) + part(3, pair(BAD, b"v")),
    "the key of a message": part(4, pair(b"k", b"")) + part(4, pair(BAD, b"")),
    "in a message": part(5, part(4, pair(b"k", part(1, BAD)))),
}


@pytest.mark.parametrize("body", BAD_STRINGS.values(), ids=BAD_STRINGS)
def test_a_string_that_is_not_utf8_is_refused_as_in_a_column_and_its_neighbours_are_not(body: bytes) -> None:
    good = part(1, part(1, b"x") + part(6, BAD))
    found = decoded(STRINGS % "", good, part(1, body), part(2, packed("p.T", body)), good)
    assert [(failure.row, failure.reason) for failure in found.failures] == [
        (1, "invalid_utf8"),
        (2, "invalid_utf8"),
    ]
    assert found.rows.column("t").to_pylist() == ['{"s":"x","b":"//4="}'] * 2


BAD_COLUMNS = {
    "a field": part(3, BAD),
    "one of many": part(6, b"x") + part(6, BAD),
    "a map's value": part(4, pair(b"k", BAD)),
    "one of a map's keys": part(4, pair(b"k", b"v")) + part(4, pair(BAD, b"v")),
    "the key of a message": part(5, pair(BAD, b"")),
}


@pytest.mark.parametrize("group", ["", GROUP], ids=["plain", "with a group"])
@pytest.mark.parametrize("body", BAD_COLUMNS.values(), ids=BAD_COLUMNS)
def test_a_string_that_is_not_utf8_is_refused_in_columns_beside_groups_too(body: bytes, group: str) -> None:
    found = decoded(STRINGS % group, body, b"")
    assert [(failure.row, failure.reason) for failure in found.failures] == [(0, "invalid_utf8")]
    assert found.rows.num_rows == 1


KNOWN = """syntax = "proto3"; package p; import "google/protobuf/any.proto"; import "google/protobuf/field_mask.proto";
import "google/protobuf/timestamp.proto"; import "google/protobuf/duration.proto";
message N { N n = 1; google.protobuf.FieldMask fm = 2; google.protobuf.Timestamp ts = 3; google.protobuf.Duration du = 4; }
message M { N n = 1; google.protobuf.Any any = 2; google.protobuf.Timestamp ts = 3; google.protobuf.Duration du = 4; }"""
FIRST, LAST, LONGEST = -62_135_596_800, 253_402_300_799, 315_576_000_000


def mask(*paths: str) -> bytes:
    return b"".join(part(1, path.encode()) for path in paths)


@pytest.mark.parametrize(
    ("paths", "text"),
    [
        ((), ""),
        (("user_name",), "userName"),
        (("a.user_name", "b"), "a.userName,b"),
        (("userName",), ["userName"]),
        (("user_name", "userName"), ["user_name", "userName"]),
        (("address_1",), ["address_1"]),
        (("_", "a__b"), ["_", "a__b"]),
        (("a,b",), ["a,b"]),
        (("",), [""]),
        (("stra_ße",), ["stra_ße"]),
    ],
)
def test_a_field_mask_is_protobufs_text_where_that_can_be_read_back_and_otherwise_its_paths(
    paths: tuple[str, ...], text: str | list[str]
) -> None:
    body = part(2, mask(*paths))
    packed_mask = packed("google.protobuf.FieldMask", mask(*paths))
    found = decoded(KNOWN, part(1, part(1, body)) + part(2, packed_mask))
    assert texts(found, "n") == [{"n": {"fm": text}}]
    assert texts(found, "any") == [{"@type": "x/google.protobuf.FieldMask", "value": text}]


@pytest.mark.parametrize(
    ("field", "seconds", "nanos", "text"),
    [
        (3, 5, -1, "1970-01-01T00:00:04.999999999Z"),
        (3, 5, 2_000_000_000, "1970-01-01T00:00:07Z"),
        (3, FIRST, 0, "0001-01-01T00:00:00Z"),
        (3, FIRST, -1, "0000-12-31T23:59:59.999999999Z"),
        (3, LAST, 999_999_999, "9999-12-31T23:59:59.999999999Z"),
        (4, 1, -1, "0.999999999s"),
        (4, -1, 500_000_000, "-0.500s"),
        (4, 0, -1_500_000, "-0.001500s"),
        (4, 1, 1_000_000_000, "2s"),
    ],
)
def test_a_time_that_its_column_takes_is_written_whole(
    field: int, seconds: int, nanos: int, text: str
) -> None:
    time = number(1, seconds) + number(2, nanos)
    name = {3: "Timestamp", 4: "Duration"}[field]
    payload = (
        part(1, part(field, time)) + part(2, packed(f"google.protobuf.{name}", time)) + part(field, time)
    )
    found = decoded(KNOWN, payload)
    assert texts(found, "n") == [{{3: "ts", 4: "du"}[field]: text}]
    assert texts(found, "any")[0]["value"] == text


@given(
    field=st.sampled_from([3, 4]),
    seconds=st.integers(-(2**63), 2**63 - 1)
    | st.builds(add, st.sampled_from([FIRST, LAST, LONGEST, -LONGEST, 0]), st.integers(-3, 3)),
    nanos=st.integers(-(2**31), 2**31 - 1) | st.integers(-1_001, 1_001) | st.integers(0, 999_999_999),
)
def test_times_are_taken_and_refused_as_in_columns_and_written_as_protobuf_does(
    field: int, seconds: int, nanos: int
) -> None:
    time = number(1, seconds) + number(2, nanos)
    name = {3: "Timestamp", 4: "Duration"}[field]
    column = decoded(KNOWN, part(field, time))
    within = decoded(KNOWN, part(1, part(field, time)))
    in_any = decoded(KNOWN, part(2, packed(f"google.protobuf.{name}", time)))
    reasons = [failure.reason for failure in column.failures]
    assert reasons in ([], ["out_of_range"])
    assert [failure.reason for failure in within.failures] == reasons
    assert [failure.reason for failure in in_any.failures] == reasons
    google: Any = {3: Timestamp, 4: Duration}[field](seconds=seconds, nanos=nanos)
    try:
        wanted = google.ToJsonString()
    except ValueError:
        return
    assert texts(in_any, "any")[0]["value"] == wanted


NUMBERS = """syntax = "proto3"; package p; import "google/protobuf/wrappers.proto"; import "google/protobuf/struct.proto";
message M { M t = 1; float f = 2; repeated float fs = 3; map<string, float> mf = 4; double d = 5; google.protobuf.FloatValue w = 6;
  optional google.protobuf.NullValue n = 7; repeated google.protobuf.NullValue ns = 8; map<string, google.protobuf.NullValue> mn = 9; }"""

# Of those next to zero Google writes digits that no two of them need.
SINGLE = st.floats(width=32, allow_subnormal=False)


@given(
    SINGLE,
    st.lists(SINGLE, max_size=3),
    st.dictionaries(st.sampled_from("ab"), SINGLE),
    st.floats(),
    st.integers(0, 2),
)
def test_numbers_and_nulls_are_what_protobuf_writes(
    one: float, some: list[float], named: dict[str, float], double: float, nulls: int
) -> None:
    message = message_class(NUMBERS, "p.M")()
    inner = message.t
    inner.f, inner.d, inner.w.value, inner.n = one, double, one, 0
    inner.fs.extend(some)
    inner.mf.update(named)
    inner.ns.extend([0] * nulls)
    inner.mn.update(dict.fromkeys("ab"[:nulls], 0))
    wanted = json_format.MessageToDict(inner, preserving_proto_field_name=True)
    assert str(texts(decoded(NUMBERS, message.SerializeToString()))) == str([in_order(wanted)])


def test_a_null_is_none_of_the_enums_that_are_numbers() -> None:
    text = NUMBERS.replace("M t = 1;", "M t = 1; google.protobuf.Any any = 10;").replace(
        "package p;", 'package p; import "google/protobuf/any.proto";'
    )
    message = message_class(text, "p.M")()
    message.any.Pack(message_class(text, "p.M")(n=0, ns=[0], mn={"a": 0}))
    options = {"convert.any.fields.to.json": "true", "enums.as.ints": "true"}
    (found,) = texts(decoded(text, message.SerializeToString(), options=options), "any")
    assert found == {"@type": "type.googleapis.com/p.M", "n": None, "ns": [None], "mn": {"a": None}}


def in_order(value: Any) -> Any:
    """The same with each map's entries in the order of their keys, as in JSON text."""
    return {name: dict(sorted(one.items())) if isinstance(one, dict) else one for name, one in value.items()}
