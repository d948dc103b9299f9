"""What the workers hold while one batch takes the whole topic, and what files they write then."""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow.parquet as pq
from benchmarks import ways
from benchmarks.landed import check_rows
from benchmarks.worker_memory import WorkerMemory, watched_workers
from benchmarks.world import World

from distributary.errors import CheckFailed
from distributary.ingest.tables.handle import opened
from distributary.producer_sim.verify.lake import Lake

MIB = 2**20


@dataclass(frozen=True, slots=True)
class Spread:
    """The least, the middle and the most of some numbers."""

    least: float
    median: float
    most: float

    @classmethod
    def of(cls, numbers: Sequence[float]) -> Spread:
        """That of these."""
        return cls(min(numbers), statistics.median(numbers), max(numbers))


@dataclass(frozen=True, slots=True)
class Memory:
    """Peaks in MiB, of all Python workers and the daemon that forks them; what the one batch wrote."""

    batch_rows: int
    limit_mib: float
    peak_mib: float
    peak_pss_mib: float | None
    processes: int
    files: int
    rows_a_file: Spread
    row_groups_a_file: Spread
    rows_a_group: Spread
    bytes_a_file: Spread


def measure_memory(world: World, **where: Any) -> Memory:
    """One batch of all events, by workers that have done nothing else before; `where`: settings that name another place."""
    topic = world.topic(world.sizes.games)
    folder = world.new_folder(world.new_name("memory"))
    settings = world.settings(topic.name, folder, world.sizes.events, **where)
    world.renew_session()
    with world.watch.step("measuring the workers' memory", 1), watched_workers() as memory:
        landed = ways.ours(world.spark, settings, topic)
    check_rows("memory", landed(), topic.rows)
    if not memory.most_processes:
        raise CheckFailed("none of Spark's Python workers was seen, so nobody knows what memory they had")
    found = _memory(world, memory, _footers(Lake.of(settings)), settings.limits.worker_bytes)
    shutil.rmtree(folder)
    return found


def _memory(world: World, seen: WorkerMemory, footers: list[pq.FileMetaData], limit: int) -> Memory:
    groups = [footer.row_group(n).num_rows for footer in footers for n in range(footer.num_row_groups)]
    return Memory(
        batch_rows=world.sizes.events,
        limit_mib=limit / MIB,
        peak_mib=seen.peak_rss / MIB,
        peak_pss_mib=None if seen.peak_pss is None else seen.peak_pss / MIB,
        processes=seen.most_processes,
        files=len(footers),
        rows_a_file=Spread.of([footer.num_rows for footer in footers]),
        row_groups_a_file=Spread.of([footer.num_row_groups for footer in footers]),
        rows_a_group=Spread.of(groups),
        bytes_a_file=Spread.of([_bytes(footer) for footer in footers]),
    )


def _footers(lake: Lake) -> list[pq.FileMetaData]:
    tables = [opened(lake.root.below(name)) for name in lake.entity_tables()]
    return [
        pq.ParquetFile(table.to_pyarrow_dataset().filesystem.open_input_file(path)).metadata
        for table in tables
        for path in table.get_add_actions(flatten=True)["path"].to_pylist()
    ]


def _bytes(footer: pq.FileMetaData) -> int:
    """Compressed size of the data."""
    return sum(
        footer.row_group(group).column(column).total_compressed_size
        for group in range(footer.num_row_groups)
        for column in range(footer.num_columns)
    )
