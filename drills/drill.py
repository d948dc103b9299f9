"""What a drill is, and what came of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from drills.world import World
from tests.ingest.e2e.pipeline_kit import PipelineKit

from distributary.errors import DistributaryError
from distributary.producer_sim.verify.comparison import verify
from distributary.producer_sim.verify.counting import misplaced


class CannotBeDrilled(Exception):
    """The machine does not let it be done; the message says why."""


@dataclass
class Account:
    """What came of a drill so far.

    rounds      how often it was done
    faults      how often the pipeline was harmed; in a round it may come through before the harm does
    records     sent in all rounds together
    lost        of them nowhere; `twice` in several places, or several times in one
    recovery    the seconds that each recovery took, from the moment that nothing stood in its way
    refused     the errors by which it was to be refused, and was
    vacuumed    the files that VACUUM deleted while a run went on
    differences what `verify` said, and what else was not as it should be
    """

    rounds: int = 0
    faults: int = 0
    records: int = 0
    lost: int = 0
    twice: int = 0
    recovery: list[float] = field(default_factory=list)
    refused: set[str] = field(default_factory=set)
    vacuumed: int = 0
    differences: list[str] = field(default_factory=list)
    _sent: dict[str, int] = field(default_factory=dict)

    @contextmanager
    def recovering(self) -> Iterator[None]:
        """The block is a recovery: its time is taken."""
        began = time.monotonic()
        yield
        self.recovery.append(time.monotonic() - began)

    @contextmanager
    def refusing(self, *errors: type[DistributaryError]) -> Iterator[None]:
        """The block is to be refused by one of these errors, whose message is not empty and no stack trace."""
        try:
            yield
        except errors as error:
            self.refused.add(type(error).__name__)
            return
        self.differences.append(f"it was not refused by {' or '.join(one.__name__ for one in errors)}")

    def ends_whole(self, kit: PipelineKit, *, alone: bool = True, swept: bool = True) -> None:
        """A round is over: hold the tables against what was sent.

        alone  whether to hold them against what the pipeline and Kafka know, too
        swept  whether no file may be left that no table's log names, once the next start was there
        """
        self.rounds += 1
        self.counts(kit.topic, kit.truth.records)
        found = misplaced(kit.lake, kit.truth)
        self.lost += found.lost
        self.twice += found.twice
        told = [*kit.verify().differences, *(verify(kit.settings).differences if alone else ())]
        self.differences += list(dict.fromkeys(map(str, told)))
        if swept:
            self.requires_no_unnamed_files(kit)

    def counts(self, topic: str, records: int) -> None:
        """A topic has so many records by now."""
        self.records += records - self._sent.get(topic, 0)
        self._sent[topic] = records

    def requires_no_unnamed_files(self, kit: PipelineKit, but: Callable[[], Collection[str]] = tuple) -> None:
        """No file may be left that no table's log names, once the next start was there; `but` gives names of which one may."""
        if self._unnamed(kit, but):
            # What outlived its killed driver may have written behind the sweep; the next start's takes it.
            kit.configured(trigger={"available_now": True}).run()
        if unnamed := self._unnamed(kit, but):
            self.differences.append(f"{len(unnamed)} files that no log names, such as {min(unnamed)}")

    @staticmethod
    def _unnamed(kit: PipelineKit, but: Callable[[], Collection[str]]) -> set[str]:
        passed = set(but())
        return {path for path in kit.unnamed_files() if path.rpartition("/")[2] not in passed}

    def row(self, name: str) -> dict[str, Any]:
        """As drills.json has it."""
        slowest = round(max(self.recovery), 1) if self.recovery else None
        row: dict[str, Any] = {
            "drill": name,
            "rounds": self.rounds,
            "faults": self.faults,
            "records": self.records,
            "lost": self.lost,
            "twice": self.twice,
            "recovery_seconds": slowest,
        }
        row |= {"refused": sorted(self.refused)} if self.refused else {}
        return {**row, "vacuumed": self.vacuumed} if self.vacuumed else row


@dataclass(frozen=True)
class Drill:
    """A way to harm a pipeline.

    does     in one sentence, what is done
    run      does it so often, and gives the account
    """

    name: str
    does: str
    run: Callable[[World, Account], None]
