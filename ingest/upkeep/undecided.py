"""Which files of pipelines may still come into their tables, so that nobody who tidies up may take them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from distributary.errors import CheckpointMismatch, ConfigError
from distributary.ingest.checkpoint.folder import Checkpoint
from distributary.ingest.checkpoint.generation import read_generation
from distributary.ingest.commit_log.entries import NONE, Owner
from distributary.ingest.merge import vectors
from distributary.ingest.parquet import data_file
from distributary.ingest.tables.transaction import is_of_replay
from distributary.ingest.upkeep.replayed import under_way


@dataclass(frozen=True, slots=True)
class Undecided:
    """How far the logs of pipelines have come, as it was when they were read.

    A file carries the number of the entry that is to name it. Of numbers that are settled all is decided: such a file is in its table,
    was in it, waits for a parked table, or never comes in.

    settled    up to which number, by the mark that a generation's files carry, or those of a replay that is not done
    unreached  why nobody can tell it of a generation, by its mark
    parked     how many batches wait for a table, by its folder
    """

    settled: Mapping[str, int] = field(default_factory=dict)
    unreached: Mapping[str, str] = field(default_factory=dict)
    parked: Mapping[str, int] = field(default_factory=dict)

    def holds(self, name: str) -> bool:
        """Whether a file of this name may still come into its table, or nobody can tell."""
        made_for = made_by(name)
        if made_for is None:
            return False
        mark, number = made_for
        return mark in self.unreached or (mark in self.settled and number > self.settled[mark])

    def is_unknown(self, name: str) -> bool:
        """Whether a file is one of a generation of which no log tells."""
        made_for = made_by(name)
        return made_for is not None and made_for[0] not in {*self.settled, *self.unreached}

    def is_of(self, transaction: Mapping[str, Any]) -> bool:
        """Whether a `txn` action is that of a batch which is not settled; the numbers of replays are others, and tell nothing of batches."""
        if is_of_replay(str(transaction["appId"])):
            return False
        mark = data_file.generation_mark(str(transaction["appId"]).partition("/")[0])
        return mark in self.settled and int(transaction["version"]) > self.settled[mark]

    def why_unreached(self, name: str) -> str | None:
        """Why nobody can tell of a file whether it may still come in; None of any other."""
        made_for = made_by(name)
        return None if made_for is None else self.unreached.get(made_for[0])


def made_by(name: str) -> tuple[str, int] | None:
    """The mark of the generation that made a file, and the number that it was made for; None of a file that is not named so."""
    return data_file.owner(name) or data_file.merger(name) or vectors.owner(name)


def undecided(own: Checkpoint, owners: Iterable[Owner], at: Callable[[str], Checkpoint]) -> Undecided:
    """What is undecided by the logs of the owners of tables under one root, and by the pipeline's own.

    own  the pipeline's checkpoint, which may not have an entry yet
    at   the checkpoint of an owner, by where his log is
    """
    settled: dict[str, int] = {}
    unreached: dict[str, str] = {}
    parked: dict[str, int] = {}
    logs = {owner.generation: owner for owner in owners}
    mine = _generation_of(own)
    if mine is not None:
        logs.setdefault(mine, Owner("", str(own), mine))
    for generation, owner in logs.items():
        mark = data_file.generation_mark(generation)
        try:
            checkpoint = own if generation == mine else at(owner.log)
            if _generation_of(checkpoint) != generation:
                unreached[mark] = f"the log of {owner} cannot be reached from here"
                continue
            so_far = checkpoint.log.state().so_far
            # Of one that is decided the files come in whenever somebody says so, however long that takes.
            settled |= {data_file.generation_mark(replay): NONE for replay in under_way(checkpoint.files)}
        except (OSError, ValueError, ConfigError, CheckpointMismatch) as error:
            unreached[mark] = f"the log of {owner} cannot be read ({error})"
            continue
        # A number that two generations of one mark have is settled where both say so.
        number = NONE if so_far is None else so_far.settled
        settled[mark] = min(number, settled.get(mark, number))
        for folder, numbers in () if so_far is None else so_far.parked.items():
            parked[folder] = parked.get(folder, 0) + len(numbers)
    return Undecided(settled, unreached, parked)


def _generation_of(checkpoint: Checkpoint) -> str | None:
    generation = read_generation(checkpoint)
    return None if generation is None else generation.id
