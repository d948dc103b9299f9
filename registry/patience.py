"""How long a registry is asked again before its "no", or its silence, is believed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from time import monotonic
from typing import Generic, TypeVar

from tenacity import RetryCallState, Retrying, retry_if_result, wait_exponential_jitter

from distributary.errors import (
    BadSchema,
    CredentialsRefused,
    RegistryBusy,
    RegistryFault,
    RegistryUnavailable,
    SchemaNotFound,
)

K = TypeVar("K", bound=Hashable)

V = TypeVar("V")

THREADS = 8

# What takes longer to fail was waited for in vain: whoever asks for others has waited long enough for now.
_SLOW_SECONDS = 0.25

_BACK_OFF = wait_exponential_jitter(multiplier=0.05, max=2.0, jitter=0.05)


@dataclass(frozen=True, slots=True)
class Others:
    """What tells whether trouble is one question's own.

    answered  whether the registry answers another question now
    seen      whether it lets these credentials see anything
    """

    answered: Callable[[], bool]
    seen: Callable[[], bool] = lambda: False


NO_OTHERS = Others(lambda: False)
"""For questions whose trouble is always the registry's."""


@dataclass(frozen=True, slots=True)
class Patience:
    """Bounds in seconds: for a registry that does not answer, for one that says it does not know, and for one that fails at one question.

    Just after its start a registry may deny what it knows, so a "no" has to last `unknown_seconds`.
    """

    retry_seconds: float
    unknown_seconds: float
    fault_seconds: float = 0.0

    def ask(
        self,
        keys: Iterable[K],
        question: Callable[[K], V],
        others: Others = NO_OTHERS,
        brief: Collection[K] = (),
        keep: Callable[[K, V | SchemaNotFound | BadSchema | RegistryFault], None] = lambda _key, _answer: (
            None
        ),
    ) -> dict[K, V | SchemaNotFound | BadSchema | RegistryFault]:
        """What the question gives for each key, all keys within one wait; raises RegistryUnavailable.

        A key's SchemaNotFound or BadSchema is its answer, and so is a RegistryFault that lasts for `fault_seconds` while the registry
        answers `others`; for keys in `brief` it is at once. CredentialsRefused is such a fault while they are let see others. Any other
        error of the question is raised. `keep` gets each answer as it comes, whatever becomes of the rest.
        """
        asking = _Asking(self, _Questions(question, others, brief, keep), dict.fromkeys(keys))
        Retrying(retry=retry_if_result(bool), wait=asking.pause)(asking.round)
        return asking.answers


@dataclass(frozen=True, slots=True)
class _Questions(Generic[K, V]):
    """What is asked of each key, whether others are answered, the keys that are not waited for, and who keeps the answers."""

    of: Callable[[K], V]
    others: Others
    brief: Collection[K]
    keep: Callable[[K, V | SchemaNotFound | BadSchema | RegistryFault], None]


@dataclass(slots=True)
class _When:
    """When it was first asked, and when a key was last answered."""

    started: float
    answered: float = float("-inf")


@dataclass(slots=True)
class _Asking(Generic[K, V]):
    patience: Patience
    question: _Questions[K, V]
    pending: dict[K, None]
    answers: dict[K, V | SchemaNotFound | BadSchema | RegistryFault] = field(default_factory=dict)
    when: _When = field(default_factory=lambda: _When(monotonic()))
    first_no: dict[K, float] = field(default_factory=dict)
    first_fault: dict[K, float] = field(default_factory=dict)
    ended_by: RegistryUnavailable | None = None

    @property
    def silence(self) -> RegistryUnavailable | None:
        """What tells that nobody answered in this round; a fault is one key's affair."""
        return None if isinstance(self.ended_by, RegistryFault) else self.ended_by

    def round(self) -> int:
        """Ask every pending key once, or those that come before one that no answer comes for; how many are to be asked again."""
        self.ended_by = None
        for key, outcome in zip(tuple(self.pending), self._outcomes(), strict=True):
            if outcome is not None and self._settled(key, outcome):
                del self.pending[key]
        # Those that failed come last, so that one which hangs keeps none from its answer.
        self.pending = dict.fromkeys(sorted(self.pending, key=self.first_fault.__contains__))
        return len(self.pending)

    def pause(self, state: RetryCallState) -> float:
        """Seconds until the next round: the back-off, but never past a bound."""
        return min(_BACK_OFF(state), max(0.0, min(self._end(key) for key in self.pending) - monotonic()))

    def _end(self, key: K) -> float:
        silence = self.when.started + self.patience.retry_seconds
        if self.silence is None and key in self.first_fault:
            fault = self.first_fault[key] + self.patience.fault_seconds
            # Behind the first bound the registry is asked another question, and then it is that one's affair.
            return min(fault, silence) if monotonic() < silence else fault
        if self.silence is None and key in self.first_no:
            return self.first_no[key] + self.patience.unknown_seconds
        return silence

    def _outcomes(self) -> list[V | SchemaNotFound | BadSchema | RegistryUnavailable | None]:
        if len(self.pending) == 1:
            return [self._once(next(iter(self.pending)))]
        with ThreadPoolExecutor(min(THREADS, len(self.pending) or 1), "registry") as pool:
            return list(pool.map(self._once, tuple(self.pending)))

    def _once(self, key: K) -> V | SchemaNotFound | BadSchema | RegistryUnavailable | None:
        # One silence is enough for a round: the other keys would only wait for the same time-out.
        if self.ended_by is not None:
            return self.silence
        began = monotonic()
        try:
            return self.question.of(key)
        except (SchemaNotFound, BadSchema) as answer:
            return answer
        except RegistryFault as fault:
            # Who has too much to do is left alone for now, and who is slow was waited for.
            busy = isinstance(fault, RegistryBusy)
            if (busy or monotonic() - began > _SLOW_SECONDS) and self.ended_by is None:
                self.ended_by = fault
            return fault
        except CredentialsRefused as refused:
            if not self.question.others.seen():
                raise
            return RegistryFault(str(refused))
        except RegistryUnavailable as error:
            self.ended_by = error
            return error

    def _settled(self, key: K, outcome: V | SchemaNotFound | BadSchema | RegistryUnavailable) -> bool:
        now = monotonic()
        if isinstance(outcome, RegistryFault):
            return self._failed(key, outcome, now)
        self.first_fault.pop(key, None)
        if isinstance(outcome, RegistryUnavailable):
            if now >= self.when.started + self.patience.retry_seconds:
                raise outcome
            return False
        if isinstance(outcome, SchemaNotFound):
            since = self.first_no.setdefault(key, now)
            if now < since + self.patience.unknown_seconds:
                return False
        self.when.answered = now
        return self._answer(key, outcome)

    def _answer(self, key: K, answer: V | SchemaNotFound | BadSchema | RegistryFault) -> bool:
        self.answers[key] = answer
        self.question.keep(key, answer)
        return True

    def _failed(self, key: K, fault: RegistryFault, now: float) -> bool:
        """Whether the registry has failed at this key for long enough, and at no other question. Raises RegistryUnavailable."""
        since = self.first_fault.setdefault(key, now)
        if isinstance(fault, RegistryBusy):
            # Who answers the others one by one comes to this one, too.
            since = self.first_fault[key] = max(since, self.when.answered)
        lasted = key in self.question.brief or now >= since + self.patience.fault_seconds
        if not lasted and now < self.when.started + self.patience.retry_seconds:
            return False
        # One that fails at everything is as good as away.
        if not self.question.others.answered():
            raise fault
        return lasted and self._answer(key, fault)
