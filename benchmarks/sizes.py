"""How much is measured: the full size that the figures are quoted for, and the smoke size that only shows it runs."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, kw_only=True, slots=True)
class Sizes:
    """Everything that decides how long the benchmark takes.

    runs                how often each way is measured whose ratio is close; the others are measured once
    many_games, most_games    games of the two topics that show what more tables cost
    restart_batch_rows  rows of a batch in the run whose schema evolves; `steady_batches` of them come first
    restarts            how many schema versions that run meets, one after the other
    table_events        rows of each batch that shows what creating and evolving tables costs
    age_commits         commits of a table that grows old
    started_tables      tables of `commits` commits each that a start finds
    single_records      records that come alone, one after the other
    kills               how often a run in a store is killed
    commits             commits that each of `commit_tables` tables gets
    """

    events: int = 2_000_000
    games: int = 10
    partitions: int = 4
    batch_rows: int = 500_000
    runs: int = 5
    warm_up_events: int = 500_000
    many_games: int = 100
    most_games: int = 1_000
    restart_batch_rows: int = 100_000
    steady_batches: int = 5
    restarts: int = 3
    new_tables: int = 1_000
    evolved_tables: int = 100
    table_events: int = 100_000
    commits: int = 200
    commit_tables: int = 8
    age_commits: int = 20_000
    started_tables: int = 1_000
    single_records: int = 20
    kills: int = 3
    seed: int = 7

    @property
    def full(self) -> bool:
        """Whether the figures are those that the bounds are about."""
        comparable = replace(self, events=FULL.events, batch_rows=FULL.batch_rows, seed=FULL.seed)
        return comparable == FULL and self.events >= FULL.events


FULL = Sizes()

SMOKE = Sizes(
    events=20_000,
    games=3,
    batch_rows=10_000,
    runs=1,
    warm_up_events=2_000,
    many_games=10,
    most_games=30,
    restart_batch_rows=2_000,
    steady_batches=2,
    restarts=1,
    new_tables=30,
    evolved_tables=10,
    table_events=2_000,
    commits=12,
    commit_tables=2,
    age_commits=120,
    started_tables=3,
    single_records=2,
    kills=1,
)
