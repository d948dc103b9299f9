"""What a pipeline's log holds: who began to run it, what each batch decided, and who has the tables after it.

docs/adr/0015-the-log-of-a-pipeline.md has the rules and the reasons.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from distributary.ingest.kafka.offsets import Offsets, Positions, ends

# In the place of a number where there is none yet.
NONE = -1


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose tables these are.

    pipeline    its name in the settings
    log         where its log is: a path or a URL
    generation  the life of its checkpoint
    lineage     the generation that began the reading of the topics that this one goes on with
    """

    pipeline: str
    log: str
    generation: str
    lineage: str = field(default="", compare=False)

    def __str__(self) -> str:
        return f"pipeline {self.pipeline!r} (log {self.log}, generation {self.generation})"


@dataclass(frozen=True, slots=True)
class Process:
    """Who runs a pipeline: for people, as nothing is decided by it."""

    host: str
    pid: int
    version: str

    def __str__(self) -> str:
        return f"pid {self.pid} on {self.host}"


@dataclass(frozen=True, slots=True)
class Standing:
    """How far a log has come.

    settled    all batches up to this number are in their tables, and no other file that was made for these numbers is left
    last       the number of the newest batch; None before the first
    rewritten  the entries since then that name files of that batch in the place of lost ones
    ends       where the next batch begins, each partition's first offset that no batch has
    left       the same of topics that this reading read and does not read now, for whoever reads them again
    parked     per folder of a table that could not take a batch's files: that batch and those since, whose files wait for it
    topics     once any topic or partition came or went while the log lives: those read since, and the UUID of each; until then they are its generation's
    assigned   whether only those partitions are read that the settings name: of others that there are nothing is known
    """

    settled: int = NONE
    last: int | None = None
    rewritten: tuple[int, ...] = ()
    ends: Positions = field(default_factory=dict)
    left: Positions = field(default_factory=dict)
    parked: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    topics: Mapping[str, str] = field(default_factory=dict)
    assigned: bool = False

    @property
    def oldest_parked(self) -> int | None:
        """The oldest batch with files that wait; None where none wait."""
        return min((numbers[0] for numbers in self.parked.values()), default=None)

    def waiting(self, number: int) -> frozenset[str]:
        """The folders of the tables for which a batch's files wait."""
        return frozenset(folder for folder, numbers in self.parked.items() if number in numbers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What all entries have. An entry is never changed.

    number  its place: 0, 1, 2 ... without a hole
    id      a UUID in hex, by which no two writers put the same bytes
    at      when, by the clock of who wrote it; for people, as nothing is decided by it
    so_far  how far the log had come before it
    """

    number: int
    id: str
    at: str
    so_far: Standing

    @property
    def after(self) -> Standing:
        """How far the log has come with it."""
        return self.so_far

    @property
    def run(self) -> int | None:
        """The number of the start whose run wrote it; None of what another pipeline wrote here."""
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Start(Entry):
    """A process begins to run the pipeline, and whoever ran it before can decide nothing any more."""

    by: Process

    @property
    def run(self) -> int:
        """Its own number."""
        return self.number


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision(Entry):
    """What a run decides of a batch, and cannot take back.

    start    the number of the start whose run decided it
    decided  what, as JSON values
    """

    start: int
    decided: Mapping[str, Any]

    @property
    def run(self) -> int:
        """That of its start."""
        return self.start


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch(Decision):
    """A batch is decided; `decided` is its manifest.

    offsets  its records
    waits    those of its tables that were parked when it was decided: its files wait behind those that wait already
    """

    offsets: Offsets
    waits: tuple[str, ...] = ()

    @property
    def before(self) -> int:
        """The newest batch before it; of one that is closed, or stood in no log yet, the numbers up to it are settled."""
        return self.so_far.settled if self.so_far.last is None else self.so_far.last

    @property
    def after(self) -> Standing:
        """The next batch begins where this one ends."""
        reached = {
            topic: {**self.so_far.ends.get(topic, {}), **positions}
            for topic, positions in ends(self.offsets).items()
        }
        behind = {folder: (*self.so_far.parked[folder], self.number) for folder in self.waits}
        return replace(
            self.so_far,
            last=self.number,
            rewritten=(),
            ends={**self.so_far.ends, **reached},
            parked={**self.so_far.parked, **behind},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewritten(Decision):
    """Files of the newest batch were lost before all its tables had them, and are written again under other names.

    `decided` is what takes the place of what.
    """

    @property
    def after(self) -> Standing:
        """The newest batch has one more entry that speaks of it."""
        return replace(self.so_far, rewritten=(*self.so_far.rewritten, self.number))


@dataclass(frozen=True, slots=True, kw_only=True)
class Parked(Decision):
    """A table could not take the newest batch's files, which wait from here on; or it has got what waited for it.

    `decided` is in words why.

    parked  all that waits from here on, as `Standing` has it
    """

    parked: Mapping[str, tuple[int, ...]]

    @property
    def after(self) -> Standing:
        """Other files wait than before."""
        return replace(self.so_far, parked=self.parked)


@dataclass(frozen=True, slots=True, kw_only=True)
class HandedOver(Entry):
    """Another pipeline has the tables from here on. It is the last entry: nobody runs this log again."""

    to: Owner
