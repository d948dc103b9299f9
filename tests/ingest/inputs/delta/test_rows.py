"""Rows of a Delta table's files on their way to be records."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from distributary.ingest.inputs.delta import rows
from distributary.ingest.inputs.delta.versions import BEFORE, CAME, CHANGE, DELETED, GONE, RowsFile
from distributary.ingest.merge import columns
from distributary.ingest.storage.opening import files_at

COLUMNS = pa.schema([("id", pa.int64()), ("v", pa.string())])


def test_of_much_text_few_rows_go_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than 2 GiB of it are none that Arrow brings together, and a text that all rows have takes no room in their file."""
    monkeypatch.setattr(rows, "_BYTES_AT_ONCE", 3_500)
    pq.write_table(pa.table([range(10), ["x" * 1000] * 10], COLUMNS.names), tmp_path / "file")
    file = RowsFile("file", {}, 0, 10, 0)
    found = list(rows._rows(files_at(tmp_path), file, COLUMNS, (0, 9), before=False))
    assert [batch.num_rows for batch in found] == [3, 3, 3]
    assert [offset for batch in found for offset in batch["offset"].to_pylist()] == list(range(9))
    assert [row["id"] for batch in found for row in batch["row"].to_pylist()] == list(range(9))


def test_of_a_row_group_of_many_bytes_some_rows_are_read_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others write a million rows as one: each task had all of them in memory."""
    monkeypatch.setattr(columns, "_ROWS_AT_ONCE", 4)
    names = ["insert", DELETED, "update_postimage", BEFORE]
    held, kinds = list[int](), [names[number % 4] for number in range(10)]

    def taken(some: pa.Table, places: columns.Places) -> pa.Table:
        held.append(some.num_rows)
        return columns.at_places(some, places)

    monkeypatch.setattr(rows, "at_places", taken)
    schema = COLUMNS.append(pa.field(CHANGE, pa.string()))
    pq.write_table(pa.table([range(10), ["x"] * 10, kinds], schema), tmp_path / "file")
    for change, wanted in ((GONE, [1, 5]), (CAME, [2, 4, 6]), (None, [*range(1, 8)])):
        file = RowsFile("file", {}, 100, 10, 0, change=change)
        found = list(rows._rows(files_at(tmp_path), file, schema, (101, 108), before=False))
        assert [row["id"] for batch in found for row in batch["row"].to_pylist()] == wanted
        assert [offset - 100 for batch in found for offset in batch["offset"].to_pylist()] == wanted
    assert max(held) == 4
