"""How often something happened lately, and how long to wait before the next try."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from distributary.ingest.setting_groups import Budget

# More would be too large for a float; no wait is that long.
_MOST_DOUBLINGS = 100


class Spending:
    """One budget being spent. Failures and evolutions have one each, so that neither eats the other's."""

    def __init__(self, budget: Budget, clock: Callable[[], float] = time.monotonic) -> None:
        self._budget, self._clock = budget, clock
        self._times: deque[float] = deque()

    def spend(self) -> float | None:
        """Count one more: the seconds to wait before going on, or None when the budget is spent."""
        now = self._clock()
        while self._times and now - self._times[0] > self._budget.window_seconds:
            self._times.popleft()
        self._times.append(now)
        if len(self._times) > self._budget.max:
            return None
        doubled = self._budget.first_wait_seconds * 2.0 ** min(len(self._times) - 1, _MOST_DOUBLINGS)
        return min(doubled, self._budget.longest_wait_seconds)

    def __str__(self) -> str:
        return f"{len(self._times)} within {self._budget.window_seconds:g} s, {self._budget.max} allowed"
