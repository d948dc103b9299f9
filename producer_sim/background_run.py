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
from distributary.ingest.settings import Settings
from distributary.ingest.supervisor import Outcome

# Far longer than a batch takes: waiting ends with an error instead of never.
PATIENCE_SECONDS = 180.0


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
            in_time = self._watch.changed.wait_for(lambda: self._watch.over or is_so(), seconds)
            came = is_so()
        if self._error is not None:
            raise self._error
        if not came:
            when = f"ended before it could {what}" if in_time else f"did not {what} within {seconds:g} s"
            raise PipelineError(f"the pipeline {when}; it has {self._watch.rows:,}")

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

    def started(self, name: str, total_known: int | None) -> None:
        self._inner.started(name, self._total or total_known)

    def reading(self) -> None:
        self._inner.reading()
        with self.changed:
            self.started_reading = True
            self.changed.notify_all()

    def batch_done(
        self, batch_id: int, rows: int, tables: int, seconds: float, total_known: int | None
    ) -> None:
        self._inner.batch_done(batch_id, rows, tables, seconds, self._total or total_known)
        with self.changed:
            self.rows += rows
            self.changed.notify_all()

    def evolution(self, changes: Sequence[str], met_at: float, decoding_at: float) -> None:
        self._inner.evolution(changes, met_at, decoding_at)

    def waiting(self, reason: str, seconds: float) -> None:
        self._inner.waiting(reason, seconds)

    def failure(self, error: str, wait: float) -> None:
        self._inner.failure(error, wait)

    def finished(self, summary: Summary) -> None:
        self._inner.finished(summary)

    def end(self) -> None:
        with self.changed:
            self.over = True
            self.changed.notify_all()
