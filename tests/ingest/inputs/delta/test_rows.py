"""Rows of a Delta table's files on their way to be records."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from distributary.ingest.inputs.delta import rows
from distributary.ingest.inputs.delta.versions import RowsFile
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
