"""A pipeline that runs in a thread of its own, while whoever started it sends records and waits for them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from types import TracebackType

from pyspark.sql import SparkSession
from typing_extensions import Self

from distributary.errors import PipelineError
from distributary.ingest.progress import Progress, Silent, Summary
from distributary.ingest.run import run
from distributary.ingest.settings.model import Settings
from distributary.ingest.supervision.outcome import Outcome

# Far longer than a start or a batch takes on a slow machine: without any sign of life for so long, waiting ends with an
# error instead of never.
PATIENCE_SECONDS = 300.0


class BackgroundRun:
    """Runs from entering to leaving the `with` block; leaving it stops the pipeline in good order."""

    def __init__(
        self,
        settings: Settings,
        spark: SparkSession,
        progress: Progress | None = None,
        total: int | None = None,
    ) -> None:
        """`total` is how many records will come in all, where somebody knows: then the bar does too."""
        self.settings = settings
        self._spark, self._stop = spark, threading.Event()
        self._watch = _Watch(progress or Silent(), total)
        self._thread = threading.Thread(target=self._run, name=f"run-{settings.name}", daemon=True)
        self._outcome: Outcome | None = None
        self._error: BaseException | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        if error is None and self._error is not None:
            raise self._error

    def outcome(self) -> Outcome:
        """What the run came to, once it is over. Raises what it stopped with."""
        if self._error is not None:
            raise self._error
        if self._outcome is None:
            raise PipelineError("the run is not over yet")
        return self._outcome

    def wait_until_started(self) -> None:
        """Wait until the pipeline has pinned its schemas and begun to read."""
        self._wait(lambda: self._watch.started_reading, "start")

    def wait_for(self, rows: int, seconds: float = PATIENCE_SECONDS) -> None:
        """Wait until so many records are committed. Raises what the pipeline stopped with, if it stops first."""
        self._wait(lambda: self._watch.rows >= rows, f"commit {rows:,} records", seconds)

    def _wait(self, is_so: Callable[[], bool], what: str, seconds: float = PATIENCE_SECONDS) -> None:
        with self._watch.changed:
            came, alive = self._watch.until(is_so, seconds), self._watch.over or is_so()
        if self._error is not None:
            raise self._error
        if not came:
            gone = f"showed no sign of life for {seconds:g} s before it could {what}; the machine may be too busy"
            when = f"ended before it could {what}" if alive else gone
            raise PipelineError(f"the pipeline {when}; it has {self._watch.rows:,} records")

    def _run(self) -> None:
        try:
            self._outcome = run(self.settings, self._watch, self._stop, self._spark)
        except BaseException as error:  # noqa: BLE001 raised again in the thread that waits
            self._error = error
        finally:
            self._watch.end()


class _Watch:
    """Passes a run's events on, and counts."""

    def __init__(self, inner: Progress, total: int | None) -> None:
        self._inner, self._total = inner, total
        self.changed = threading.Condition()
        self.rows = 0
        self.started_reading = False
        self.over = False
        self._signs = 0

    def until(self, is_so: Callable[[], bool], seconds: float) -> bool:
        """Whether it came to be so before the run was over, or silent for so many seconds; `changed` is held."""
        while not (self.over or is_so()) and self._moves(seconds):
            continue
        return is_so()

    def _moves(self, seconds: float) -> bool:
        signs = self._signs
        return self.changed.wait_for(lambda: self.over or self._signs != signs, seconds)

    def started(self, name: str, total_known: int | None) -> None:
        self._inner.started(name, self._total or total_known)
        self._sign_of_life()

    def reading(self) -> None:
        self._inner.reading()
        with self.changed:
            self.started_reading = True
        self._sign_of_life()

    def batch_done(
        self, batch_id: int, rows: int, tables: int, seconds: float, total_known: int | None
    ) -> None:
        self._inner.batch_done(batch_id, rows, tables, seconds, self._total or total_known)
        with self.changed:
            self.rows += rows
        self._sign_of_life()

    def evolution(self, changes: Sequence[str], met_at: float, decoding_at: float) -> None:
        self._inner.evolution(changes, met_at, decoding_at)
        self._sign_of_life()

    def waiting(self, reason: str, seconds: float) -> None:
        self._inner.waiting(reason, seconds)
        self._sign_of_life()

    def failure(self, error: str, wait: float) -> None:
        self._inner.failure(error, wait)
        self._sign_of_life()

    def finished(self, summary: Summary) -> None:
        self._inner.finished(summary)

    def _sign_of_life(self) -> None:
        with self.changed:
            self._signs += 1
            self.changed.notify_all()

    def end(self) -> None:
        with self.changed:
            self.over = True
            self.changed.notify_all()
