"""Keys in a worker: their text, what is asked for, and that none ever costs its record."""

from __future__ import annotations

import os
import signal
import struct
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.codecs.avro_samples import long
from tests.ingest.kafka_records import Sent, aside_rows, batch, pins, rows_of, value

from distributary.codecs.base import Decoded
from distributary.codecs.mixed.keys import KeyCodec, KeyReader
from distributary.ingest import pins as reasons
from distributary.ingest.columns.safe_names import table_name
from distributary.ingest.pins import PinnedKeys, PinnedRecord
from distributary.ingest.settings.groups import Columns, Route
from distributary.ingest.worker.demux import Demultiplexer
from distributary.ingest.worker.keys import Keys
from distributary.registry.base import Schema

LONG = PinnedRecord((5, ()), Schema(5, "AVRO", '"long"'))
LONG_KNOWN = PinnedKeys(decoded=True, records=(LONG,))
WITH_TEXT = Columns(key_text="who")
KEYS = [
    b"ann",
    None,
    b"",
    b"\xff",
    struct.pack(">bI", 0, 5) + long(7),
    struct.pack(">bI", 0, 5) + b"\xff",
    struct.pack(">bI", 0, 6) + long(7),
    struct.pack(">bI", 0, 9) + b"x",
    b"\x00\x00",
    b'{"id":7}',
]


def test_keys_as_text_are_text_or_nothing() -> None:
    looked = Keys(PinnedKeys()).look(pa.array(KEYS, pa.binary()))
    assert looked.text.to_pylist()[:4] == ["ann", None, "", None]
    assert looked.text.to_pylist()[8:] == ["\0\0", '{"id":7}']
    assert (looked.asks < 0).all()


def test_keys_that_name_a_schema_are_decoded_or_asked_for() -> None:
    known = replace(LONG_KNOWN, refused={(9, ()): reasons.unknown_schema(9)})
    looked = Keys(known).look(pa.array(KEYS, pa.binary()))
    assert looked.text.to_pylist() == ["ann", None, "", None, "7", None, None, None, "\0\0", '{"id":7}']
    assert [looked.kinds[ask] if ask >= 0 else None for ask in looked.asks] == [None] * 6 + [(6, ())] + [
        None
    ] * 3


@given(st.lists(st.none() | st.binary(max_size=9), max_size=20))
def test_any_keys_give_as_many_texts(keys: list[bytes | None]) -> None:
    looked = Keys(LONG_KNOWN).look(pa.array(keys, pa.binary()))
    assert len(looked.text) == len(looked.scalar) == len(looked.asks) == len(keys)
    for key, text in zip(keys, looked.text.to_pylist(), strict=True):
        assert text is None or key is not None


def test_a_record_waits_for_its_key_s_schema_and_then_lands_with_or_without_it(tmp_path: Path) -> None:
    records = [Sent(value(1, game_name="go"), n, key=key) for n, key in enumerate(KEYS)] + [
        Sent(None, 99, key=KEYS[6])
    ]
    task = Demultiplexer(pins(tmp_path / "first", columns=WITH_TEXT, keys=LONG_KNOWN))
    task.take(batch(records))
    report = task.finish()
    assert report.questions.keys == {(6, ()): 1, (9, ()): 1}
    assert [row["offset"] for row in aside_rows(tmp_path / "first", report)] == [6, 7]
    assert report.counts.dropped.total() == 1
    final = pins(tmp_path / "last", columns=WITH_TEXT, keys=replace(LONG_KNOWN, final=True))
    task = Demultiplexer(final)
    task.take(batch(records))
    (table,) = (report := task.finish()).counts.rows
    rows = rows_of(final, report, table)
    assert [row["who"] for row in rows] == ["ann", None, "", None, "7", None, None, None, "\0\0", '{"id":7}']
    assert [row["kafka_key"] for row in rows] == KEYS
    assert list(rows[0])[:7] == ["kafka_topic", "kafka_partition", "kafka_offset", "kafka_ts", "kafka_key", "schema_id", "who"]  # fmt: skip


def test_a_single_value_routes_and_a_record_does_not(tmp_path: Path) -> None:
    pair = PinnedRecord(
        (8, ()), Schema(8, "AVRO", '{"type":"record","name":"P","fields":[{"name":"n","type":"long"}]}')
    )
    by = pins(
        tmp_path,
        columns=WITH_TEXT,
        keys=PinnedKeys(decoded=True, records=(LONG, pair)),
        route=Route(by="key", table="{entity}"),
    )
    task = Demultiplexer(by)
    keys = [KEYS[4], struct.pack(">bI", 0, 8) + long(1), b"ann"]
    task.take(batch([Sent(value(1, game_name="go"), n, key=key) for n, key in enumerate(keys)]))
    report = task.finish()
    assert report.counts.rows == {table_name("{entity}", "7", True): 1, "ann": 1}
    assert report.counts.quarantined == {"no_entity": 1}


class Deadly:
    """Ends its process for one payload: what a bug in native code does."""

    def __init__(self, reader: KeyReader) -> None:
        self._reader = reader

    def decode(self, payloads: pa.BinaryArray) -> Decoded:
        if long(13) in payloads.to_pylist():
            os.kill(os.getpid(), signal.SIGKILL)
        return self._reader.decode(payloads)


def test_a_key_that_kills_its_decoder_has_no_text_behind_the_guard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = KeyCodec.reader
    monkeypatch.setattr(KeyCodec, "reader", lambda *given: Deadly(reader(*given)))
    by = pins(tmp_path, columns=WITH_TEXT, keys=LONG_KNOWN, guarded=True)
    keys = [struct.pack(">bI", 0, 5) + long(number) for number in (7, 13, 8, 13)]
    task = Demultiplexer(by)
    task.take(batch([Sent(value(1, game_name="go"), n, key=key) for n, key in enumerate(keys)]))
    (table,) = (report := task.finish()).counts.rows
    assert [row["who"] for row in rows_of(by, report, table)] == ["7", None, "8", None]
    assert report.counts.quarantined == {}


def test_hostile_keys_cost_no_record(tmp_path: Path) -> None:
    protobuf = 'syntax = "proto3"; message Key { map<uint64, string> n = 1; }'
    known = (
        PinnedRecord((6, ()), Schema(6, "JSON", '{"type": "string"}')),
        PinnedRecord((7, (0,)), Schema(7, "PROTOBUF", protobuf)),
    )
    by = pins(tmp_path, columns=WITH_TEXT, keys=PinnedKeys(decoded=True, records=known))
    bodies = [
        (6, b'"\\ud800"'),
        (6, b'"ann"'),
        (7, b"\0\x0a\x02\x08\x05"),
        (7, b"\0\x0a\x7f"),
        (6, b"[" * 99_999),
    ]
    keys = [struct.pack(">bI", 0, schema) + body for schema, body in bodies]
    task = Demultiplexer(by)
    task.take(batch([Sent(value(1, game_name="go"), n, key=key) for n, key in enumerate(keys)]))
    (table,) = (report := task.finish()).counts.rows
    assert [row["who"] for row in rows_of(by, report, table)] == [None, "ann", '{"n":{"5":""}}', None, None]
    assert report.counts.quarantined == {}
