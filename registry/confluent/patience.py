"""How long a registry is asked again before its "no", or its silence, is believed."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from time import monotonic
from typing import Generic, TypeVar

from tenacity import RetryCallState, Retrying, retry_if_result, wait_exponential_jitter

from distributary.errors import BadSchema, RegistryUnavailable, SchemaNotFound

K = TypeVar("K", bound=Hashable)

V = TypeVar("V")

THREADS = 8

_BACK_OFF = wait_exponential_jitter(multiplier=0.05, max=2.0, jitter=0.05)


@dataclass(frozen=True, slots=True)
class Patience:
    """Two bounds in seconds: for a registry that does not answer, and for one that says it does not know.

    Just after its start a registry may deny what it knows, so a "no" has to last `unknown_seconds`.
    """

    retry_seconds: float
    unknown_seconds: float

    def ask(self, keys: Iterable[K], question: Callable[[K], V]) -> dict[K, V | SchemaNotFound | BadSchema]:
        """What the question gives for each key, all keys within one wait; raises RegistryUnavailable.

        A key's SchemaNotFound or BadSchema is its answer; any other error of the question is raised.
        """
        asking = _Asking(self, question, dict.fromkeys(keys))
        Retrying(retry=retry_if_result(bool), wait=asking.pause)(asking.round)
        return asking.answers


@dataclass(slots=True)
class _Asking(Generic[K, V]):
    patience: Patience
    question: Callable[[K], V]
    pending: dict[K, None]
    answers: dict[K, V | SchemaNotFound | BadSchema] = field(default_factory=dict)
    started: float = field(default_factory=monotonic)
    first_no: dict[K, float] = field(default_factory=dict)
    silence: RegistryUnavailable | None = None

    def round(self) -> int:
        """Ask every pending key once; how many are to be asked again."""
        self.silence = None
        for key, outcome in zip(tuple(self.pending), self._outcomes(), strict=True):
            if self._settled(key, outcome):
                del self.pending[key]
        return len(self.pending)

    def pause(self, state: RetryCallState) -> float:
        """Seconds until the next round: the back-off, but never past a bound."""
        return min(_BACK_OFF(state), max(0.0, min(self._end(key) for key in self.pending) - monotonic()))

    def _end(self, key: K) -> float:
        if self.silence is None and key in self.first_no:
            return self.first_no[key] + self.patience.unknown_seconds
        return self.started + self.patience.retry_seconds

    def _outcomes(self) -> list[V | SchemaNotFound | BadSchema | RegistryUnavailable]:
        if len(self.pending) == 1:
            return [self._once(next(iter(self.pending)))]
        with ThreadPoolExecutor(min(THREADS, len(self.pending) or 1), "registry") as pool:
            return list(pool.map(self._once, tuple(self.pending)))

    def _once(self, key: K) -> V | SchemaNotFound | BadSchema | RegistryUnavailable:
        # One silence is enough for a round: the other keys would only wait for the same time-out.
        if self.silence is not None:
            return self.silence
        try:
            return self.question(key)
        except (SchemaNotFound, BadSchema) as answer:
            return answer
        except RegistryUnavailable as error:
            self.silence = error
            return error

    def _settled(self, key: K, outcome: V | SchemaNotFound | BadSchema | RegistryUnavailable) -> bool:
        now = monotonic()
        if isinstance(outcome, RegistryUnavailable):
            if now >= self.started + self.patience.retry_seconds:
                raise outcome
            return False
        if isinstance(outcome, SchemaNotFound):
            since = self.first_no.setdefault(key, now)
            if now < since + self.patience.unknown_seconds:
                return False
        self.answers[key] = outcome
        return True
