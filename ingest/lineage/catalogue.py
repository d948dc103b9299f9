"""Who hears of runs: events made of a pipeline's graph as it is then, on their way on a thread of their own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from distributary.errors import DistributaryError
from distributary.ingest.batch.decide import code_version
from distributary.ingest.derived.refresh import Refreshed
from distributary.ingest.lineage.flow import Flow
from distributary.ingest.lineage.seen import structure
from distributary.ingest.lineage.sending import Sending, transport_of
from distributary.ingest.settings.lineage.given import Lineage
from distributary.ingest.settings.model import Settings
from distributary.ingest.spark.error_classes import named
from distributary.ingest.supervision.sentences import sentence

if TYPE_CHECKING:
    from openlineage.client.event_v2 import RunEvent, RunState

    from distributary.ingest.lineage.events import Telling

State: TypeAlias = Literal["START", "RUNNING", "COMPLETE", "FAIL"]


@dataclass(frozen=True, slots=True)
class Catalogue:
    """One run of a job, as it is told; nothing of it raises, or waits for anybody.

    topics  which topics are read now
    """

    given: Lineage
    settings: Settings
    topics: Callable[[], Sequence[str]]
    telling: Telling
    sending: Sending

    @classmethod
    def opened(
        cls, given: Lineage, settings: Settings, topics: Callable[[], Sequence[str]], command: str = ""
    ) -> Catalogue:
        """For a run that begins now, or for that of a command. Raises ConfigError where the package that tells of it is not there."""
        folder = None if given.file is None else Path(given.file).parent
        sending = Sending(transport_of(given), folder)
        from distributary.ingest.lineage.events import Telling  # noqa: PLC0415 its package is an extra

        # A trial is another job than the real one.
        name = f"{settings.name}{settings.debug_suffix or ''}"
        telling = Telling.begun(f"urn:distributary:{code_version()}", given.namespace, name, command)
        return cls(given, settings, topics, telling, sending)

    def of_run(self, state: State, why: str = "") -> None:
        """The run began, goes on or ended."""
        at, told = time.time(), _as_told(state)

        def made() -> Iterable[RunEvent]:
            # What a run that failed wrote it told before; why it failed may keep its tables from being looked at.
            flow = None if why else self._flow()
            yield self.telling.of_run(told, at, flow, why)

        self.sending.send(made)

    def of_command(
        self, state: State, read: Sequence[str], rows: Mapping[str, int] | None = None, why: str = ""
    ) -> None:
        """A command began or ended, which reads what is of these kinds, and has put so many rows into tables, by their folders."""
        at, told = time.time(), _as_told(state)

        def made() -> Iterable[RunEvent]:
            flow = None if why else self._flow()
            yield self.telling.of_command(told, at, flow, read, rows or {}, why)

        self.sending.send(made)

    def derived(self, done: Sequence[Refreshed], /) -> None:
        """Some derived tables were made current, or were tried to be."""
        at, changed = time.time(), [one for one in done if one.how in ("made", "added", "failed")]

        def made() -> Iterable[RunEvent]:
            flow = self._flow()
            there = {node.id for node in flow.nodes}
            for one in changed:
                if f"table:{one.table}" in there:
                    yield from self.telling.of_derived(one, flow, at)

        if changed:
            self.sending.send(made)

    def _flow(self) -> Flow:
        return structure(self.settings.of_topics(self.topics()))


def why_of(error: BaseException, kafka: Mapping[str, str]) -> str:
    """Why a run ended, in a sentence of ours; of what nobody has foreseen the class, as its words may be a record's."""
    try:
        foreseen = isinstance(error, DistributaryError | OSError) or bool(named(error))
        return (foreseen and sentence(error, kafka)) or type(error).__name__
    except Exception:  # noqa: BLE001 the one that is told of is the one that counts
        return type(error).__name__


def _as_told(state: State) -> RunState:
    from openlineage.client.event_v2 import RunState  # noqa: PLC0415 its package is an extra

    return RunState[state]
