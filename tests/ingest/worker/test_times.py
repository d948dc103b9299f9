from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from tests.ingest.kafka_records import batch, body, folder, numbered, pins, rows_of, value

from distributary.ingest.columns.safe_names import QUARANTINE_TABLE
from distributary.ingest.worker.demux import Demultiplexer


def test_a_record_of_a_time_that_no_table_holds_is_kept_in_quarantine_unless_it_is_a_tombstone(
    tmp_path: Path,
) -> None:
    by = pins(tmp_path)
    sent = [value(1, game_name="golf"), value(1, game_name="golf"), None, body(1, game_name="golf")]
    records = batch(numbered(sent))
    times = pa.array([records["ts"][0].as_py(), None, None, None], records["ts"].type)
    task = Demultiplexer(by)
    task.take(records.set_column(records.schema.get_field_index("ts"), "ts", times))
    report = task.finish()
    assert [row["kafka_offset"] for row in rows_of(by, report, folder("golf"))] == [0]
    kept = rows_of(by, report, QUARANTINE_TABLE)
    assert [(row["kafka_offset"], row["reason"], row["value"]) for row in kept] == [
        (1, "timestamp_overflow", sent[1]),
        (3, "timestamp_overflow", sent[3]),
    ]
    assert report.counts.dropped == {"tombstone": 1}
