"""What the benchmark of pipelines makes of its measurements."""

from __future__ import annotations

from benchmarks.bench_pipelines import BOUNDS, ratios_of


def test_medians_are_held_against_those_of_the_plain_way_beside_them() -> None:
    others = {"plain": (4.0, 2.0, 9.0), "bronze": (5.0, 4.0, 5.0), "replay": (2.5, 2.0, 9.0)}
    gold = {"plain": (10.0,), "gold": (14.0,)}
    assert ratios_of({"others": others, "gold": gold}) == {
        "gold": 1.4,
        "bronze": 1.25,
        "expectations": None,
        # Of this the rows a second.
        "replay": 1.6,
    }
    assert list(ratios_of({})) == [bound.figure for bound in BOUNDS]
