"""What a registry over a network answered: schemas, which never change, while there is room, lists and each "no" for a time."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Generic, TypeVar

from distributary.errors import BadSchema, RegistryFault, SchemaNotFound
from distributary.registry.base import Answer, Schema, SubjectVersion
from distributary.registry.bounded_cache import BoundedCache
from distributary.registry.patience import Others, Patience
from distributary.registry.waits import Waits

# What a schema is asked for by, and what a list of versions is.
K = TypeVar("K", bound=Hashable)
L = TypeVar("L", bound=Hashable)

V = TypeVar("V")


class Answers(Generic[K, L]):
    """Asks with patience what is not kept, and keeps what comes; safe to use from many threads. Every call may raise RegistryUnavailable."""

    def __init__(self, waits: Waits, impossible: Callable[[K], str | None]) -> None:
        """`impossible` says why no registry can know a schema by this, which is then not asked for."""
        self._patience = Patience(
            waits.retry_seconds, waits.unknown_id_wait_seconds, waits.failing_id_wait_seconds
        )
        self._impossible, room = impossible, waits.cached_schemas
        self._schemas: BoundedCache[K, Schema | BadSchema] = BoundedCache(room)
        # What the registry failed at for long: it is waited for once.
        self._failed: BoundedCache[K, bool] = BoundedCache(room)
        self._unknown: BoundedCache[K, str] = BoundedCache(room, waits.unknown_id_cache_seconds)
        self._versions: BoundedCache[L, tuple[SubjectVersion, ...] | str] = BoundedCache(
            room, waits.latest_cache_seconds
        )

    def schemas(self, keys: Iterable[K], fetch: Callable[[K], Schema], others: Others) -> dict[K, Answer]:
        """What each of these came to, all within one bounded wait; for `others` see `Patience.ask`."""
        wanted = tuple(dict.fromkeys(keys))
        known = {key: answer for key in wanted if (answer := self._kept(key)) is not None}
        missing = [key for key in wanted if key not in known]
        failed = {key for key in missing if self._failed.get(key)}
        # Kept as they come: a registry that soon gives up again would be asked for the same ones for ever.
        asked = self._patience.ask(missing, fetch, others, failed, self._keep)
        return {key: known[key] if key in known else asked[key] for key in wanted}

    def versions(
        self, key: L, fetch: Callable[[L], tuple[SubjectVersion, ...]]
    ) -> tuple[SubjectVersion, ...]:
        """A list of versions. Raises SchemaNotFound or BadSchema."""
        kept = self._versions.get(key)
        if kept is None:
            answer = self._patience.ask((key,), fetch)[key]
            kept = str(answer) if isinstance(answer, SchemaNotFound) else or_raise(answer)
            self._versions.put(key, kept)
        if isinstance(kept, str):
            raise SchemaNotFound(kept)
        return kept

    def registered(self, subject: str, send: Callable[[str], V]) -> V:
        """What it answers to a schema that is sent for this subject. Raises BadSchema or SchemaNotFound."""
        return or_raise(self._patience.ask((subject,), send)[subject])

    def forget(self, keys: Iterable[K], lists: Iterable[L]) -> None:
        """Forget that these schemas are unknown, and these lists of versions: somebody has registered."""
        for key in keys:
            self._unknown.drop(key)
        for one in lists:
            self._versions.drop(one)

    def _kept(self, key: K) -> Answer | None:
        why_not = self._impossible(key) or self._unknown.get(key)
        return self._schemas.get(key) if why_not is None else SchemaNotFound(why_not)

    def _keep(self, key: K, answer: Answer) -> None:
        if isinstance(answer, RegistryFault):
            self._failed.put(key, True)
            return
        self._failed.drop(key)
        if isinstance(answer, SchemaNotFound):
            self._unknown.put(key, str(answer))
        else:
            # A fresh error: a kept one would keep the frames it came through.
            self._schemas.put(key, BadSchema(str(answer)) if isinstance(answer, BadSchema) else answer)


def or_raise(answer: V | SchemaNotFound | BadSchema | RegistryFault) -> V:
    """The answer, or the error that it is, raised afresh: kept ones would gather the tracebacks of everybody who met them."""
    if isinstance(answer, SchemaNotFound | BadSchema | RegistryFault):
        raise type(answer)(str(answer))
    return answer
