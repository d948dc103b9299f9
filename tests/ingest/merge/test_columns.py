"""Data files that are read by several threads, as in a store."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from distributary.ingest.merge.columns import DataColumns, at_once
from distributary.ingest.storage.contract import Files

IDS = pa.schema([("id", pa.int64())])


def test_of_one_file_one_thread_reads_at_a_time(in_s3: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrow keeps what it has read ahead of a file in one place: another thread would take that away from under the first one."""
    into = pa.BufferOutputStream()
    pq.write_table(pa.table({"id": [1, 2, 3, 4]}, IDS), into, row_group_size=1)
    in_s3.put("file", into.getvalue())
    opened, read = DataColumns(in_s3, "file", into.getvalue().size), pq.ParquetFile.read_row_group
    two, met = threading.Barrier(2), list[int]()

    def reading(file: pq.ParquetFile, group: int, **given: Any) -> pa.Table:
        with suppress(threading.BrokenBarrierError):
            two.wait(0.5)
            met.append(group)
        return read(file, group, **given)

    monkeypatch.setattr(pq.ParquetFile, "read_row_group", reading)
    found = at_once(in_s3, lambda group: opened.read(group[0], IDS), list(opened.groups()))
    assert pa.concat_tables(found)["id"].to_pylist() == [1, 2, 3, 4]
    assert not met
