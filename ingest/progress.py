"""What a run tells whoever watches it: a small set of events, and the watcher who says nothing.

The pipeline speaks of events only; how they look on a terminal is the command line's business.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What a run did, all its attempts together.

    batches      batches committed
    rows         records read from Kafka; every one is in `written`, `quarantined` or `dropped`, but for those that an earlier
                 checkpoint had committed to their table
    written      rows in the entities' tables
    quarantined  rows in the quarantine
    dropped      records that the settings let go, tombstones among them
    tables       tables that entities have now
    evolutions   restarts because a schema evolved
    failures     restarts for any other reason
    seconds      how long it took
    """

    batches: int = 0
    rows: int = 0
    written: int = 0
    quarantined: int = 0
    dropped: int = 0
    tables: int = 0
    evolutions: int = 0
    failures: int = 0
    seconds: float = 0.0

    def as_dict(self) -> dict[str, int | float]:
        """The summary as JSON takes it."""
        return asdict(self)


class Progress(Protocol):
    """Told of a run's events as they happen, on one thread at a time. It never raises and never blocks for long."""

    def started(self, name: str, total_known: int | None) -> None:
        """The pipeline `name` begins to read; `total_known` records wait in its topics, None if nobody asked."""
        ...

    def reading(self) -> None:
        """A query has pinned its schemas and reads; again after every restart."""
        ...

    def batch_done(
        self, batch_id: int, rows: int, tables: int, seconds: float, total_known: int | None
    ) -> None:
        """A batch of `rows` records is committed to `tables` tables."""
        ...

    def evolution(self, changes: Sequence[str], met_at: float, decoding_at: float) -> None:
        """A schema evolved.

        The attempt that met the new schema began at `met_at`, the one that decodes it at `decoding_at`
        (both seconds since the epoch; equal when the change was taken in without a restart).
        """
        ...

    def waiting(self, reason: str, seconds: float) -> None:
        """Nothing goes on for up to `seconds`, such as while the registry does not answer."""
        ...

    def failure(self, error: str, wait: float) -> None:
        """An attempt failed; the next one begins after `wait` seconds."""
        ...

    def finished(self, summary: Summary) -> None:
        """The run is over; nothing is told after this."""
        ...


class Silent:
    """Progress that nobody watches."""

    def started(self, name: str, total_known: int | None) -> None:
        """Says nothing."""

    def reading(self) -> None:
        """Says nothing."""

    def batch_done(
        self, batch_id: int, rows: int, tables: int, seconds: float, total_known: int | None
    ) -> None:
        """Says nothing."""

    def evolution(self, changes: Sequence[str], met_at: float, decoding_at: float) -> None:
        """Says nothing."""

    def waiting(self, reason: str, seconds: float) -> None:
        """Says nothing."""

    def failure(self, error: str, wait: float) -> None:
        """Says nothing."""

    def finished(self, summary: Summary) -> None:
        """Says nothing."""


class Advance(Protocol):
    """Moves a bar: told how many more of the total are done."""

    def __call__(self, done: int, /) -> None:
        """`done` more of the total are done."""
        ...


class Bars(Protocol):
    """Makes the bars of long jobs that are not a pipeline's run: simulating, verifying, downloading."""

    def __call__(self, total: int | None, title: str) -> Advance:
        """A bar called `title` of `total` steps (None: not known); it ends when the next one begins."""
        ...


def no_bars(total: int | None, title: str) -> Advance:
    """Bars that nobody sees."""

    def advance(done: int, /) -> None:
        """Shows nothing."""

    return advance
