"""Data files in a folder and in S3: as large as is told, whole, few at once in memory, and nothing of a task that gave up."""

from __future__ import annotations

import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.ingest.kafka_records import GENERATION
from tests.ingest.storage.stores import Store

from distributary.ingest.batch.sweep import sweep
from distributary.ingest.columns.layout import Layout
from distributary.ingest.parquet import buffers as table_buffers
from distributary.ingest.parquet import uploads
from distributary.ingest.parquet.buffers import TableBuffers
from distributary.ingest.parquet.data_file import owner
from distributary.ingest.parquet.uploads import Uploads
from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.opening import open_files
from distributary.ingest.storage.options import StorageOptions
from distributary.ingest.storage.place import Place

SCHEMA = pa.schema([("n", pa.int64())])


def rows(*numbers: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"n": numbers}, SCHEMA)


def buffers(place: Files, limit: int = 10**9) -> TableBuffers:
    return TableBuffers(place, GENERATION, 3, limit, lambda table: Layout(SCHEMA))


def read(place: Files, held: TableBuffers, table: str) -> list[int]:
    found = []
    for file in held.files:
        if file.table == table:
            content = place.read(f"{table}/{file.name}")
            assert len(content) == file.bytes
            found += pq.read_table(pa.BufferReader(content))["n"].to_pylist()
    return found


def names(place: Files) -> list[str]:
    return [info.path for folder in place.folders() for info in place.list(folder)]


def test_hundreds_of_small_files_are_there_when_the_task_is_done(place: Files) -> None:
    held = buffers(place)
    for number in range(300):
        held.add(f"t{number}", rows(number))
    held.close()
    assert len(held.files) == len(names(place)) == 300
    assert all(read(place, held, f"t{number}") == [number] for number in range(0, 300, 37))


def test_a_file_that_grows_over_several_spills_is_one_stream(
    place: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_buffers, "_IN_MEMORY_BYTES", 0)
    held = buffers(place, limit=0)
    wanted = np.random.default_rng(1).integers(0, 2**62, 1_500_000)
    for some in np.split(wanted, 3):
        held.add("t", pa.RecordBatch.from_arrays([pa.array(some)], schema=SCHEMA))
        held.grew(1)
    held.close()
    (file,) = held.files
    assert file.bytes > 8 * 2**20, "more than a part"
    assert read(place, held, "t") == wanted.tolist()


def test_where_streams_are_dear_many_tables_close_their_files_at_once(
    in_s3: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_buffers, "MOST_OPEN_STREAMS", 2)
    held = buffers(in_s3, limit=0)
    for number in range(2):
        for table in "abc":
            held.add(table, rows(number))
        held.grew(1)
    held.close()
    assert len(held.files) == 6
    assert all(read(in_s3, held, table) == [0, 1] for table in "abc")


class Slow:
    """A place whose puts wait until they are let go, and which counts the bytes that wait."""

    remote = True

    def __init__(self, stop: Exception | None = None) -> None:
        self.go, self.seen, self.most, self._now = threading.Event(), 0, 0, 0
        self._stop, self._lock = stop, threading.Lock()

    def put(self, path: str, data: pa.Buffer, *, named_later: bool = False) -> None:
        with self._lock:
            self._now += data.size
            self.most = max(self.most, self._now)
        self.go.wait()
        if self._stop is not None:
            raise self._stop
        with self._lock:
            self._now -= data.size
            self.seen += 1


@contextmanager
def let_go_when_full(slow: Slow) -> Iterator[None]:
    timer = threading.Timer(0.2, slow.go.set)
    timer.start()
    yield
    timer.cancel()
    slow.go.set()


def test_what_is_under_way_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "MOST_BYTES_UNDER_WAY", 10_000)
    slow: Any = Slow()
    under_way = Uploads(slow)
    with let_go_when_full(slow):
        for number in range(100):
            under_way.put(f"{number}", pa.py_buffer(b"x" * 1_000))
        under_way.finish()
    assert (slow.seen, slow.most <= 10_000) == (100, True)


def test_a_file_larger_than_all_that_may_be_under_way_goes_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "MOST_BYTES_UNDER_WAY", 10)
    slow: Any = Slow()
    slow.go.set()
    under_way = Uploads(slow)
    for number in range(3):
        under_way.put(f"{number}", pa.py_buffer(b"x" * 1_000))
    under_way.finish()
    assert (slow.seen, slow.most) == (3, 1_000)


def test_an_error_of_an_upload_is_the_tasks_error(monkeypatch: pytest.MonkeyPatch) -> None:
    slow: Any = Slow(PermissionError("t/0: not yours"))
    slow.go.set()
    under_way = Uploads(slow)
    under_way.put("t/0", pa.py_buffer(b"x"))
    with pytest.raises(PermissionError, match="t/0: not yours"):
        under_way.finish()


def test_a_store_that_refuses_ends_the_task_with_its_name(s3_store: Store) -> None:
    options = s3_store.options_by(s3_store.port)
    patient = options.model_copy(update={"http": options.http.model_copy(update={"retry_seconds": 0.0})})
    nowhere = open_files(Place.parse("s3://nowhere/lake"), patient)
    held = buffers(nowhere)
    held.add("t", rows(1))
    with pytest.raises(OSError, match="s3://nowhere/lake/t/"):
        held.close()
    assert isinstance(patient, StorageOptions)


def test_what_has_not_begun_when_a_task_gives_up_never_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "_AT_ONCE", 1)
    slow: Any = Slow()
    under_way = Uploads(slow)
    for number in range(10):
        under_way.put(f"{number}", pa.py_buffer(b"x"))
    with let_go_when_full(slow):
        under_way.abandon()
    assert slow.seen <= 1


def test_open_files_of_a_task_that_gives_up_are_not_to_be(place: Files) -> None:
    held = buffers(place, limit=0)
    for number in range(3):
        held.add("t", rows(*range(number * 1_000)))
        held.grew(1)
    held.abandon()
    assert names(place) == []


KILLED = """
import os, pickle, signal, sys
import pyarrow as pa
from distributary.ingest.columns.layout import Layout
from distributary.ingest.parquet.buffers import TableBuffers

place, generation, rows = pickle.load(sys.stdin.buffer)
held = TableBuffers(place, generation, 3, 0, lambda table: Layout(rows.schema))
for _ in range(3):
    held.add("t", rows)
    held.grew(1)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_worker_left_of_a_file_is_nothing_or_says_whose_it_is_and_is_swept(
    place: Files,
) -> None:
    numbers = np.random.default_rng(1).integers(0, 2**62, 600_000)
    many = pa.RecordBatch.from_arrays([pa.array(numbers)], schema=SCHEMA)
    told = pickle.dumps((place, GENERATION, many))
    done = subprocess.run([sys.executable, "-c", KILLED], input=told, capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    left = names(place)
    under_its_own_name = place.url.startswith(("/", "hdfs:"))
    assert [owner(path.rpartition("/")[2]) for path in left] == [(GENERATION[:8], 3)] * under_its_own_name
    assert sweep(place, GENERATION, [range(3), range(4, 9)], ()) == [], "they are others' numbers"
    assert sweep(place, GENERATION, [range(3, 4)], ()) == left
    assert names(place) == []
