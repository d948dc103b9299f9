"""How much `bench_tables.py` measures."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class TableSizes:
    """Everything that decides how long it takes.

    keys            how many keys a topic has, each of which its tables have before a change is measured
    changes         records of a batch of changes, of which there are `change_batches`
    games           in how many tables the keys are where that is asked
    days            over how many days a batch is spread, a partition each
    runs            how often each of two ways is measured that take turns
    upkeep_batches  batches of `upkeep_rows` records each, with upkeep and without it
    """

    keys: int = 1_000_000
    changes: int = 100_000
    change_batches: int = 10
    games: int = 10
    days: int = 30
    runs: int = 3
    upkeep_batches: int = 1_000
    upkeep_rows: int = 1_000


FULL_TABLES = TableSizes()

SMOKE_TABLES = TableSizes(
    keys=2_000, changes=500, change_batches=2, games=3, days=3, runs=1, upkeep_batches=4, upkeep_rows=200
)
