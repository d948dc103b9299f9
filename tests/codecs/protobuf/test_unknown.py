"""Fields that a record has and its schema lacks: seen on a sample, at any depth, and told by where they are."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from tests.codecs.protobuf_samples import RICH, RICH_PATH, descriptor, messages, schema
from tests.examples import examples

from distributary.codecs.base import UnknownField
from distributary.codecs.protobuf.codec import ProtobufCodec, ProtobufReader
from distributary.codecs.protobuf.unknown import LEAST, MAX_BYTES, MAX_FIELDS, MOST, ONE_OF

FIELDS = """
  enum Size { SMALL = 0; LARGE = 1; }
  message Inner { optional int32 x = 1; optional string s = 2; optional Inner again = 3; }
  message M {
    optional int32 n = 1; optional Inner inner = 2; repeated Inner inners = 3; map<string, Inner> named = 4;
    oneof one { string text = 5; Inner arm = 6; } optional Size size = 7; repeated Size sizes = 8; map<string, Size> sized = 9;
    %s
  }"""
PROTO3 = 'syntax = "proto3";' + FIELDS % ""
PROTO2 = (
    'syntax = "proto2";'
    + FIELDS
    % "required int32 needed = 10; optional group Deep = 11 { optional int32 x = 1; } extensions 100 to 199;"
    + "extend M { optional Inner more = 100; }"
)


def reader(text: str) -> ProtobufReader:
    return ProtobufCodec().reader(schema(text), (1,))


def field(number: int, body: bytes) -> bytes:
    """A length-delimited field, of a number and a length of one byte."""
    return bytes([number << 3 | 2, len(body)]) + body


NEW = b"\x78\x01"  # field 15, 1

CASES: dict[str, tuple[bytes, list[str]]] = {
    "nothing": (b"\x08\x01", []),
    "at the top": (NEW, ["15"]),
    "two, one of them twice": (NEW + b"\x72\x00" + NEW, ["14", "15"]),
    "in a message": (field(2, NEW), ["inner.15"]),
    "in a list's element": (field(3, b"\x08\x01") + field(3, NEW), ["inners.element.15"]),
    "in a map's value": (field(4, field(1, b"k") + field(2, NEW)), ["named.value.15"]),
    "in a oneof's member": (field(6, NEW), ["arm.15"]),
    "where messages contain themselves": (field(2, field(3, field(3, NEW))), ["inner.again.again.15"]),
    "known, sent as another type": (field(1, b"x"), ["n"]),
    "a number that an enum lacks": (b"\x38\x05" + field(8, b"\x05") + field(9, field(1, b"k") + b"\x10\x05"), []),
    "an enum sent as text": (b"\x3d\0\0\0\0", ["size"]),
}  # fmt: skip


@pytest.mark.parametrize("text", [PROTO3, PROTO2], ids=["proto3", "proto2"])
@pytest.mark.parametrize("case", CASES)
def test_a_field_that_the_schema_lacks_is_found(text: str, case: str) -> None:
    payload, paths = CASES[case]
    found = reader(text).decode(pa.array([b"", payload], pa.binary())).unknown
    assert list(found) == [UnknownField(path, 1, 1) for path in paths]


def test_groups_and_extensions_are_looked_into_and_what_no_extension_names_is_found() -> None:
    payload = b"\x5b\x78\x01\x5c" + b"\xa2\x06\x02\x78\x01" + b"\xa8\x06\x01"
    decoded = reader(PROTO2).decode(pa.array([payload], pa.binary()))
    assert not decoded.failures
    assert [one.path for one in decoded.unknown] == ["101", "deep.15", "more.15"]


def test_each_field_is_counted_over_the_sample_with_its_first_record() -> None:
    broken = b"\x0f"
    decoded = reader(PROTO3).decode(
        pa.array([broken, b"", NEW, broken, NEW + field(2, NEW), b""], pa.binary())
    )
    assert [failure.row for failure in decoded.failures] == [0, 3]
    assert decoded.unknown == (UnknownField("15", 2, 2), UnknownField("inner.15", 1, 4))


def test_the_sample_is_from_all_over_the_batch_and_has_bounds() -> None:
    found = reader(PROTO3)
    few = found.decode(pa.array([NEW] * (LEAST + 1), pa.binary())).unknown
    many = found.decode(pa.array([NEW] * ONE_OF * (MOST + 10), pa.binary())).unknown
    assert [one.records for one in (*few, *many)] == [LEAST, MOST]
    late = found.decode(pa.array([b""] * 1_000 + [NEW] * 1_000, pa.binary())).unknown
    assert late[0].first >= 1_000


def test_a_hostile_record_costs_no_more_than_an_honest_one() -> None:
    many = b"".join(
        bytes([number << 3 & 0x7F | 0x80, number >> 4, 1]) for number in range(16, 16 + 10 * MAX_FIELDS)
    )
    assert len(reader(PROTO3).decode(pa.array([many], pa.binary())).unknown) == MAX_FIELDS
    assert not reader(PROTO3).decode(pa.array([NEW * MAX_BYTES], pa.binary())).unknown


@settings(
    deadline=None,
    max_examples=examples(15),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(messages(descriptor(RICH, "rich.Rich")))
def test_no_record_of_its_own_schema_has_any(sent: Any) -> None:
    found = ProtobufCodec().reader(schema(RICH), RICH_PATH)
    assert not found.decode(pa.array([sent.SerializeToString()], pa.binary())).unknown
