from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from distributary.ingest.settings.groups import Budget
from distributary.ingest.supervision.budgets import Spending


def budget(most: int, window: float = 60.0, first: float = 1.0, longest: float = 8.0) -> Budget:
    return Budget(max=most, window_seconds=window, first_wait_seconds=first, longest_wait_seconds=longest)


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_waits_double_up_to_the_longest_and_then_the_budget_is_spent() -> None:
    spending = Spending(budget(6), Clock())
    assert [spending.spend() for _ in range(7)] == [1.0, 2.0, 4.0, 8.0, 8.0, 8.0, None]
    assert str(spending) == "7 within 60 s, 6 allowed"


def test_what_happened_longer_ago_than_the_window_is_forgotten() -> None:
    clock = Clock()
    spending = Spending(budget(2), clock)
    spending.spend()
    clock.now += 59
    assert spending.spend() == 2.0
    clock.now += 2
    assert spending.spend() == 2.0
    assert spending.spend() is None


def test_what_happened_since_a_moment_counts_however_long_ago_that_is() -> None:
    clock = Clock()
    spending = Spending(budget(2), clock)
    spending.spend()
    clock.now += 100
    since = clock.now
    assert spending.spend(since) == 1.0
    clock.now += 100
    assert spending.spend(since) == 2.0
    clock.now += 100
    assert spending.spend(since) is None
    assert str(spending) == "3 and no batch done in between, 2 allowed"
    # Once that is done, only the window counts.
    assert spending.spend() == 2.0
    assert str(spending) == "2 within 60 s, 2 allowed"


def test_a_budget_of_none_allows_nothing() -> None:
    assert Spending(budget(0), Clock()).spend() is None


def test_a_wait_of_nothing_stays_nothing_however_often() -> None:
    spending = Spending(budget(5000, first=0.0), Clock())
    assert {spending.spend() for _ in range(5000)} == {0.0}


@given(st.lists(st.floats(0, 50), max_size=40), st.integers(0, 5), st.floats(1, 60))
@settings(deadline=None)
def test_no_window_ever_holds_more_than_is_allowed(gaps: list[float], most: int, window: float) -> None:
    clock = Clock()
    spending = Spending(budget(most, window), clock)
    times: list[float] = []
    for gap in gaps:
        clock.now += gap
        times.append(clock.now)
        recent = [time for time in times if clock.now - time <= window]
        wait = spending.spend()
        assert (wait is None) == (len(recent) > most)
        assert wait is None or wait == min(2.0 ** (len(recent) - 1), 8.0)
