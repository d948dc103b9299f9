"""Payloads that nobody's serializer writes: each fails with its reason, and costs its neighbours nothing."""

from __future__ import annotations

import struct
from typing import Any

import pyarrow as pa
import pytest
from tests.codecs.avro_samples import long, record, schema

from distributary.codecs import reasons
from distributary.codecs.avro.codec import AvroCodec
from distributary.codecs.avro.decode.cursor import MAX_EMPTY_ITEMS, MAX_NESTING

ENUM = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
LONGS = {"type": "array", "items": "long"}
NULLS = {"type": "array", "items": "null"}
MAP = {"type": "map", "values": "long"}
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}
CHAIN = {"type": "record", "name": "Chain", "fields": [{"name": "next", "type": ["null", "Chain"]}]}
TREE = {
    "type": "record",
    "name": "Tree",
    "fields": [{"name": "all", "type": {"type": "array", "items": "Tree"}}],
}
MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
MICROS = {"type": "long", "logicalType": "local-timestamp-micros"}
DATE = {"type": "int", "logicalType": "date"}

# The type, bytes that are no value of it, the reason, bytes that are a value.
HOSTILE: list[tuple[Any, bytes, str, bytes]] = [
    ("long", b"", reasons.MALFORMED, b"\x02"),
    ("long", b"\x02\x02", reasons.TRAILING_BYTES, b"\x02"),
    ("long", b"\xff" * 9 + b"\x02", reasons.MALFORMED, b"\xff" * 9 + b"\x01"),
    ("long", b"\xff" * 10, reasons.MALFORMED, b"\x80\x00"),
    ("int", long(2**31), reasons.MALFORMED, long(2**31 - 1)),
    ("int", long(-(2**31) - 1), reasons.MALFORMED, long(-(2**31))),
    ("boolean", b"\x02", reasons.MALFORMED, b"\x01"),
    ("double", b"\0" * 7, reasons.MALFORMED, b"\0" * 8),
    ("float", b"\0" * 3, reasons.MALFORMED, b"\0" * 4),
    ("string", b"\x02\xff", reasons.INVALID_UTF8, b"\x02a"),
    ("string", b"\x02\xc3", reasons.INVALID_UTF8, b"\x04\xc3\xa4"),
    ("bytes", long(2**63 - 1), reasons.MALFORMED, b"\0"),
    ("bytes", long(-(2**63)), reasons.MALFORMED, b"\0"),
    ({"type": "fixed", "name": "F", "size": 4}, b"abc", reasons.MALFORMED, b"abcd"),
    (ENUM, long(2), reasons.MALFORMED, long(1)),
    (ENUM, long(-1), reasons.MALFORMED, long(0)),
    (["null", "long"], long(2), reasons.MALFORMED, long(0)),
    (["null", "long"], long(2) + long(5), reasons.MALFORMED, long(1) + long(5)),
    (["null", "long"], long(-1), reasons.MALFORMED, long(0)),
    (["null", "long"], long(-1) + long(5), reasons.MALFORMED, long(0)),
    (["long", "null"], long(2), reasons.MALFORMED, long(1)),
    (["long"], long(1), reasons.MALFORMED, long(0) + long(5)),
    (["string", "long", "boolean"], long(3), reasons.MALFORMED, long(1) + long(5)),
    (["string", "long", "boolean"], long(-2), reasons.MALFORMED, long(1) + long(5)),
    (["int", "long"], long(0) + long(2**31), reasons.MALFORMED, long(1) + long(2**31)),
    (LONGS, long(2**40) + long(0), reasons.MALFORMED, long(0)),
    (LONGS, long(-(2**63)) + long(1) + long(0), reasons.MALFORMED, long(0)),
    (LONGS, long(-1) + long(-1) + long(0) * 2, reasons.MALFORMED, long(-1) + long(1) + long(0) * 2),
    (LONGS, long(1) + long(1), reasons.MALFORMED, long(1) + long(1) + long(0)),
    (MAP, long(2**40) + long(0), reasons.MALFORMED, long(0)),
    (MAP, long(1) + b"\x02\xff" + long(1) + long(0), reasons.INVALID_UTF8, long(0)),
    (NULLS, long(5_000_000) + long(0), reasons.TOO_MANY_ITEMS, long(MAX_EMPTY_ITEMS) + long(0)),
    (NULLS, (long(6_000) * 2) + long(0), reasons.TOO_MANY_ITEMS, long(3) + long(0)),
    (
        {"type": "array", "items": record(name="N")},
        long(-(2**63)) + long(0) * 2,
        reasons.TOO_MANY_ITEMS,
        long(0),
    ),
    (
        {"type": "array", "items": NULLS},
        (long(3) + (long(5_000) + long(0)) * 3) + long(0),
        reasons.TOO_MANY_ITEMS,
        b"\0",
    ),
    (DECIMAL, b"\0", reasons.MALFORMED, b"\x02\x01"),
    (DECIMAL, b"\x04\x27\x10", reasons.OUT_OF_RANGE, b"\x04\x27\x0f"),
    (DECIMAL, b"\x04\xd8\xf0", reasons.OUT_OF_RANGE, b"\x04\xd8\xf1"),
    (DECIMAL, long(40) + b"\x01" * 40, reasons.OUT_OF_RANGE, long(40) + b"\xff" * 40),
    (DATE, long(2_932_897), reasons.OUT_OF_RANGE, long(2_932_896)),
    (DATE, long(-719_163), reasons.OUT_OF_RANGE, long(-719_162)),
    (MILLIS, long(2**63 - 1), reasons.OUT_OF_RANGE, long(253_402_300_799_999)),
    (MILLIS, long(253_402_300_800_000), reasons.OUT_OF_RANGE, long(-62_135_596_800_000)),
    (MICROS, long(-(2**63)), reasons.OUT_OF_RANGE, long(0)),
    (["null", CHAIN], long(1) * 20_000 + long(0), reasons.TOO_DEEP, long(1) * MAX_NESTING + long(0)),
    (TREE, long(1) * 1_000_000, reasons.TOO_DEEP, long(1) * 49 + long(0) * 50),
    (TREE, long(2**40) + long(0), reasons.MALFORMED, long(0)),
]


@pytest.mark.parametrize(("spec", "bad", "reason", "good"), HOSTILE, ids=lambda part: str(part)[:50])
def test_a_broken_value_fails_alone(spec: Any, bad: bytes, reason: str, good: bytes) -> None:
    reader = AvroCodec().reader(schema(record(spec, name="Whole")), ())
    payloads = [good, bad, good, bad[:-1] + bad[-1:], good]
    decoded = reader.decode(pa.array(payloads, pa.binary()))
    assert decoded.source.tolist() == [0, 2, 4]
    assert [(failure.row, failure.reason) for failure in decoded.failures] == [(1, reason), (3, reason)]
    assert all(failure.detail == reasons.SENTENCES[reason] for failure in decoded.failures)
    alone = reader.decode(pa.array([good], pa.binary()))
    assert decoded.rows.to_pylist() == alone.rows.to_pylist() * 3


def test_no_record_can_shift_or_forge_its_neighbours() -> None:
    reader = AvroCodec().reader(schema(record("string", "long")), ())
    good = b"\x06abc" + long(7)
    # One long enough for three, one that is empty, one that asks for what its neighbour has.
    for forged in (good * 3, b"", b"\x06abc", b"\x80\x01abc", good + b"\0" * 16 + good):
        decoded = reader.decode(pa.array([good, forged, good, good], pa.binary()))
        assert decoded.rows.to_pylist() == [{"c0": "abc", "c1": 7}] * 3
        assert decoded.source.tolist() == [0, 2, 3]


def test_two_records_that_are_right_only_together_both_fail() -> None:
    reader = AvroCodec().reader(schema(record("string", "long")), ())
    whole = b"\x06abc" + long(7)
    decoded = reader.decode(pa.array([whole[:3], whole[3:], whole], pa.binary()))
    assert decoded.source.tolist() == [2]
    assert [failure.reason for failure in decoded.failures] == [reasons.MALFORMED] * 2


def test_numbers_that_are_none_are_still_numbers() -> None:
    reader = AvroCodec().reader(schema(record("double", "float")), ())
    payload = struct.pack("<df", float("nan"), float("-inf"))
    row = reader.decode(pa.array([payload], pa.binary())).rows.to_pylist()[0]
    assert str(row) == "{'c0': nan, 'c1': -inf}"


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, MemoryError])
def test_a_process_told_to_stop_is_no_broken_record(
    error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = AvroCodec().reader(schema(record("long", "long", "long")), ())

    def stopped(_payloads: pa.BinaryArray) -> pa.RecordBatch:
        raise error

    monkeypatch.setattr(reader._fast, "batch", stopped)
    with pytest.raises(error):
        reader.decode(pa.array([b""], pa.binary()))
