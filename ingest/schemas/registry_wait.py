"""Waiting for a registry that does not answer: an outage stops the stream for as long as it lasts, and costs no record."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from distributary.errors import RegistryUnavailable
from distributary.ingest.interruptible import QUIET_SECONDS, WAITS, answer_to, until_answered, when_quiet
from distributary.ingest.progress import Progress

T = TypeVar("T")

FIRST_SECONDS, LONGEST_SECONDS = WAITS


class RegistryWait:
    """Asks again, ever more rarely, until the registry answers or the run is told to stop."""

    def __init__(self, progress: Progress, stop: threading.Event) -> None:
        self._progress, self._stop = progress, stop

    def until_answered(self, ask: Callable[[], T]) -> T:
        """The answer, whenever it comes. Raises Stopped if the run is to end first."""
        return until_answered(
            lambda: self._answer(ask),
            RegistryUnavailable,
            self._progress.waiting,
            self._stop,
            (FIRST_SECONDS, LONGEST_SECONDS),
        )

    def once(self, ask: Callable[[], T], otherwise: T) -> T:
        """The answer, or `otherwise` where the registry does not give one now. Raises Stopped like `until_answered`."""
        try:
            return self._answer(ask)
        except RegistryUnavailable as error:
            self._progress.waiting(f"{error}; going on with the schemas that are pinned", 0.0)
            return otherwise

    def _answer(self, ask: Callable[[], T]) -> T:
        """What it answers; says so when it takes long, and leaves the question alone when the run is told to stop."""
        quiet = f"no answer from the schema registry for {QUIET_SECONDS:.0f} s; it is asked again"
        tell = when_quiet(lambda: self._progress.waiting(quiet, 0.0), QUIET_SECONDS)
        return answer_to(ask, self._stop, meanwhile=tell)
