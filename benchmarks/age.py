"""What a table's age costs: the commits of weeks, one after the other, and a start of a pipeline that has very many tables."""

from __future__ import annotations

import multiprocessing
import os
import resource
import shutil
import statistics
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.commit_cost import AgingTable
from benchmarks.sizes import Sizes

from distributary.ingest.settings.groups import Columns
from distributary.ingest.tables.known import TableBook
from distributary.ingest.tables.log_commit import NativeCommits

# Between two commits, as the entries' times tell it: twenty thousand are two weeks.
SECONDS_A_BATCH = 60.0

_CHECKPOINT = ".checkpoint.parquet"

_MIB = 2**20


@dataclass(frozen=True, slots=True)
class Age:
    """A table after so many commits, and so many tables after `started_commits` each.

    young_ms, old_ms   a commit, checkpoints and their clean-up included: mean of the first thousand, and of the last quarter
    log_bytes          of everything in the table's log; `checkpoint_bytes` of the newest checkpoint alone
    start_seconds      until a process that was just started knows all tables and what was committed to them last
    start_mib          what it held at the most
    """

    commits: int
    young_ms: float
    old_ms: float
    log_bytes: int
    checkpoint_bytes: int
    started_tables: int
    started_commits: int
    start_seconds: float
    start_mib: float

    @property
    def slower(self) -> float:
        """How many times the cost of a young table's commit an old one's has."""
        return self.old_ms / self.young_ms

    @property
    def log_by_checkpoint(self) -> float:
        """How many times the newest checkpoint the whole log is."""
        return self.log_bytes / self.checkpoint_bytes


def measure_age(sizes: Sizes, folder: Path) -> Age:
    """Commit again and again to a table, whose clock is turned; and start over copies of a younger one."""
    table, took = AgingTable(folder / "old"), list[float]()
    commits, now = NativeCommits(), time.time()
    log = table.folder / "_delta_log"
    for number in range(sizes.age_commits):
        took.append(table.commit(commits, number))
        # Not of the newest entry, by which the table is known to be what it was. Version 0 made the table, 1 is batch 0.
        moment = now - (sizes.age_commits - number) * SECONDS_A_BATCH
        for name in (f"{number:020d}.json", f"{number:020d}{_CHECKPOINT}"):
            if (log / name).exists():
                os.utime(log / name, (moment, moment))
    commits.close()
    newest = max(log.glob(f"*{_CHECKPOINT}"))
    seconds, held = _started(folder / "many", sizes)
    return Age(
        commits=sizes.age_commits,
        young_ms=statistics.mean(took[:1_000]) * 1000,
        old_ms=statistics.mean(took[-(len(took) // 4) :]) * 1000,
        log_bytes=sum(path.stat().st_size for path in log.iterdir()),
        checkpoint_bytes=newest.stat().st_size,
        started_tables=sizes.started_tables,
        started_commits=sizes.commits,
        start_seconds=seconds,
        start_mib=held,
    )


def _started(root: Path, sizes: Sizes) -> tuple[float, float]:
    """The seconds and the MiB of a start over copies of one table; their data files, which nobody opens, are left out."""
    one, commits = AgingTable(root / "one"), NativeCommits()
    for number in range(sizes.commits):
        one.commit(commits, number)
    commits.close()
    for number in range(sizes.started_tables):
        shutil.copytree(one.folder / "_delta_log", root / f"table_{number}" / "_delta_log")
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_start, (str(root), sizes.started_tables, one.app_id))


def _start(root: str, tables: int, app_id: str) -> tuple[float, float]:
    began = time.perf_counter()
    book = TableBook(root, Columns(), None)
    folders = [f"table_{number}" for number in range(tables)]
    newest = book.newest_batches(dict.fromkeys(folders, app_id))
    states = book.states(folders)
    assert len(states) == tables and len(set(newest.values())) == 1
    return time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / _MIB
