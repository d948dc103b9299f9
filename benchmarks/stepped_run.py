"""A pipeline that runs on and on and is fed step by step: it waits, warm, until the next step is in its topic."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

from benchmarks.landed import verified
from benchmarks.world import World

from distributary.errors import CheckFailed
from distributary.ingest.progress import Silent
from distributary.ingest.run import run
from distributary.ingest.settings.model import Settings
from distributary.ingest.supervision.outcome import Outcome
from distributary.producer_sim.traffic.simulation import Simulation
from distributary.producer_sim.truth.sent import Truth

_LOOK_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch that is committed: its rows, the tables it wrote to, and the seconds from its begin to its commits."""

    rows: int
    tables: int
    seconds: float


class Gate(Silent):
    """Lets a pipeline's batches pass, but holds it at the end of the one that has read all that was sent.

    A pipeline that ran on would meet the first few records of a step in a batch of their own.
    """

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.failures: list[str] = []
        self._changed = threading.Condition()
        self._read = self._sent = 0
        self._open = False

    def batch_done(
        self, batch_id: int, rows: int, tables: int, seconds: float, total_known: int | None
    ) -> None:
        """Count the batch, and hold the pipeline if there is nothing more for it to read."""
        with self._changed:
            self.batches.append(Batch(rows, tables, seconds))
            self._read += rows
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._open or self._read < self._sent)

    def failure(self, error: str, wait: float) -> None:
        """Keep what failed: a figure that includes a failure is none."""
        self.failures.append(error)

    def sent(self, records: int) -> None:
        """More is in the topic, all of it."""
        with self._changed:
            self._sent += records
            self._changed.notify_all()

    def drained(self, seconds: float) -> bool:
        """Whether everything sent is read, waiting for so long."""
        with self._changed:
            return self._changed.wait_for(lambda: self._read >= self._sent, seconds)

    def open(self) -> None:
        """Hold nothing any more."""
        with self._changed:
            self._open = True
            self._changed.notify_all()


class SteppedRun:
    """One run of one pipeline; made by `stepped_run`."""

    def __init__(self, world: World, settings: Settings, pool: ThreadPoolExecutor) -> None:
        self._world, self._settings, self._pool = world, settings, pool
        self._gate, self._stop = Gate(), threading.Event()
        self._running: Future[Outcome] | None = None
        self._truth: Truth | None = None

    def step(self, simulation: Simulation) -> list[Batch]:
        """Send this, let the pipeline read it, and tell of the batches it came in."""
        truth = self._world.send(simulation)
        self._truth = truth if self._truth is None else self._truth.merged(truth)
        first = len(self._gate.batches)
        self._gate.sent(truth.records)
        if self._running is None:
            self._running = self._pool.submit(
                run, self._settings, self._gate, self._stop, self._world.spark, self._world.registry
            )
        while not self._gate.drained(_LOOK_SECONDS):
            if self._running.done():
                self._running.result()
                raise CheckFailed("the pipeline ended before it had read everything that was sent")
        return self._gate.batches[first:]

    def end(self) -> Outcome:
        """Stop the pipeline. Raises CheckFailed unless its tables are right and nothing failed on the way."""
        self.stop()
        assert self._running is not None and self._truth is not None
        outcome = self._running.result()
        if self._gate.failures:
            raise CheckFailed(f"an attempt failed while it was measured: {self._gate.failures[0]}")
        verified(self._settings, self._truth)
        return outcome

    def stop(self) -> None:
        """Let the pipeline go, and tell it to end."""
        self._gate.open()
        self._stop.set()


@contextmanager
def stepped_run(world: World, settings: Settings) -> Iterator[SteppedRun]:
    """A run that does not outlive the block."""
    with ThreadPoolExecutor(1, thread_name_prefix="pipeline") as pool:
        stepped = SteppedRun(world, settings, pool)
        try:
            yield stepped
        finally:
            stepped.stop()
