"""Very many small batches, with upkeep beside them and without: what it costs them, and what the tables are like then."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.landed import outcome_holds
from benchmarks.tables.amounts import TableSizes
from benchmarks.tables.keyed import GAME, KeyedTopic, keyed_topic
from benchmarks.world import World
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from distributary.ingest.run import run

# So that there are several in a run of minutes; all day long it is done once.
_EVERY_SECONDS = 30

_OPENINGS = 5


@dataclass(frozen=True, slots=True)
class Kept:
    """A run over so many small batches, and the tables afterwards.

    seconds       of the whole run
    files         in the newest version of the table that has most
    log_bytes     of the longest log, of what a reader or a list of it meets
    open_seconds  until a new reader knows a table's files, the median: delta-rs; `spark_open_seconds`: Spark
    """

    seconds: float
    files: int
    log_bytes: int
    open_seconds: float
    spark_open_seconds: float


@dataclass(frozen=True, slots=True)
class Upkeep:
    """The same batches with upkeep and without, and the same rows in one batch, as a table is that is new."""

    batches: int
    tables: int
    on: Kept
    off: Kept
    fresh: Kept


def measure_upkeep(world: World, sizes: TableSizes) -> Upkeep:
    """Each way once. Raises CheckFailed where rows were lost."""
    small = replace(sizes, keys=sizes.upkeep_batches * sizes.upkeep_rows)
    topic = keyed_topic(world, small, sizes.games)
    topic.fill()
    maintain = {"maintain": {"every_hours": _EVERY_SECONDS / 3_600}}
    found = {
        name: _once(world, topic, name, rows, sink)
        for name, rows, sink in (
            ("fresh", small.keys, {}),
            ("off", sizes.upkeep_rows, {}),
            ("on", sizes.upkeep_rows, maintain),
        )
    }
    return Upkeep(sizes.upkeep_batches, sizes.games, **found)


def _once(world: World, topic: KeyedTopic, name: str, batch_rows: int, sink: dict[str, Any]) -> Kept:
    folder = world.new_folder(world.new_name(f"upkeep-{name}"))
    settings = world.settings(
        topic.name,
        folder,
        batch_rows,
        route={"field": GAME, "table": "{entity}"},
        sink={"root": str(folder / "lake"), **sink},
    )
    with world.watch.step(f"measuring upkeep: {name}", 1):
        began = time.perf_counter()
        outcome = run(settings, spark=world.spark)
        seconds = time.perf_counter() - began
    outcome_holds(outcome, topic.sent)
    tables = [folder / "lake" / game for game in topic.games]
    kept = Kept(
        seconds,
        max(len(DeltaTable(table).file_uris()) for table in tables),
        max(_bytes(table / "_delta_log") for table in tables),
        statistics.median(map(_opened, tables)),
        statistics.median(_opened_by_spark(world.spark, table) for table in tables),
    )
    world.watch.say(
        f"{name}: {kept.seconds:.1f} s, at most {kept.files:,} files and {kept.log_bytes / 2**20:.1f} MiB of log a table,"
        f" open in {kept.open_seconds * 1_000:.1f} ms, in Spark in {kept.spark_open_seconds * 1_000:.0f} ms"
    )
    return kept


def _bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def _opened(table: Path) -> float:
    return _best(lambda: DeltaTable(table).file_uris(), lambda: None)


def _opened_by_spark(spark: SparkSession, table: Path) -> float:
    """As in a session that is new: what Delta knows of tables is forgotten before."""
    jvm: Any = spark._jvm
    return _best(
        lambda: spark.read.format("delta").load(str(table)).inputFiles(),
        lambda: jvm.org.apache.spark.sql.delta.DeltaLog.clearCache(),  # noqa: PLW0108 - each name is asked of the JVM
    )


def _best(opens: Callable[[], object], before: Callable[[], object]) -> float:
    """What else the machine does is no matter of a table's."""
    found = []
    for _ in range(_OPENINGS):
        before()
        began = time.perf_counter()
        opens()
        found.append(time.perf_counter() - began)
    return min(found)
