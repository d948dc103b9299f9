"""What a commit costs a young table and an old one."""

from __future__ import annotations

import json
import os
import random
import shutil
import statistics
import time
import uuid
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from benchmarks.sizes import Sizes
from deltalake import DeltaTable

from distributary.ingest.columns.layout import Layout
from distributary.ingest.kafka.columns import table_schema
from distributary.ingest.parquet.data_file import DataFile, file_name
from distributary.ingest.settings.groups import Columns
from distributary.ingest.storage.opening import files_at
from distributary.ingest.tables.change import create
from distributary.ingest.tables.log_commit import NativeCommits
from distributary.ingest.tables.transaction import TableCommit, Transaction
from distributary.producer_sim.events.versions import arrow_schema

_ROWS = 100


@dataclass(frozen=True, slots=True)
class CommitCost:
    """Milliseconds of a commit of one file, medians over the tables.

    cycle          after how many commits the log gets a checkpoint (or all commits); a price is that of a whole cycle
    first_ms       of a table's first commit
    last_ms        of its very last one, whether or not that writes a checkpoint
    last_cycle_ms  the mean of the last cycle, one of which writes a checkpoint
    met_again_ms   of one more, by a pipeline that was just started and has to read the table first
    """

    tables: int
    commits: int
    cycle: int
    first_ms: float
    last_ms: float
    last_cycle_ms: float
    met_again_ms: float

    @property
    def growth(self) -> float:
        """How many times the first commit's cost the last ones have."""
        return self.last_cycle_ms / self.first_ms


class AgingTable:
    """A table with an entity's columns and one Parquet file to commit again and again under other names."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.schema = folder, table_schema(Columns(), Layout(arrow_schema(1)))
        self._generation = str(uuid.uuid4())
        self.app_id = f"{self._generation}/events"
        create(folder, self.schema, {})
        self._original = folder.with_suffix(".parquet")
        with pq.ParquetWriter(self._original, self.schema, compression="zstd") as writer:
            writer.write_table(pa.table([pa.nulls(_ROWS, kind) for kind in self.schema.types], self.schema))

    def _statistics(self, number: int) -> str:
        """What the log says of a file, as different from one to the next as with rows of a game's events."""
        chance = random.Random(number)
        first = number * _ROWS
        low, high = (
            {
                "kafka_topic": "events",
                "kafka_partition": 0,
                "kafka_offset": offset,
                "kafka_ts": f"2026-01-01T{offset // 3600 % 24:02}:{offset // 60 % 60:02}:{offset % 60:02}.000Z",
                "schema_id": 1,
                "event_id": str(uuid.UUID(int=chance.getrandbits(128))),
                "game_name": "star_harvest",
                "gamer_id": f"gamer_{chance.randrange(10**6)}",
                "event_timestamp": 1_767_225_600_000 + offset,
                "event_type": "login",
                "level": chance.randrange(100),
                "score": chance.randrange(10**6),
                "duration_s": chance.random() * 3_600,
                "position": {axis: chance.random() for axis in "xyz"},
            }
            for offset in (first, first + _ROWS - 1)
        )
        nulls = {**dict.fromkeys(low, 0), "position": dict.fromkeys("xyz", 0)}
        told = {"numRecords": _ROWS, "minValues": low, "maxValues": high, "nullCount": nulls}
        return json.dumps(told, separators=(",", ":"))

    @property
    def checkpoint_interval(self) -> int:
        """After how many commits Delta's log gets a checkpoint."""
        return int(DeltaTable(self.folder).metadata().configuration["delta.checkpointInterval"])

    def commit(self, commits: NativeCommits, batch_id: int) -> float:
        """Commit one more file; the seconds that took."""
        name = file_name(self._generation, batch_id)
        os.link(self._original, self.folder / name)
        size = self._original.stat().st_size
        file = DataFile(self.folder.name, name, _ROWS, size, self._statistics(batch_id))
        one = TableCommit(
            table=self.folder.name,
            place=files_at(self.folder),
            files=[file],
            schema=self.schema,
            transaction=Transaction(self.app_id, batch_id),
            native=True,
        )
        began = time.perf_counter()
        commits.commit(one)
        # Checkpoints are written aside, but not for nothing.
        commits.settle()
        return time.perf_counter() - began


def measure_commits(sizes: Sizes, folder: Path) -> CommitCost:
    """As a pipeline commits batch after batch; tables take turns, so that what disturbs a moment disturbs all a little."""
    # The first commits of a process load what all later ones use.
    warm, commits = AgingTable(folder / "warm_up"), NativeCommits()
    cycle = min(warm.checkpoint_interval, sizes.commits)
    for batch_id in range(cycle):
        warm.commit(commits, batch_id)
    tables = [AgingTable(folder / f"table_{number}") for number in range(sizes.commit_tables)]
    rounds = [[table.commit(commits, batch_id) for table in tables] for batch_id in range(sizes.commits)]
    again = NativeCommits()
    met_again = [table.commit(again, sizes.commits) for table in tables]
    shutil.rmtree(folder)
    cycles = [statistics.mean(table) for table in zip(*rounds[-cycle:], strict=True)]
    return CommitCost(
        tables=sizes.commit_tables,
        commits=sizes.commits,
        cycle=cycle,
        first_ms=statistics.median(rounds[0]) * 1000,
        last_ms=statistics.median(rounds[-1]) * 1000,
        last_cycle_ms=statistics.median(cycles) * 1000,
        met_again_ms=statistics.median(met_again) * 1000,
    )
