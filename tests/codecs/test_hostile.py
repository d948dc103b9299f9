"""Payloads that nobody's serializer writes, the same attacks on every format: each ends in one known place, and costs nobody else.

What is particular to one format's types is in test_avro_hostile.py, test_protobuf.py and test_json_decode.py.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from tests.codecs.avro_samples import by_fastavro, long
from tests.codecs.protobuf_samples import part, varint
from tests.ingest.kafka_records import Sent, batch, folder, pins, rows_of

from distributary.codecs import reasons
from distributary.codecs.base import INFERRED, load_codec
from distributary.ingest.columns.safe_names import QUARANTINE_TABLE
from distributary.ingest.pins import PinnedRecord, Pins
from distributary.ingest.worker.demux import Demultiplexer
from distributary.registry.base import Schema

ID = 7

AVRO_TYPES: dict[str, Any] = {
    "game_name": "string",
    "n": "long",
    "s": "string",
    "at": {"type": "long", "logicalType": "timestamp-micros"},
    "longs": {"type": "array", "items": "long"},
    "nulls": {"type": "array", "items": "null"},
    "chain": [
        "null",
        {"type": "record", "name": "Chain", "fields": [{"name": "next", "type": ["null", "Chain"]}]},
    ],
}
AVRO_GOOD = {"game_name": b"\x0achess", "n": long(1), "s": b"\x02a", "at": long(0), "longs": long(0), "nulls": long(0), "chain": long(0)}  # fmt: skip

PROTOBUF = """syntax = "proto3"; import "google/protobuf/timestamp.proto"; import "google/protobuf/struct.proto";
message Chain { Chain next = 1; }
message Wide {
  string game_name = 1; int64 n = 2; string s = 3; google.protobuf.Timestamp at = 4; repeated int64 longs = 5; Chain chain = 6;
  google.protobuf.Struct struct = 7;
}"""

JSON_TYPES: dict[str, Any] = {
    "game_name": {"type": "string"},
    "n": {"type": "integer"},
    "s": {"type": "string"},
    "at": {"type": "string", "format": "date-time"},
    "longs": {"type": "array", "items": {"type": "integer"}},
    "chain": {"type": "object"},
}
STRUCT = {
    "game_name": "string",
    "n": "long",
    "s": "string",
    "at": "timestamp",
    "longs": {"type": "array", "elementType": "long", "containsNull": True},
    "chain": "string",
}


class Format(NamedTuple):
    """A format's schema, what a record of it is called, what stands before its body, and a good body."""

    schema: Schema
    path: tuple[int, ...]
    header: bytes
    good: bytes


def _wide(name: str, good: bytes) -> Format:
    header = struct.pack(">bI", 0, ID)
    if name == "avro":
        fields = [{"name": field, "type": kind} for field, kind in AVRO_TYPES.items()]
        text = json.dumps({"type": "record", "name": "Wide", "fields": fields})
        return Format(Schema(ID, "AVRO", text), (), header, good)
    if name == "protobuf":
        return Format(Schema(ID, "PROTOBUF", PROTOBUF), (1,), header + b"\x02\x02", good)
    if name == "jsonschema":
        text = json.dumps({"type": "object", "properties": JSON_TYPES})
        return Format(Schema(ID, "JSON", text), (), header, good)
    text = json.dumps(
        {"type": "struct", "fields": [{"name": field, "type": kind} for field, kind in STRUCT.items()]}
    )
    return Format(Schema(ID, "STRUCT", text), (), b"", good)


def avro(**parts: bytes) -> bytes:
    """A body with these bytes for these fields."""
    return b"".join({**AVRO_GOOD, **parts}.values())


def nested(number: int, depth: int) -> bytes:
    """Field `number` in field 1 in field 1, this often."""
    body = b""
    for _ in range(depth):
        body = part(1, body)
    return part(number, body)


def values_in_values(depth: int) -> bytes:
    """A Struct whose only value is a list in a list, this often."""
    body = b""
    for _ in range(depth):
        body = part(1, part(6, body))
    return part(7, part(1, part(1, b"k") + part(2, part(6, body))))


def text(rest: str) -> bytes:
    """A JSON object that begins with its game and goes on with this."""
    return b'{"game_name":"chess",' + rest.encode("utf-8", "surrogateescape")


PB = part(1, b"chess")
GOOD = {
    "avro": avro(),
    "json": text('"n":1,"s":"a"}'),
    "jsonschema": text('"n":1,"s":"a"}'),
    "protobuf": PB + b"\x10\x01" + part(3, b"a"),
}
FORMATS = {name: _wide(name, good) for name, good in GOOD.items()}

# Where a record ends: delivered, its odd values rescued if its format can tell, or in quarantine for a reason.
ROW = "a row"
NO_ENTITY = "no_entity"

Ends = tuple[bytes, str]


class Attack(NamedTuple):
    """The same idea in each format that it can be had in; both kinds of JSON share theirs."""

    avro: Ends | None = None
    protobuf: Ends | None = None
    json: Ends | None = None

    def on(self, name: str) -> Ends | None:
        return {"avro": self.avro, "protobuf": self.protobuf}.get(name, self.json)


ATTACKS: Mapping[str, Attack] = {
    "nothing at all": Attack((b"", reasons.MALFORMED), (b"", NO_ENTITY), (b"", reasons.MALFORMED)),
    "a record cut short": Attack(
        (avro()[:-2], reasons.MALFORMED), (GOOD["protobuf"][:-1], reasons.MALFORMED), (GOOD["json"][:-1], reasons.MALFORMED)
    ),
    "the rest of a record cut short": Attack(
        (avro()[5:], reasons.MALFORMED), (GOOD["protobuf"][2:], reasons.MALFORMED), (GOOD["json"][5:], reasons.MALFORMED)
    ),
    "bytes behind the end": Attack(
        (avro() + b"\0", reasons.TRAILING_BYTES),
        (GOOD["protobuf"] + b"\x0f", reasons.MALFORMED),
        (GOOD["json"] + b" x", reasons.MALFORMED),
    ),
    # Two messages on end are one, says Protobuf: the later values count.
    "a second record behind the first": Attack(
        (avro() * 2, reasons.TRAILING_BYTES), (GOOD["protobuf"] * 2, ROW), (GOOD["json"] * 2, reasons.MALFORMED)
    ),
    "written by a longer schema": Attack(
        (avro() + long(5), reasons.TRAILING_BYTES), (PB + b"\xf8\x01\x01", ROW), (text('"more":{"a":1}}'), ROW)
    ),
    "a text that is not UTF-8": Attack(
        (avro(s=b"\x02\xff"), reasons.INVALID_UTF8),
        (PB + part(3, b"\xff\xfe"), reasons.INVALID_UTF8),
        (text('"s":"\udcff"}'), reasons.INVALID_UTF8),
    ),
    "a text of 2**40 bytes announced": Attack(
        (avro(s=long(2**40)), reasons.MALFORMED), (PB + b"\x1a" + varint(2**40), reasons.MALFORMED), None
    ),
    # ptars panics at this one.
    "a length that native code overflows at": Attack(
        (avro(s=long(2**63 - 1)), reasons.MALFORMED), (PB + b"\x1a" + b"\xff" * 9 + b"\x01", reasons.MALFORMED), None
    ),
    "a negative length": Attack((avro(s=long(-1)), reasons.MALFORMED), None, None),
    "a number that never ends": Attack(
        (avro(n=b"\xff" * 100_000), reasons.MALFORMED),
        (PB + b"\x10" + b"\xff" * 100_000, reasons.MALFORMED),
        (text(f'"n":{"9" * 100_000}}}'), ROW),
    ),
    "an exponent that fills all memory": Attack(None, None, (text('"n":1e999999999}'), ROW)),
    "nested 20,000 deep": Attack(
        (avro(chain=long(1) * 20_000 + long(0)), reasons.TOO_DEEP),
        (PB + nested(6, 5_000), reasons.TOO_DEEP),
        (text('"chain":' + '{"next":' * 20_000 + "{}" + "}" * 20_001), reasons.TOO_DEEP),
    ),
    "nested just too deep": Attack(
        None, (PB + nested(6, 101), reasons.TOO_DEEP), (text('"chain":' + "[" * 100 + "]" * 100 + "}"), reasons.TOO_DEEP)
    ),
    "nested 100,000 deep and never closed": Attack(
        (avro(chain=long(1) * 100_000), reasons.TOO_DEEP), None, (text('"chain":' + "[" * 100_000), reasons.TOO_DEEP)
    ),
    "JSON of its own nested 5,000 deep": Attack(None, (PB + values_in_values(5_000), reasons.TOO_DEEP), None),
    "five million items that take no byte": Attack(
        (avro(nulls=long(5_000_000) + long(0)), reasons.TOO_MANY_ITEMS), None, None
    ),
    "items announced that are not there": Attack(
        (avro(longs=long(5_000_000) + long(0)), reasons.MALFORMED),
        (PB + b"\x2a" + varint(5_000_000), reasons.MALFORMED),
        (text('"longs":['), reasons.MALFORMED),
    ),
    "a count that overflows when negated": Attack((avro(longs=long(-(2**63)) + long(1)), reasons.MALFORMED), None, None),
    "a time out of range": Attack(
        (avro(at=long(2**62)), reasons.OUT_OF_RANGE),
        (PB + part(4, b"\x08" + varint(2**62)), reasons.OUT_OF_RANGE),
        (text('"at":"99999-01-01T00:00:00Z"}'), ROW),
    ),
    "a value of another type": Attack(None, (PB + part(2, b"12"), ROW), (text('"n":"12"}'), ROW)),
    "a wire type that there is not": Attack(None, (PB + b"\x17", reasons.MALFORMED), None),
    "a group that nobody closes": Attack(None, (PB + b"\x7b", reasons.MALFORMED), None),
    # The native decoder's process dies of this one: it has no stack for so many.
    "groups within groups that nobody closes": Attack(None, (PB + b"\x7b" * 150_000, reasons.MALFORMED), None),
    "a number that JSON lacks": Attack(None, None, (text('"n":NaN}'), reasons.MALFORMED)),
    # Arrow's reader dies of this one.
    "a null behind the object": Attack(None, None, (GOOD["json"] + b" null", reasons.MALFORMED)),
    "an end that another record would give": Attack(None, None, (GOOD["json"] + b'},"zz":{"n":1}', reasons.MALFORMED)),
    "no object": Attack(None, None, (b'[{"game_name":"chess"}]', reasons.MALFORMED)),
    "a name twice": Attack(None, (PB + b"\x10\x07\x10\x01", ROW), (text('"n":7,"n":1}'), ROW)),
    "half a character": Attack(None, None, (text('"s":"\\ud800"}'), ROW)),
    "fifty thousand fields": Attack(
        None,
        (PB + b"".join(varint(number << 3) + b"\x01" for number in range(20, 50_020)), ROW),
        (text(",".join(f'"k{number}":1' for number in range(50_000)) + "}"), ROW),
    ),
    "a megabyte of one byte": Attack(
        (b"\xff" * 2**20, reasons.MALFORMED), (b"\xff" * 2**20, reasons.MALFORMED), (b"\xff" * 2**20, reasons.INVALID_UTF8)
    ),
}  # fmt: skip

EACH = [(name, attack) for name in sorted(FORMATS) for attack in ATTACKS if ATTACKS[attack].on(name)]


@pytest.mark.parametrize(("name", "attack"), EACH)
def test_an_attack_ends_where_it_should_and_its_neighbours_are_decoded(name: str, attack: str) -> None:
    ends = ATTACKS[attack].on(name)
    assert ends is not None
    (payload, wanted), format_ = ends, FORMATS[name]
    reader = load_codec(name).reader(format_.schema, format_.path)
    decoded = reader.decode(pa.array([*[format_.good] * 12, payload, *[format_.good] * 12], pa.binary()))
    taken = wanted in (ROW, NO_ENTITY)
    assert [(failure.row, failure.reason) for failure in decoded.failures] == (
        [] if taken else [(12, wanted)]
    )
    assert all(
        failure.detail == reasons.SENTENCES[wanted] or name.startswith("json") for failure in decoded.failures
    )
    (good,) = reader.decode(pa.array([format_.good], pa.binary())).rows.to_pylist()
    rows = decoded.rows.to_pylist()
    assert (rows[:12], rows[-12:]) == ([good] * 12, [good] * 12)


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_a_batch_of_all_attacks_is_brought_to_its_places_by_one_worker(name: str, tmp_path: Path) -> None:
    format_ = FORMATS[name]
    found = [ends for attack in ATTACKS.values() if (ends := attack.on(name)) is not None]
    # A good record before each: neighbours of every attack, in one Arrow batch.
    payloads = [payload for attacked, _ in found for payload in (format_.good, attacked)]
    sent = [Sent(format_.header + payload, offset) for offset, payload in enumerate(payloads)]
    by = _pins(tmp_path, name, format_)
    task = Demultiplexer(by)
    task.take(batch(sent))
    report = task.finish()

    wanted = {2 * place + 1: reason for place, (_, reason) in enumerate(found)}
    if name == "json":
        # An empty value has no header that could be missing: where none is asked for, it is a record without JSON.
        assert wanted[1] == reasons.MALFORMED
    quarantined = {row["kafka_offset"]: row for row in rows_of(by, report, QUARANTINE_TABLE)}
    assert {offset: row["reason"] for offset, row in quarantined.items()} == {
        offset: reason for offset, reason in wanted.items() if reason != ROW
    }
    assert all(row["value"] == sent[offset].value for offset, row in quarantined.items())
    delivered = [row["kafka_offset"] for row in rows_of(by, report, folder("chess"))]
    assert sorted(delivered) == [offset for offset in range(len(sent)) if wanted.get(offset, ROW) == ROW]
    assert not report.questions.waiting


@pytest.mark.parametrize("name", ["json", "jsonschema"])
def test_what_json_has_of_another_type_is_rescued_and_never_made_to_fit(name: str, tmp_path: Path) -> None:
    by = _pins(tmp_path, name, FORMATS[name])
    task = Demultiplexer(by)
    odd = ['"n":"12"}', '"n":12.7}', '"n":true}', '"n":1e20}', '"at":1}']
    payloads = [text('"n":1,"at":"2026-01-02T03:04:05Z"}'), *map(text, odd)]
    task.take(
        batch([Sent(FORMATS[name].header + payload, offset) for offset, payload in enumerate(payloads)])
    )
    _, *rows = rows_of(by, task.finish(), folder("chess"))
    assert [(row["n"], row["at"]) for row in rows] == [(None, None)] * len(odd)
    assert [row["_rescued_data"] for row in rows] == ["{" + rest for rest in odd]


def _pins(root: Path, name: str, format_: Format) -> Pins:
    record = PinnedRecord((INFERRED if name == "json" else ID, format_.path), format_.schema)
    return pins(root, codec=name, records=(record,), grow=False)


def test_the_good_avro_body_is_what_fastavro_writes() -> None:
    # The table is only worth something if its good body is one.
    kinds = [{"name": field, "type": kind} for field, kind in AVRO_TYPES.items()]
    row = {"game_name": "chess", "n": 1, "s": "a", "at": 0, "longs": [], "nulls": [], "chain": None}
    assert by_fastavro({"type": "record", "name": "Wide", "fields": kinds}, row) == avro()
