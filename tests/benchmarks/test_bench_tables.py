"""What the benchmark of tables makes of its measurements."""

from __future__ import annotations

import pytest
from benchmarks.bench_tables import BOUNDS, ratios_of
from benchmarks.tables.partitions import Partitioned
from benchmarks.tables.two_ways import TwoWays
from benchmarks.tables.upkeep import Kept, Upkeep


def test_the_worse_of_two_spreads_counts_and_medians_do() -> None:
    upserts = [
        TwoWays(1, "uniform", 6.0, 20.0),
        TwoWays(1, "zipf", 6.0, 10.0),
        TwoWays(10, "uniform", 8.0, 40.0),
    ]
    partitioned = Partitioned(10, 30, (2.0, 9.0, 3.0), (4.0, 4.5, 1.0))
    upkeep = Upkeep(
        1_000, 10, Kept(300.0, 40, 9, 0.03, 0.2), Kept(270.0, 1_000, 9, 0.08, 0.8), Kept(5.0, 1, 1, 0.01, 0.1)
    )
    found = ratios_of(
        upserts, [TwoWays(1, "uniform", 1.0, 4.0), TwoWays(1, "zipf", 1.0, 2.0)], partitioned, upkeep
    )
    assert found == {
        "upsert_by_hand": pytest.approx(0.6),
        "upsert_tables": pytest.approx(0.2),
        "history_by_hand": pytest.approx(0.5),
        "partitioned": pytest.approx(4 / 3),
        "upkeep": pytest.approx(0.9),
        "upkeep_files": 40.0,
        "upkeep_open": pytest.approx(2.0),
        "upkeep_open_delta_rs": pytest.approx(3.0),
    }
    assert list(found) == [bound.figure for bound in BOUNDS]


def test_what_was_not_measured_is_null() -> None:
    assert set(ratios_of([], [], None, None).values()) == {None}
