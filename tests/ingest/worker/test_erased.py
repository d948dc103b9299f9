"""Records that were erased land nowhere: those of a key whatever they say, be it nothing, or nothing that can be read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
from tests.ingest.batches import decided, demuxed, settled
from tests.ingest.checkpoint.test_manifest_pins import through_text
from tests.ingest.kafka_records import TOPIC, Sent, batch, body, folder, pins, rows_of, value
from tests.ingest.worker.test_routed_by_misfits import by_game
from tests.ingest.worker.test_routed_by_misfits import sent as of_games

from distributary.ingest.checkpoint import manifest_pins
from distributary.ingest.checkpoint.manifest_json import FORMAT, to_json
from distributary.ingest.columns.safe_names import QUARANTINE_TABLE
from distributary.ingest.routing.conditions import ReadCondition
from distributary.ingest.routing.tree import Call, Field, Literal
from distributary.ingest.settings.deletes import Deleting
from distributary.ingest.settings.groups import Route
from distributary.ingest.settings.patterns import Pattern
from distributary.ingest.settings.rule_book import TableSpec
from distributary.ingest.settings.upserts import Upsert
from distributary.ingest.worker.demux import Demultiplexer
from distributary.ingest.worker.report import TaskReport

ANN, BOB = b"ann", b"bob"

# A tombstone takes its key's row away, so that the table remembers the key.
REMEMBERING: dict[str, Any] = {
    "specs": (TableSpec(0, "*", upsert=Upsert(deletes=Deleting(tombstones=True))),),
    "patterns": (Pattern("*", folds=True),),
    "route": Route(by="topic", table="{entity}"),
}


def both(*values: bytes | None) -> list[Sent]:
    """Each of these of both."""
    keys = [(one, key) for one in values for key in (ANN, BOB)]
    return [Sent(one, offset, key=key) for offset, (one, key) in enumerate(keys)]


def times(records: pa.RecordBatch, lacking: int) -> pa.RecordBatch:
    """The records, the last ones without a time that a table holds."""
    found = [*records["ts"].to_pylist()[: len(records) - lacking], *[None] * lacking]
    return records.set_column(records.schema.get_field_index("ts"), "ts", pa.array(found, records["ts"].type))


def keys_in(by: Any, report: TaskReport) -> set[bytes | None]:
    """Those of all rows that were written."""
    tables = {written.file.table for written in report.files.written}
    return {row["kafka_key"] for table in tables for row in rows_of(by, report, table)}


def test_records_of_a_key_land_nowhere_whatever_they_say(tmp_path: Path) -> None:
    by = pins(tmp_path, by_key=frozenset([ANN.decode()]), **REMEMBERING)
    sent = both(value(1, game_name="golf"), None, b"\x7f", body(1, game_name="golf"), value(1))
    task = Demultiplexer(by)
    task.take(times(batch(sent), 2))
    report = task.finish()
    assert report.counts.dropped == {"erased": 5}
    assert sum(report.counts.quarantined.values()) + sum(report.counts.rows.values()) == 5
    assert keys_in(by, report) == {BOB}


def test_records_without_a_key_are_nobodys(tmp_path: Path) -> None:
    by = pins(tmp_path, by_key=frozenset([ANN.decode()]))
    task = Demultiplexer(by)
    task.take(batch([Sent(value(1, game_name="golf"), key=None)]))
    assert task.finish().counts.rows == {folder("golf"): 1}


def test_a_batch_that_is_written_again_knows_the_keys_of_then(tmp_path: Path) -> None:
    records = both(value(1, game_name="golf"))
    first = settled(tmp_path, records, by_key=frozenset([ANN.decode()]))
    manifest = through_text(decided(tmp_path, first, {TOPIC: {0: (0, len(records))}}))
    # A version that does not know of them would write what was to land nowhere.
    assert json.loads(json.dumps(to_json(manifest)))["format"] == FORMAT
    again = manifest_pins.from_manifest(manifest, pins(tmp_path, by_key=frozenset([BOB.decode()])))
    task = Demultiplexer(again)
    task.take(batch(records))
    report = task.finish()
    assert report.counts.dropped == {"erased": 1}
    assert keys_in(again, report) == {BOB}
    assert QUARANTINE_TABLE not in {written.file.table for written in report.files.written}


def test_so_do_those_that_are_known_by_a_value_that_no_column_takes(tmp_path: Path) -> None:
    """`erase` takes their rows away, and a replay is not to bring them back; of another type nobody knows whose it is."""
    seven = ReadCondition(Call("=", (Field(("at", "game")), Literal(7))))
    by = by_game(tmp_path, conditions={"seven": seven}, by_setting={"erased[0]": "seven"})
    every = [{"game": 7}, {"game": 7.0}, {"GAME": 7}, {"game": "7"}, {"game": 7.5}, {"game": 8}]
    report = demuxed(by, of_games(*({"game": 1, "at": at} for at in every)))
    assert report.counts.dropped == {"erased": 3}
    assert report.counts.quarantined == {"delete_condition": 1}
    assert [row["kafka_offset"] for row in rows_of(by, report, "of_1")] == [4, 5]
