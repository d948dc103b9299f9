from __future__ import annotations

from distributary.registry.bounded_cache import BoundedCache


def test_the_least_used_value_makes_room() -> None:
    cache: BoundedCache[str, int] = BoundedCache(2)
    cache.put("a", 1)
    cache.put("b", 2)
    assert cache.get("a") == 1
    cache.put("c", 3)
    assert (cache.get("a"), cache.get("b"), cache.get("c"), len(cache)) == (1, None, 3, 2)


def test_values_end_with_their_time() -> None:
    now = [0.0]
    cache: BoundedCache[str, int] = BoundedCache(2, 10.0, lambda: now[0])
    cache.put("a", 1)
    now[0] = 9.0
    assert cache.get("a") == 1
    now[0] = 10.0
    assert cache.get("a") is None


def test_with_no_time_at_all_nothing_is_kept() -> None:
    cache: BoundedCache[str, int] = BoundedCache(2, 0.0)
    cache.put("a", 1)
    assert cache.get("a") is None


def test_a_dropped_value_is_gone_and_dropping_nothing_is_fine() -> None:
    cache: BoundedCache[str, int] = BoundedCache(2)
    cache.put("a", 1)
    cache.drop("a")
    cache.drop("a")
    assert cache.get("a") is None
