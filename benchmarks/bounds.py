"""What the figures must reach, and which of them do not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bound:
    """A limit that a figure must not pass: from above, or with `at_least` from below. `aim` is what we hope for."""

    figure: str
    meaning: str
    limit: float
    at_least: bool = False
    aim: float | None = None

    def holds(self, value: float) -> bool:
        """Whether the figure is good enough."""
        return value >= self.limit if self.at_least else value <= self.limit

    def required(self) -> str:
        """The limit in words."""
        return f"at {'least' if self.at_least else 'most'} {self.limit:g}"


BOUNDS = (
    Bound("n_queries", "times the rows/s of a streaming query a game", 5, at_least=True, aim=8),
    Bound("filters", "times the rows/s of persist-and-filter", 3.5, at_least=True, aim=6),
    Bound("single", "times the rows/s of Spark's one table", 1.2, at_least=True, aim=1.6),
    Bound("noop", "of the rows/s of Kafka to nowhere", 0.6, at_least=True, aim=0.7),
    Bound("games_100", "times the seconds, with 100 games instead of 10", 1.25, aim=1.1),
    Bound("games_1000", "times the seconds, with 1,000 games instead of 10", 2.5, aim=1.5),
    Bound("restart_seconds", "seconds of the longest restart for a new schema", 5),
    Bound("worker_peak_mib", "MiB in all Python workers, a batch of everything", 1024),
    Bound("single_record_seconds", "seconds of a trigger that finds one record", 0.3),
    Bound("age", "times a young table's commit, for one after 20,000", 1.5),
    Bound("commit_growth", "times a table's first commit, for its 200th", 2),
    Bound("new_tables_seconds", "seconds more for 1,000 new tables than for known ones", 10),
    Bound("evolving_seconds", "seconds more for evolving 100 tables at once", 5),
    Bound("age_log", "times the newest checkpoint's bytes, in a log after 20,000 commits", 3),
    Bound("start_seconds", "seconds of a start to know 1,000 tables of 200 commits", 60),
    Bound("start_mib", "MiB that it takes", 1024),
)


def broken(figures: Mapping[str, float | None], bounds: Sequence[Bound]) -> list[str]:
    """A sentence for each bound that does not hold; a figure that was not measured breaks none."""
    return [
        f"{bound.figure} is {value:.3g}, but must be {bound.required()}"
        for bound in bounds
        if (value := figures.get(bound.figure)) is not None and not bound.holds(value)
    ]
