from __future__ import annotations

from distributary.ingest.supervision.clocks import WallClock


def test_a_clock_that_is_set_back_is_told_once_and_one_that_is_late_or_ahead_is_not() -> None:
    wall, steady = [1000.0], [5.0]
    clock = WallClock(lambda: wall[0], lambda: steady[0])
    told = []
    for by in (0.0, 0.5, 0.1, 3600.0, -3600.0, 0.5, -0.4):
        wall[0] += by
        steady[0] += 0.5
        told.append(clock.was_set_back())
    assert told == [False, False, False, False, True, False, False]
