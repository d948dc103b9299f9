from __future__ import annotations

from pathlib import Path

from tests.ingest.batches import demuxed
from tests.ingest.kafka_records import numbered, pins, value

from distributary.ingest.batch.passes import discard
from distributary.ingest.columns.table_and_column_names import QUARANTINE_TABLE


def test_an_attempt_that_is_given_up_leaves_no_file(tmp_path: Path) -> None:
    by = pins(tmp_path)
    report = demuxed(by, numbered([value(1, game_name="golf"), b""]))
    assert len(list(Path(by.batch.root).rglob("*.parquet"))) == 2
    discard(by.batch.root, report)
    discard(by.batch.root, report)
    assert not list(Path(by.batch.root).rglob("*.parquet"))


def test_files_of_tables_to_keep_stay(tmp_path: Path) -> None:
    by = pins(tmp_path)
    report = demuxed(by, numbered([value(1, game_name="golf"), b""]))
    discard(by.batch.root, report, keep=lambda table: table == QUARANTINE_TABLE)
    assert [path.parent.name for path in Path(by.batch.root).rglob("*.parquet")] == [QUARANTINE_TABLE]
