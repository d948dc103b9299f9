from __future__ import annotations

import json
import os
from datetime import datetime, timedelta, timezone
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from tests.ingest.commits import by_log

from distributary.ingest.columns.differences import storable
from distributary.ingest.columns.safe_names import BATCHES_TABLE, CHANGES_TABLE
from distributary.ingest.parquet.data_file import owner
from distributary.ingest.storage.contract import Files
from distributary.ingest.tables import ledger
from distributary.ingest.tables.change import create
from distributary.ingest.tables.handle import opened
from distributary.ingest.tables.log_commit import NativeCommits
from distributary.ingest.tables.state import table_folder

NOW = datetime(2024, 5, 6, 7, 8, 9, 123_456, tzinfo=timezone.utc)


def batch_row() -> ledger.BatchRow:
    return ledger.BatchRow(
        pipeline="games",
        generation="c" * 32,
        batch_id=4,
        started_at=NOW,
        ended_at=NOW + timedelta(seconds=2),
        seconds=2.0,
        attempts=1,
        rows_read=12,
        rows_tables=9,
        rows_quarantined=2,
        rows_dropped=1,
        rows_already=0,
        rows_by_reason={"undecodable": 2, "tombstone": 1},
        tables=3,
        files=4,
        bytes=5_000,
        offsets={"game-events": {0: (10, 20), 1: (0, 2)}},
        gaps={},
        schema_ids=[1, 7],
        unknown_fields={7: {"device.15": 3}},
    )


def change_row(column: str) -> ledger.ChangeRow:
    return ledger.ChangeRow(
        pipeline="games",
        generation="c" * 32,
        batch_id=4,
        at=NOW,
        table="silver_chess_events",
        entity="chess",
        schema_id=7,
        kind="added",
        column=column,
        type="int64",
        decision="add",
    )


def test_a_batch_is_one_row_that_can_be_read_back(tmp_path: Path) -> None:
    create(tmp_path / BATCHES_TABLE, ledger.BATCHES_SCHEMA, {})
    file = ledger.batch_file(tmp_path, batch_row())
    assert owner(file.name) == ("c" * 8, 4)
    assert by_log(NativeCommits(), tmp_path / file.table, [file], ledger.BATCHES_SCHEMA, "app", 4, {})
    [row] = DeltaTable(tmp_path / file.table).to_pyarrow_table().to_pylist()
    assert row["started_at"] == NOW
    assert json.loads(row["offsets"]) == {"game-events": {"0": [10, 20], "1": [0, 2]}}
    assert json.loads(row["unknown_fields"]) == {"7": {"device.15": 3}}
    assert json.loads(row["rows_by_reason"]) == {"undecodable": 2, "tombstone": 1}
    assert (row["rows_read"], json.loads(row["schema_ids"]), json.loads(row["gaps"])) == (12, [1, 7], {})


def test_a_row_that_had_to_wait_stays_as_its_table_has_it(in_s3: Files) -> None:
    """A run that stood still while another one finished its batch comes to write it, too."""
    table = in_s3.below(BATCHES_TABLE)
    create(table, ledger.BATCHES_SCHEMA, {})
    planned, row = ledger.later(batch_row())
    counts = dict(zip(ledger.MERGED_ROWS, range(6), strict=True))
    file = ledger.late_file(in_s3, planned.name, row, counts)
    assert by_log(NativeCommits(), table, [file], ledger.BATCHES_SCHEMA, "app", 0, {})
    assert ledger.late_file(in_s3, planned.name, row, dict.fromkeys(ledger.MERGED_ROWS)) == file
    handle = opened(table)
    (found,) = handle.to_pyarrow_table(filesystem=table_folder(handle)).to_pylist()
    assert {name: found[name] for name in ledger.MERGED_ROWS} == counts


def test_a_row_that_is_written_once_more_is_whole_to_who_reads_it_meanwhile(tmp_path: Path) -> None:
    """By a run that stood still until the table had it: written in place it was empty for a moment, and cut off where that one was killed."""
    planned, row = ledger.later(batch_row())
    counts = dict.fromkeys(ledger.MERGED_ROWS, 1)
    file = ledger.late_file(tmp_path, planned.name, row, counts)
    path = tmp_path / BATCHES_TABLE / planned.name
    with path.open("rb") as reader:
        before = os.fstat(reader.fileno()).st_ino
        assert ledger.late_file(tmp_path, planned.name, row, counts) == file
        assert path.stat().st_ino != before
        assert len(reader.read()) == file.bytes


@pytest.mark.parametrize("before", ["whole", "emptied", "cut off", "blank"])
def test_a_row_that_another_version_writes_otherwise_stays_as_its_table_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str
) -> None:
    create(tmp_path / BATCHES_TABLE, ledger.BATCHES_SCHEMA, {})
    planned, row = ledger.later(batch_row())
    counts = dict.fromkeys(ledger.MERGED_ROWS, 1)
    with monkeypatch.context() as patch:
        patch.setattr(pq, "ParquetWriter", partial(pq.ParquetWriter, use_dictionary=False))
        file = ledger.late_file(tmp_path, planned.name, row, counts)
    path = tmp_path / BATCHES_TABLE / planned.name
    theirs = path.read_bytes()
    left = {"emptied": b"", "cut off": theirs[:-9], "blank": theirs[:4] + bytes(400) + theirs[404:]}
    path.write_bytes(left.get(before, theirs))
    again = ledger.late_file(tmp_path, planned.name, row, dict.fromkeys(ledger.MERGED_ROWS))
    if before == "whole":
        assert (again, path.read_bytes()) == (file, theirs)
    else:
        # Of what a loss of power left no table's log is to tell.
        assert again.bytes != file.bytes and len(pq.read_table(path)) == 1


def test_changes_are_one_row_each(tmp_path: Path) -> None:
    create(tmp_path / CHANGES_TABLE, ledger.CHANGES_SCHEMA, {})
    file = ledger.changes_file(tmp_path, [change_row("elo"), change_row("board.size")])
    assert by_log(NativeCommits(), tmp_path / file.table, [file], ledger.CHANGES_SCHEMA, "app", 4, {})
    rows = DeltaTable(tmp_path / file.table).to_pyarrow_table().to_pylist()
    assert [(row["column"], row["kafka_offset"]) for row in rows] == [("elo", None), ("board.size", None)]


@pytest.mark.parametrize("schema", [ledger.BATCHES_SCHEMA, ledger.CHANGES_SCHEMA, ledger.QUARANTINE_SCHEMA])
def test_delta_stores_the_schemas_as_they_are(schema: object) -> None:
    assert storable(schema) == schema


@pytest.mark.parametrize(
    ("row", "schema"),
    [(ledger.BatchRow, ledger.BATCHES_SCHEMA), (ledger.ChangeRow, ledger.CHANGES_SCHEMA)],
)
def test_rows_have_the_columns_of_their_table(row: type, schema: object) -> None:
    assert sorted(row.__dataclass_fields__) == sorted(schema.names)  # type: ignore[attr-defined]
