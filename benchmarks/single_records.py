"""How long a record waits that comes alone: the whole of Spark's trigger, in a pipeline that has been running and is idle."""

from __future__ import annotations

import shutil
import statistics
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from benchmarks.landed import verified
from benchmarks.world import World
from pyspark.sql.streaming.query import StreamingQuery

from distributary.errors import CheckFailed
from distributary.ingest.progress import Silent
from distributary.ingest.run import run

# A pipeline's first batches create tables, and the JVM compiles what is new to it.
_FIRST_RECORDS = 20

_PATIENCE_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class SingleRecords:
    """The seconds of each trigger that found one record: planned, decoded, decided, committed to its table and the ledger."""

    seconds: tuple[float, ...]

    @property
    def median_seconds(self) -> float:
        """Those of the middle one."""
        return statistics.median(self.seconds)


class _Arrivals(Silent):
    """Counts what was committed."""

    def __init__(self) -> None:
        self._rows, self._changed = 0, threading.Condition()

    def batch_done(
        self, batch_id: int, rows: int, tables: int, seconds: float, total_known: int | None
    ) -> None:
        with self._changed:
            self._rows += rows
            self._changed.notify_all()

    def wait_for(self, rows: int) -> None:
        """Until so many are committed, in all. Raises CheckFailed where they do not come."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._rows >= rows, _PATIENCE_SECONDS):
                raise CheckFailed(f"{self._rows} of {rows} records were committed; the pipeline stands still")


def measure_single_records(world: World) -> SingleRecords:
    """One record after the other, each when the one before is committed."""
    name = world.new_name("single-records")
    folder = world.new_folder(name)
    count = _FIRST_RECORDS + world.sizes.single_records
    settings = world.settings(
        name, folder, world.sizes.batch_rows, trigger={"available_now": False, "interval_seconds": 0}
    )
    truth = world.send(world.simulation(name, games=world.sizes.games, events=1))
    arrived, stop = _Arrivals(), threading.Event()
    with (
        world.watch.step("measuring records that come alone", count) as move,
        ThreadPoolExecutor(1, thread_name_prefix="pipeline") as pool,
    ):
        running = pool.submit(run, settings, arrived, stop, world.spark, world.registry)
        try:
            for number in range(1, count + 1):
                arrived.wait_for(number)
                move(number)
                if number < count:
                    one = world.simulation(name, games=world.sizes.games, events=1, seed=number)
                    truth = truth.merged(world.send(one))
            found = _triggers(world)
        finally:
            stop.set()
        running.result()
    verified(settings, truth)
    shutil.rmtree(folder)
    return SingleRecords(tuple(found[_FIRST_RECORDS:]))


def _triggers(world: World) -> list[float]:
    (query,) = world.spark.streams.active
    assert isinstance(query, StreamingQuery)
    done = [progress for progress in query.recentProgress if progress["numInputRows"]]
    return [progress["durationMs"]["triggerExecution"] / 1000 for progress in done]
