"""How often something may happen to a run within a window."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from distributary.ingest.settings.groups import Budget, Failures

# However few failures a run may have: an outage that is over when it is noticed is met once by each query under way.
_FEWEST_OUTAGES = 5


def of_outages(failures: Failures) -> Failures:
    """The budget of outages that are over when they are noticed, by that of failures."""
    return failures.model_copy(update={"max": max(failures.max, _FEWEST_OUTAGES)})


# More would be too large for a float; no wait is that long.
_MOST_DOUBLINGS = 100


class Spending:
    """One budget being spent. Failures and evolutions have one each, so that neither eats the other's."""

    def __init__(self, budget: Budget, clock: Callable[[], float] = time.monotonic) -> None:
        self._budget, self._clock = budget, clock
        self._times: deque[float] = deque()
        self._since: float | None = None

    def spend(self, since: float | None = None) -> float | None:
        """Count one more: the seconds to wait before going on, or None when the budget is spent.

        `since` is when something was begun that is not done, as a batch: what happened from then on counts however long ago that is, as
        attempts that take long would never spend anything.
        """
        now, self._since = self._clock(), since
        counts = max(self._budget.window_seconds, 0.0 if since is None else now - since)
        while self._times and now - self._times[0] > counts:
            self._times.popleft()
        self._times.append(now)
        if len(self._times) > self._budget.max:
            return None
        doubled = self._budget.first_wait_seconds * 2.0 ** min(len(self._times) - 1, _MOST_DOUBLINGS)
        return min(doubled, self._budget.longest_wait_seconds)

    def __str__(self) -> str:
        window = self._budget.window_seconds
        is_long = self._since is not None and self._times[-1] - self._times[0] > window
        within = "and no batch done in between" if is_long else f"within {window:g} s"
        return f"{len(self._times)} {within}, {self._budget.max} allowed"
