from __future__ import annotations

from collections import Counter

from distributary.ingest.worker.task import tally


def test_names_are_counted() -> None:
    counts: Counter[str] = Counter()
    tally(counts, ["a", "b"], [2, 1])
    tally(counts, ["b", "c"], [3, 1])
    assert counts == Counter({"b": 4, "a": 2, "c": 1})


def test_what_comes_often_is_kept_however_late_it_comes() -> None:
    counts: Counter[int] = Counter()
    for start in range(0, 200_000, 20_000):
        tally(counts, range(start, start + 20_000), [1] * 20_000)
    tally(counts, [-1], [50])
    tally(counts, range(200_000, 240_000), [1] * 40_000)
    assert len(counts) <= 20_000
    assert counts.most_common(1) == [(-1, 50)]
