"""Data files that are read by several threads, as in a store."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.ingest.merge.upserted import make

from distributary.ingest.clustering.reading import staying
from distributary.ingest.erasure import file_anew
from distributary.ingest.erasure.file_anew import written_anew
from distributary.ingest.merge import columns as module
from distributary.ingest.merge.columns import DataColumns, Places, Unreadable, at_once, at_places
from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.opening import files_at
from distributary.ingest.tables.handle import opened
from distributary.ingest.tables.state import state_of

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


def test_a_name_with_dots_is_a_columns_own_before_it_is_a_path_where_a_tables_columns_are_meant(
    tmp_path: Path,
) -> None:
    place, inside = files_at(tmp_path), pa.struct([("b", pa.int64())])
    both = pa.schema([("a.b", pa.string()), ("a", inside), ("c.d", pa.int64())])
    rows = pa.table([["x", None], [{"b": 1}, {"b": 2}], [5, 6]], schema=both)
    with place.writer("file") as stream:
        pq.write_table(rows, stream.sink)
        size = stream.tell()
    opened, more = DataColumns(place, "file", size), both.append(pa.field("a.c", pa.int64()))
    assert opened.table(0, more).to_pylist() == [{**row, "a.c": None} for row in rows.to_pylist()]
    found = opened.read(0, pa.schema([("a.b", pa.int64()), ("c.d", pa.int64())]))
    assert found.to_pydict() == {"a.b": [1, 2], "c.d": [5, 6]}


@pytest.mark.parametrize(
    ("told", "year", "is_told"),
    [
        ({"org.apache.spark.legacyDateTime": ""}, 1500, True),
        ({"org.apache.spark.version": "2.4.8"}, 1500, True),
        ({"org.apache.spark.legacyINT96": "", "org.apache.spark.version": "3.5.1"}, 1899, True),
        ({"org.apache.spark.legacyDateTime": ""}, 1900, False),
        ({"org.apache.spark.version": "3.5.1"}, 1500, False),
        ({}, 1500, False),
    ],
)
@pytest.mark.parametrize("nested", [False, True])
def test_what_only_a_footer_tells_the_meaning_of_is_not_taken_for_something_else(
    tmp_path: Path, told: dict[str, str], year: int, is_told: bool, nested: bool
) -> None:
    place, at = files_at(tmp_path), datetime(year, 1, 1, tzinfo=timezone.utc)
    values: Any = [at, None, datetime(2026, 1, 1, tzinfo=timezone.utc)]
    column = pa.array(values, pa.timestamp("us", "UTC"))
    if nested:
        column = pa.array([[{"at": one}] for one in values], pa.list_(pa.struct([("at", column.type)])))
    rows = pa.table({"x": column})
    with place.writer("file") as stream:
        pq.write_table(rows.replace_schema_metadata(told), stream.sink)
        size = stream.tell()
    opened = DataColumns(place, "file", size)
    if is_told:
        with pytest.raises(Unreadable, match="before 1900"):
            opened.table(0, rows.schema)
    else:
        assert opened.table(0, rows.schema) == rows


MUCH = 1100


def much_text() -> pa.Table:
    """Rows of more text than one array has room for, of which no byte is in memory before it is asked for."""
    size, edges = 2**20, np.arange(MUCH + 1, dtype=np.int32) * 2**20
    data = pa.py_buffer(np.zeros(MUCH * size, np.uint8))
    texts = pa.Array.from_buffers(pa.string(), MUCH, [None, pa.py_buffer(edges), data])
    return pa.table({"id": pa.array(range(2 * MUCH)), "v": pa.chunked_array([texts, texts])})


def test_rows_are_taken_of_more_text_than_one_array_has_room_for() -> None:
    """As where a text that all rows have takes no room in their file."""
    rows = much_text()
    few = at_places(rows, np.array([1, MUCH - 1, MUCH, MUCH, 2 * MUCH - 1]))
    assert few["id"].to_pylist() == [1, MUCH - 1, MUCH, MUCH, 2 * MUCH - 1]
    assert [len(text) for text in few["v"].to_pylist()] == [2**20] * 5
    assert at_places(rows, np.array([MUCH], np.uint64))["id"].to_pylist() == [MUCH]
    assert at_places(rows, np.empty(0, np.int64)).num_rows == 0
    assert staying(rows, np.arange(3, 2 * MUCH, dtype=np.uint32), 0)["id"].to_pylist() == [0, 1, 2]


def test_a_file_of_so_much_text_is_written_anew_without_some_rows(tmp_path: Path) -> None:
    class Much:
        """An open file."""

        def groups(self) -> list[tuple[int, int, int]]:
            return [(0, 0, 2 * MUCH)]

        def parts(self, _: int, columns: pa.Schema) -> Iterator[pa.Table]:
            yield much_text().select(columns.names)

    make(tmp_path, much_text().schema)
    place = files_at(tmp_path)
    stays = np.isin(np.arange(2 * MUCH), [5, MUCH + 5])
    much: Any = Much()
    made = written_anew(place, "file", much, stays, {}, state_of(opened(place), place))
    assert pq.read_table(tmp_path / made.name, columns=["id"])["id"].to_pylist() == [5, MUCH + 5]


def test_a_row_group_of_many_bytes_is_written_anew_a_part_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others write a million rows as one: whoever erased one of them, or brought files together, had all of it in memory, and most of it twice."""
    count, size, held = 64, 2**16, list[int]()
    monkeypatch.setattr(module, "_BYTES_AT_ONCE", 8 * size, raising=False)

    def taken(rows: pa.Table, places: Places) -> pa.Table:
        held.append(rows.nbytes)
        return at_places(rows, places)

    monkeypatch.setattr(file_anew, "at_places", taken)
    rows = pa.table({"id": range(count), "v": [f"{n}" * (size // len(f"{n}")) for n in range(count)]})
    make(tmp_path, rows.schema)
    place = files_at(tmp_path)
    with place.writer("file") as stream:
        pq.write_table(rows, stream.sink, use_dictionary=False)
        of = stream.tell()
    stays, state = np.arange(count) != 7, state_of(opened(place), place)
    made = written_anew(place, "made", DataColumns(place, "file", of), stays, {}, state)
    assert sum(held) > rows.nbytes - size
    assert max(held) <= 9 * size
    assert pq.read_table(tmp_path / made.name) == rows.filter(pa.array(stays))


def test_parts_of_a_row_group_are_all_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place, inside = files_at(tmp_path), pa.struct([("b", pa.list_(pa.string()))])
    rows = pa.table({"n": range(10), "s": pa.array([{"b": ["x", None]}, None] * 5, inside)})
    with place.writer("file") as stream:
        pq.write_table(rows, stream.sink)
        size = stream.tell()
    opened_file, more = DataColumns(place, "file", size), rows.schema.append(pa.field("new", pa.int64()))
    monkeypatch.setattr(module, "_ROWS_AT_ONCE", 4)
    parts = list(opened_file.parts(0, more))
    assert [len(part) for part in parts] == [4, 4, 2]
    assert pa.concat_tables(parts) == opened_file.table(0, more)
    (part,) = opened_file.parts(0, pa.schema([("new", pa.int64())]))
    assert len(part) == 10
