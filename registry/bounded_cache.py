"""A small cache that many threads may use: bounded in entries, and in time where answers go stale."""

from __future__ import annotations

from collections.abc import Callable, Hashable, MutableMapping
from threading import Lock
from time import monotonic
from typing import Generic, TypeVar

from cachetools import LRUCache, TTLCache

K = TypeVar("K", bound=Hashable)

V = TypeVar("V")


class BoundedCache(Generic[K, V]):
    """At most `entries` values, the least used thrown out first; with `seconds`, none older than that."""

    def __init__(
        self, entries: int, seconds: float | None = None, clock: Callable[[], float] = monotonic
    ) -> None:
        self._lock = Lock()
        self._values: MutableMapping[K, V] = (
            LRUCache(entries) if seconds is None else TTLCache(entries, seconds, timer=clock)
        )

    def get(self, key: K) -> V | None:
        """The value, or None where there is none (any more)."""
        with self._lock:
            return self._values.get(key)

    def put(self, key: K, value: V) -> None:
        """Keep a value, throwing out another one where there is no room."""
        with self._lock:
            self._values[key] = value

    def drop(self, key: K) -> None:
        """Forget a value; nothing happens where there is none."""
        with self._lock:
            self._values.pop(key, None)

    def __len__(self) -> int:
        with self._lock:
            return len(self._values)
