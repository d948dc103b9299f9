from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

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
