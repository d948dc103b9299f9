"""Derived tables that a run makes current by itself, between its batches and at its end."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from deltalake.exceptions import DeltaError
from pyspark.sql import SparkSession

from distributary.errors import DistributaryError, PipelineError
from distributary.ingest.derivation.given import Derived
from distributary.ingest.derived.refresh import Refreshed, derive
from distributary.ingest.settings.model import Settings
from distributary.ingest.spark.session import that_decide, with_settings
from distributary.values import without_logins

_EVERY_SECONDS = 60.0

Tell: TypeAlias = Callable[[Sequence[Refreshed]], None]
"""Told what became of derived tables."""


def tell_nobody(done: Sequence[Refreshed]) -> None:
    """Nobody is told."""


@dataclass(slots=True)
class _Turn:
    """When a rule's tables were made current last, and how many batches ago."""

    at: float
    batches: int = 0


class DerivedInRuns:
    """Makes derived tables current where it is their turn, and tells what failed. Nothing of it raises before the run's end: a run goes on without."""

    def __init__(
        self,
        settings: Settings,
        spark: SparkSession,
        stopped: Callable[[], bool] = lambda: False,
        clock: Callable[[], float] = time.monotonic,
        tell: Tell = tell_nobody,
    ) -> None:
        """For a pipeline's settings; `stopped` is whether the run is to end, `clock` what it waits by, and `tell` is told what became of each."""
        self._settings, self._spark, self._stopped, self._clock = settings, spark, stopped, clock
        self._tell = tell
        self._turns = {rule.table: _Turn(clock()) for rule in settings.derive}
        self._failed: dict[str, str] = {}

    def after_batch(self) -> list[str]:
        """Make those current whose turn it is; what failed, in words."""
        due = list[Derived]()
        for rule in self._settings.derive:
            turn = self._turns[rule.table]
            turn.batches += 1
            if self._is_due(rule, turn):
                due.append(rule)
        return self._made_current(due)

    def finish(self) -> list[str]:
        """Make all of them current; what failed, in words."""
        return self._made_current(self._settings.derive)

    def check(self) -> None:
        """Raises PipelineError where one was not made current when it was last tried."""
        if self._failed:
            raise PipelineError(
                f"all is ingested, and {len(self._failed)} derived tables are not current: "
                + "; ".join(f"{table}: {why}" for table, why in sorted(self._failed.items()))
                + ". Once that is mended, `distributary derive` makes them so"
            )

    def _is_due(self, rule: Derived, turn: _Turn) -> bool:
        if rule.every_batches is not None:
            return turn.batches >= rule.every_batches
        seconds = _EVERY_SECONDS if rule.every_seconds is None else rule.every_seconds
        return self._clock() - turn.at >= seconds

    def _made_current(self, rules: Sequence[Derived]) -> list[str]:
        if not rules:
            return []
        # Where it has to be a copy it is the same one for all of a run.
        self._spark = with_settings(self._spark, that_decide(self._settings.spark.conf))
        try:
            done = derive(
                self._settings, self._spark, stopped=self._stopped, rules={rule.table for rule in rules}
            )
        except (DistributaryError, DeltaError, OSError) as error:
            why = without_logins(" ".join(str(error).split()))
            done = [Refreshed(rule.table, "failed", why=why) for rule in rules]
        self._tell(done)
        for rule in rules:
            # Where none could be tried, the rule itself stands for its tables.
            self._failed.pop(rule.table, None)
            self._turns[rule.table] = _Turn(self._clock())
        said = list[str]()
        for one in done:
            self._failed.pop(one.table, None)
            if one.how in ("made", "added", "current") and one.why:
                said.append(f"derived table {one.table}: {one.why}")
            if one.how == "failed":
                self._failed[one.table] = one.why
                said.append(f"derived table {one.table} is not made current: {one.why}")
        return said
