"""Clocks that a run goes by, held against each other."""

from __future__ import annotations

import time
from collections.abc import Callable

# What keeps a clock right moves it by less at a time.
_SET_BACK_SECONDS = 1.0


class WallClock:
    """The machine's clock, held against one that only goes on."""

    def __init__(
        self, now: Callable[[], float] = time.time, steady: Callable[[], float] = time.monotonic
    ) -> None:
        self._now, self._steady = now, steady
        self._ahead = now() - steady()

    def was_set_back(self) -> bool:
        """Whether it was set back since it was asked last, by more than what it is slowed down by as it is kept right."""
        before, self._ahead = self._ahead, self._now() - self._steady()
        return before - self._ahead > _SET_BACK_SECONDS
