"""What was measured, the ratios that follow from it, and the JSON that keeps both."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from benchmarks.age import Age
from benchmarks.commit_cost import CommitCost
from benchmarks.memory import Memory
from benchmarks.restarts import Restarts
from benchmarks.single_records import SingleRecords
from benchmarks.table_costs import BatchCost

RATIOS = (
    "n_queries",
    "filters",
    "single",
    "noop",
    "games_100",
    "games_1000",
    "restart_seconds",
    "worker_peak_mib",
    "single_record_seconds",
    "age",
)


@dataclass(frozen=True, slots=True)
class Timing:
    """The runs of one way: its name and title, how many games and events, and each run's seconds."""

    name: str
    title: str
    games: int
    events: int
    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        """The seconds of the middle run."""
        return statistics.median(self.seconds)

    @property
    def rows_per_second(self) -> float:
        """Events by the seconds of the middle run."""
        return self.events / self.median


@dataclass
class Results:
    """Everything that was measured; what was not asked for is missing or None."""

    timings: dict[str, Timing] = field(default_factory=dict)
    restarts: Restarts | None = None
    memory: Memory | None = None
    single_records: SingleRecords | None = None
    commits: CommitCost | None = None
    new_tables: BatchCost | None = None
    evolving: BatchCost | None = None
    age: Age | None = None

    def ratios(self) -> dict[str, float | None]:
        """Ours by theirs in rows/s; many games by few in seconds; `age` old commits by young ones; the others are plain figures."""
        figures: dict[str, float | None] = {name: self._faster_than(name) for name in RATIOS[:4]}
        figures |= {name: self._slower_with(name) for name in RATIOS[4:6]}
        figures["restart_seconds"] = self.restarts.worst_seconds if self.restarts else None
        figures["worker_peak_mib"] = self.memory.peak_mib if self.memory else None
        alone = self.single_records
        figures["single_record_seconds"] = alone.median_seconds if alone else None
        figures["age"] = self.age.slower if self.age else None
        return figures

    def table_figures(self) -> dict[str, float | None]:
        """What tables cost, one figure a bound."""
        return {
            "commit_growth": self.commits.growth if self.commits else None,
            "new_tables_seconds": self.new_tables.extra_seconds if self.new_tables else None,
            "evolving_seconds": self.evolving.extra_seconds if self.evolving else None,
            "age_log": self.age.log_by_checkpoint if self.age else None,
            "start_seconds": self.age.start_seconds if self.age else None,
            "start_mib": self.age.start_mib if self.age else None,
        }

    def figures(self) -> dict[str, float | None]:
        """Everything that there is a bound for."""
        return {**self.ratios(), **self.table_figures()}

    def as_json(self) -> dict[str, Any]:
        """The measurements and the ratios, as JSON takes them."""
        details = {
            "restart": self.restarts,
            "memory": self.memory,
            "single_records": self.single_records,
        }
        tables = {
            "commits": self.commits,
            "new_tables": self.new_tables,
            "evolving": self.evolving,
            "age": self.age,
        }
        return {
            "ways": {name: _way(timing) for name, timing in self.timings.items()},
            **{name: _plain(found) for name, found in details.items()},
            "tables": {
                **{name: _plain(found) for name, found in tables.items()},
                **_rounded(self.table_figures()),
            },
            "ratios": _rounded(self.ratios()),
        }

    def _faster_than(self, name: str) -> float | None:
        ours, theirs = self.timings.get("ours"), self.timings.get(name)
        return ours.rows_per_second / theirs.rows_per_second if ours and theirs else None

    def _slower_with(self, name: str) -> float | None:
        ours, more = self.timings.get("ours"), self.timings.get(name)
        return more.median / ours.median if ours and more else None


def _way(timing: Timing) -> dict[str, Any]:
    return {
        "title": timing.title,
        "games": timing.games,
        "events": timing.events,
        "seconds": _rounded(list(timing.seconds)),
        "median_seconds": _rounded(timing.median),
        "rows_per_second": round(timing.rows_per_second),
    }


def _plain(found: Restarts | Memory | SingleRecords | Age | CommitCost | BatchCost | None) -> Any:
    return None if found is None else _rounded(asdict(found))


def _rounded(value: Any) -> Any:
    """Three places behind the point: what lies behind them was never measured."""
    if isinstance(value, Mapping):
        return {name: _rounded(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(inner) for inner in value]
    return round(value, 3) if isinstance(value, float) else value
