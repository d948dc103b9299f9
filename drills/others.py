"""Drills in which others work on the tables meanwhile: OPTIMIZE, VACUUM and ALTER, by delta-rs and by Spark."""

from __future__ import annotations

import json
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from deltalake import DeltaTable, Field
from deltalake.exceptions import DeltaError
from deltalake.schema import PrimitiveType
from drills.drill import Account
from drills.upserted import CHANGES, ends_whole, keyed_pipeline
from drills.world import World
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from tests.ingest.e2e.pipeline_kit import PATIENCE_SECONDS, PipelineKit

_PAUSE_SECONDS = 0.3


# So that who works on tables over and over does not keep a small machine from the run for good.
_MOST_WORKS = 12

# Longer ago than what VACUUM keeps when nobody says how long.
_LONG_AGO_SECONDS = 8 * 24 * 3600

# What is done to a table, in turn; each gives how many files are gone by it.
_Work = Callable[[PipelineKit, str, int], int]
_Works = tuple[_Work, _Work, _Work]


def optimize_vacuum_alter(world: World, account: Account) -> None:
    """Others compact, vacuum and alter every table over and over while a run writes to them: delta-rs in one round, Spark in the next, and once more where each key has one row."""
    for works in (_BY_DELTA_RS, _BY_SPARK):
        kit = world.pipeline(limits={"batch_rows": 500})
        kit.send_version(1)
        kit.run()
        # What was there before it the run in the background does not count.
        before = kit.truth.records
        with kit.running() as run, _at_work(kit, works) as others:
            for version in (2, 3):
                kit.send_version(version)
            with account.recovering():
                run.wait_for(kit.truth.records - before)
            _require_all_done(others, account)
        account.ends_whole(kit)
        kit.configured(trigger={"available_now": True})
    keyed = keyed_pipeline(world)
    keyed.kit.run()
    with keyed.kit.running() as run, _at_work(keyed.kit, _BY_SPARK_WHERE_ROWS_ARE_READ) as others:
        for _ in range(2):
            keyed.send(CHANGES)
        with account.recovering():
            run.wait_for(2 * CHANGES)
        _require_all_done(others, account)
    keyed.kit.configured(trigger={"available_now": True})
    ends_whole(keyed.kit, account)


def _require_all_done(others: _Others, account: Account) -> None:
    # A small machine may have had no time for them yet.
    if not others.got_through.wait(PATIENCE_SECONDS):
        account.differences.append(
            f"of three kinds of work beside the run {len(others.kinds)} got through, and VACUUM deleted {others.vacuumed} files"
        )
    account.faults += others.done
    account.vacuumed += others.vacuumed


class _Others:
    """Whoever works on the tables, until told that it is over."""

    def __init__(self, kit: PipelineKit, works: _Works) -> None:
        self._kit, self._works = kit, works
        self.done, self.vacuumed, self.kinds = 0, 0, set[int]()
        self.over, self.got_through = threading.Event(), threading.Event()

    def __call__(self) -> None:
        """Work on one table after the other, and seldom enough to leave the run a share of the machine."""
        tables = (table for _ in count() for table in self._kit.lake.entity_tables())
        for turn, table in enumerate(tables):
            kind = turn % len(self._works)
            try:
                self.vacuumed += self._works[kind](self._kit, table, turn)
                self.done += 1
                self.kinds.add(kind)
            except (DeltaError, PySparkException, Py4JError, OSError):
                pass  # somebody else was first: they try again, as their owners would
            if self.vacuumed and len(self.kinds) == len(self._works):
                self.got_through.set()
            enough = self.done >= _MOST_WORKS and self.got_through.is_set()
            if self.over.wait(_PAUSE_SECONDS) or enough:
                return


@contextmanager
def _at_work(kit: PipelineKit, works: _Works) -> Iterator[_Others]:
    others = _Others(kit, works)
    thread = threading.Thread(target=others, daemon=True)
    thread.start()
    try:
        yield others
    finally:
        others.over.set()
        thread.join(PATIENCE_SECONDS)


def _compact_by_delta_rs(kit: PipelineKit, table: str, _: int) -> int:
    DeltaTable(kit.root / table).optimize.compact()
    return 0


def _vacuum_by_delta_rs(kit: PipelineKit, table: str, _: int) -> int:
    handle = DeltaTable(kit.root / table)

    def vacuum() -> None:
        # Of files that no log names it takes those that are as old as Delta asks for: what a batch has written and not committed
        # yet is younger. Of those that the log says are removed, however young, no batch is.
        handle.vacuum(dry_run=False, full=True)
        handle.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)

    return _gone(kit.root / table, vacuum)


def _alter_by_delta_rs(kit: PipelineKit, table: str, turn: int) -> int:
    added = [Field(f"by_others_{turn}", PrimitiveType("string"))]
    DeltaTable(kit.root / table).alter.add_columns(added)
    return 0


def _compact_by_spark(kit: PipelineKit, table: str, _: int) -> int:
    kit.spark.sql(f"OPTIMIZE {_name(kit, table)}")
    return 0


def _vacuum_by_spark(kit: PipelineKit, table: str, _: int) -> int:
    session, name = _careless(kit), _name(kit, table)
    # So that there is what was removed.
    session.sql(f"OPTIMIZE {name}")

    def vacuum() -> None:
        session.sql(f"VACUUM {name}")
        # As above: LITE looks at what the log says is removed, and at nothing else.
        session.sql(f"VACUUM {name} LITE RETAIN 0 HOURS")

    return _gone(kit.root / table, vacuum)


def _alter_by_spark(kit: PipelineKit, table: str, turn: int) -> int:
    name = _name(kit, table)
    kit.spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('by.others' = '{turn}')")
    kit.spark.sql(f"ALTER TABLE {name} ADD COLUMNS (by_others_{turn} STRING)")
    # All rows meet it. From here on Spark's writer alone may write to the table.
    kit.spark.sql(f"ALTER TABLE {name} ADD CONSTRAINT by_others_{turn} CHECK (kafka_offset >= 0)")
    return 0


def _vacuum_where_rows_are_read(kit: PipelineKit, table: str, _: int) -> int:
    # A merge may be reading a file that was removed a moment ago.
    return _gone(kit.root / table, lambda: kit.spark.sql(f"VACUUM {_name(kit, table)}"))


def _add_a_column_by_spark(kit: PipelineKit, table: str, turn: int) -> int:
    kit.spark.sql(f"ALTER TABLE {_name(kit, table)} ADD COLUMNS (by_others_{turn} STRING)")
    return 0


_BY_DELTA_RS = (_compact_by_delta_rs, _vacuum_by_delta_rs, _alter_by_delta_rs)
_BY_SPARK = (_compact_by_spark, _vacuum_by_spark, _alter_by_spark)

# Such a table takes no constraint.
_BY_SPARK_WHERE_ROWS_ARE_READ = (_compact_by_spark, _vacuum_where_rows_are_read, _add_a_column_by_spark)


def _name(kit: PipelineKit, table: str) -> str:
    return f"delta.`{kit.root / table}`"


def _careless(kit: PipelineKit) -> SparkSession:
    """A session of its own that lets VACUUM keep less than Delta asks for."""
    session = kit.spark.newSession()
    session.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    return session


def _gone(folder: Path, vacuum: Callable[[], object]) -> int:
    """How many files VACUUM deletes: one that nobody ever named and that lies there for long, and those that were removed."""
    left = folder / f"part-00000-{uuid.uuid4()}-c000.snappy.parquet"
    left.write_bytes(b"of a writer that died")
    at = time.time() - _LONG_AGO_SECONDS
    os.utime(left, (at, at))
    may_go = {left, *(folder / name for name in _removed(folder))}
    there = {file for file in may_go if file.exists()}
    vacuum()
    return sum(not file.exists() for file in there)


def _removed(folder: Path) -> set[str]:
    """The files that a table's log says are removed."""
    entries = [
        json.loads(line)
        for file in (folder / "_delta_log").glob("*.json")
        for line in file.read_text(encoding="utf-8").splitlines()
    ]
    return {entry["remove"]["path"] for entry in entries if "remove" in entry}
