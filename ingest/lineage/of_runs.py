"""A run told to data catalogues as it goes: that it began, goes on and ended, and what became of derived tables."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from distributary.ingest.derived.in_runs import Tell, tell_nobody
from distributary.ingest.derived.refresh import Refreshed
from distributary.ingest.lineage.catalogue import Catalogue, State, why_of
from distributary.ingest.progress import Progress, Summary
from distributary.ingest.settings.lineage.given import Lineage
from distributary.ingest.settings.model import Settings


@contextmanager
def told(
    settings: Settings, watch: Progress, topics: Callable[[], Sequence[str]]
) -> Iterator[tuple[Progress, Tell]]:
    """Who is told of a run's events within, and of its derived tables; with `lineage` in the settings data catalogues are, too.

    topics  which topics are read now

    Raises ConfigError where the package that tells them is not there. Nothing else of it raises, and nothing waits for it but the end, for `timeout_seconds` at most.
    """
    if settings.lineage is None:
        yield watch, tell_nobody
        return
    lineage = _OfRun(settings.lineage, settings, watch, topics)
    lineage.began()
    try:
        yield lineage, lineage.derived
    except BaseException as error:
        lineage.ended(why_of(error, settings.source.kafka))
        raise
    lineage.ended()


class _OfRun:
    """Watches a run for who watches it, and tells of it."""

    def __init__(
        self, given: Lineage, settings: Settings, watch: Progress, topics: Callable[[], Sequence[str]]
    ) -> None:
        self._given, self._watch = given, watch
        self._catalogue = Catalogue.opened(given, settings, topics)
        self._last, self._tables, self._evolved, self._complained = time.monotonic(), 0, False, False

    # What is told

    def began(self) -> None:
        """The run began."""
        self._send("START")

    def ended(self, why: str | None = None) -> None:
        """The run ended, by an error if there is a reason."""
        self._send("COMPLETE" if why is None else "FAIL", why or "")
        self._catalogue.sending.close(self._given.timeout_seconds)
        lost = self._catalogue.sending.told.lost
        self._complain(f"{lost:,} events of lineage were not told" if lost and self._complained else "")

    def derived(self, done: Sequence[Refreshed], /) -> None:
        """Some derived tables were made current, or were tried to be."""
        self._catalogue.derived(done)

    def _send(self, state: State, why: str = "") -> None:
        self._catalogue.of_run(state, why)
        self._last = time.monotonic()

    def _complain(self, last: str = "") -> None:
        """Say, once, that nobody takes what is told."""
        found = self._catalogue.sending.told
        if last:
            self._watch.waiting(f"lineage: {last}", 0.0)
        elif found.lost and not self._complained:
            self._complained = True
            to = self._given.file or self._given.url
            self._watch.waiting(f"lineage: {to} does not take events ({found.why}); the run goes on", 0.0)

    # What it is told

    def started(self, name: str, total_known: int | None) -> None:
        """The pipeline begins to read."""
        self._watch.started(name, total_known)

    def reading(self) -> None:
        """A query reads."""
        self._watch.reading()

    def batch_done(
        self, batch_id: int, rows: int, tables: int, seconds: float, total_known: int | None
    ) -> None:
        """A batch is committed."""
        self._watch.batch_done(batch_id, rows, tables, seconds, total_known)
        if self._evolved or self._is_time() or tables > self._tables:
            self._tables, self._evolved = max(tables, self._tables), False
            self._send("RUNNING")
        self._complain()

    def evolution(self, changes: Sequence[str], met_at: float, decoding_at: float) -> None:
        """A schema evolved."""
        self._evolved = True
        self._watch.evolution(changes, met_at, decoding_at)

    def waiting(self, reason: str, seconds: float) -> None:
        """Nothing goes on for a while."""
        self._watch.waiting(reason, seconds)

    def failure(self, error: str, wait: float) -> None:
        """An attempt failed."""
        self._watch.failure(error, wait)

    def finished(self, summary: Summary) -> None:
        """The run is over."""
        self._complain()
        self._watch.finished(summary)

    def _is_time(self) -> bool:
        return time.monotonic() - self._last >= self._given.every_seconds
