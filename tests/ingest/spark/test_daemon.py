from __future__ import annotations

import gc
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import psutil
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from distributary.ingest.spark import daemon
from distributary.ingest.spark.configuration import laid_over, settings

# What a forked child does with everything that could have kept threads or locks from before the fork.
FORKS = """
import os, pathlib, signal, sys
import distributary.ingest.spark.daemon as daemon
daemon.prepare(sys.argv[1:])
tasks = pathlib.Path("/proc/self/task").glob("*/comm")
threads = {task.read_text().strip() for task in tasks}
assert threads <= {"python", "python3", os.path.basename(sys.executable)[:15], "jemalloc_bg_thd"}, threads
import io
import pyarrow as pa, pyarrow.compute as pc, pyarrow.json, pyarrow.parquet as pq
for _ in range(3):
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        lines = b"".join(b'{"a": %d}\\n' % number for number in range(200_000))
        options = pyarrow.json.ReadOptions(use_threads=True, block_size=1 << 16)
        table = pyarrow.json.read_json(io.BytesIO(lines), read_options=options)
        file = io.BytesIO()
        pq.write_table(table.sort_by([("a", "descending")]), file, compression="zstd")
        again = pq.read_table(io.BytesIO(file.getvalue()), use_threads=True)
        os._exit(0 if pc.sum(again["a"]).as_py() == 199_999 * 100_000 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""


def run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        # Python 3.12 warns of any thread beside a fork; which ones there may be is asked here.
        [sys.executable, "-W", "ignore:This process:DeprecationWarning", "-c", program, *arguments],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},  # as Spark starts its daemon
    )


def test_what_is_imported_leaves_no_thread_behind_and_works_in_every_fork() -> None:
    ended = run(FORKS, *daemon.FOR_WORKERS)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_workers_hold_no_client_of_a_cloud_that_nobody_named() -> None:
    program = (
        "import sys; from distributary.ingest.spark import daemon; daemon.prepare(sys.argv[1:]);"
        " print(sys.modules.keys() & {'boto3', 'deltalake', 'obstore', 'hdfs_native', 'confluent_kafka'})"
    )
    assert run(program, *daemon.FOR_WORKERS).stdout == "set()\n"


def test_a_module_that_cannot_be_imported_is_left_to_the_task_that_needs_it() -> None:
    program = (
        "import sys; from distributary.ingest.spark import daemon;"
        " daemon.prepare(['no.such.module', 'fractions']); print('fractions' in sys.modules)"
    )
    assert run(program).stdout == "True\n"


def test_archives_are_not_read_again_before_every_task_but_folders_are(tmp_path: Path) -> None:
    program = """
import importlib, pathlib, sys, zipfile
from distributary.ingest.spark import daemon
folder = pathlib.Path(sys.argv[1])
archive = folder / "archive.zip"
with zipfile.ZipFile(archive, "w") as file:
    file.writestr("within_archive.py", "")
sys.path[:0] = [str(archive), str(folder)]
import within_archive
daemon.prepare([])
archive.unlink()
(folder / "written_later.py").write_text("")
importlib.invalidate_caches()
import written_later
"""
    ended = run(program, str(tmp_path))
    assert (ended.returncode, ended.stderr) == (0, "")


def test_settings_name_this_daemon_and_a_users_own_counts() -> None:
    ours = laid_over(settings("yarn", []), daemon.preloading())
    assert ours["spark.python.daemon.module"] == daemon.__name__
    assert laid_over(ours, {"spark.python.daemon.module": "own"})["spark.python.daemon.module"] == "own"


@pytest.mark.spark
def test_every_worker_of_a_local_session_is_forked_with_its_modules(spark: SparkSession) -> None:
    def parents(numbers: Iterable[int]) -> Iterator[tuple[int, list[str], bool]]:
        list(numbers)
        yield os.getpid(), psutil.Process(os.getppid()).cmdline(), gc.get_freeze_count() > 0

    found = spark.sparkContext.parallelize(range(4), 2).mapPartitions(parents).collect()
    assert {frozen for _, _, frozen in found} == {True}
    assert {daemon.__name__ in command for _, command, _ in found} == {True}


@pytest.mark.spark
def test_a_worker_that_dies_is_followed_by_another_fork(spark: SparkSession, tmp_path: Path) -> None:
    seen = str(tmp_path / "seen")

    def dies_once(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if not os.path.exists(seen):
            with open(seen, "w", encoding="utf-8"):
                os.kill(os.getpid(), signal.SIGKILL)
        yield from batches

    assert spark.range(0, 5, 1, 1).mapInArrow(dies_once, "id long").count() == 5


@pytest.mark.spark
def test_workers_forked_side_by_side_decode_each_its_own_records(spark: SparkSession) -> None:
    def doubled(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import io  # noqa: PLC0415

        import pyarrow.json  # noqa: PLC0415

        for batch in batches:
            lines = b"".join(b'{"id": %d}\n' % (2 * number) for number in batch["id"].to_pylist())
            yield from pyarrow.json.read_json(io.BytesIO(lines)).to_batches()

    rows = spark.range(0, 40_000, 1, 4).mapInArrow(doubled, "id long").collect()
    assert sorted(row.id for row in rows) == list(range(0, 80_000, 2))


@contextmanager
def connected(family: socket.AddressFamily) -> Iterator[tuple[socket.socket, socket.socket]]:
    if family == socket.AF_UNIX:
        ends = socket.socketpair()
    else:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            ends = socket.create_connection(listener.getsockname()), listener.accept()[0]
    with ends[0], ends[1]:
        yield ends


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_UNIX])
def test_a_task_is_served_by_any_connection_and_one_by_tcp_is_told_at_once_what_came(
    family: socket.AddressFamily,
) -> None:
    served = list[bytes]()

    def serve(coming: IO[bytes], going: IO[bytes]) -> object:
        served.append(coming.read(4))
        served.append(coming.read(200_000))
        going.write(b"done")
        going.flush()
        by_tcp = isinstance(getattr(coming, "raw", None), daemon.Acknowledged)
        assert by_tcp == (family == socket.AF_INET and hasattr(socket, "TCP_QUICKACK"))
        return 7

    for _ in range(2):
        with connected(family) as (spark, worker), ThreadPoolExecutor(1) as pool:
            coming, going = (os.fdopen(os.dup(worker.fileno()), mode, 2**16) for mode in ("rb", "wb"))
            with coming, going:
                done = pool.submit(daemon.without_delay(serve), coming, going)
                spark.sendall(b"task")
                spark.sendall(b"x" * 200_000)
                assert spark.recv(4) == b"done"
                assert done.result(60) == 7
                # It is Spark's to close, and serves the next task.
                spark.sendall(b"more")
                assert worker.recv(4) == b"more"
    assert served == [b"task", b"x" * 200_000] * 2


@pytest.mark.skipif(not hasattr(socket, "TCP_QUICKACK"), reason="only Linux is asked for it")
def test_each_piece_that_comes_is_acknowledged() -> None:
    asked = list[tuple[int, ...]]()

    class Watched(socket.socket):
        def setsockopt(self, *option: Any) -> None:
            asked.append(option)

    with connected(socket.AF_INET) as (spark, worker), Watched(fileno=os.dup(worker.fileno())) as watched:
        coming = daemon.Acknowledged(watched)
        for piece in (b"a", b"bc"):
            spark.sendall(piece)
            assert coming.read(2) == piece
        spark.shutdown(socket.SHUT_WR)
        assert coming.read(2) == b""
    assert asked == [(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)] * 3
