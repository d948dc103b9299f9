"""The checkpoints that filled a pipeline's tables before, where they can be reached, and what finishes their batches."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from pyspark.sql import SparkSession

from distributary.errors import CheckpointMismatch, ConfigError, NewerFormat
from distributary.ingest.batch.finish import Finisher
from distributary.ingest.checkpoint.folder import Checkpoint
from distributary.ingest.checkpoint.generation import Generation, read_generation
from distributary.ingest.checkpoint.manifests import ManifestStore
from distributary.ingest.commit_log.entries import Owner, Standing
from distributary.ingest.merge.rule import with_memories
from distributary.ingest.settings.groups import Columns
from distributary.ingest.storage.place import Place
from distributary.ingest.tables.known import TableBook
from distributary.ingest.tables.log_commit import NativeCommits

_log = logging.getLogger(__name__)

UNREACHED = "its log cannot be reached from here"


class Reaching:
    """What gets from an owner's record to his checkpoint.

    at      opens the checkpoint whose log is at a place
    widens  whether an entity's table may get wider columns that it lacks, as the settings say by now
    """

    def __init__(
        self,
        tables: TableBook,
        native: NativeCommits,
        spark: SparkSession,
        at: Callable[[str], Checkpoint],
        widens: Callable[[str], bool] = lambda entity: False,
    ) -> None:
        self.tables, self.spark, self.widens = tables, spark, widens
        self._native, self._at = native, at

    def checkpoint(self, owner: Owner) -> Checkpoint | None:
        """The checkpoint that has an owner's log; None where it cannot be reached, or is another one by now.

        Raises NewerFormat, and OSError where it is there and cannot be read just now.
        """
        try:
            checkpoint = self._at(owner.log)
            generation = read_generation(checkpoint)
        except NewerFormat:
            # Its run may be alive: nobody is to be asked whether it is dead.
            raise
        except (OSError, ValueError, ConfigError, CheckpointMismatch) as error:
            if isinstance(error, OSError) and self._may_come_back(owner, error):
                raise
            return None
        return checkpoint if generation is not None and generation.id == owner.generation else None

    def finisher(self, checkpoint: Checkpoint, generation: Generation) -> Finisher:
        """What commits a checkpoint's batches."""
        return Finisher(columns_of(generation), checkpoint, self.tables, self._native, generation.lineage)

    def mend(self, checkpoint: Checkpoint, generation: Generation, tables: Iterable[str]) -> set[str]:
        """Put right what a loss of power left of the tables, as by a start of that log; those that it took something from.

        A table that cannot be mended is told of where it is asked what it has.
        """
        if self.tables.root.remote:
            return set()

        def passed_over(folder: str, error: Exception) -> None:
            if isinstance(error, ConnectionError):
                raise error
            _log.warning("table %s is left as it is: %s", folder, error)

        try:
            last, parked = ManifestStore(checkpoint).last(), parked_in(checkpoint)
        except CheckpointMismatch:
            return set()  # it is told where the log is asked
        there = with_memories(tables).intersection(self.tables.root.folders())
        return self.finisher(checkpoint, generation).mend(generation, there, last, parked, passed_over)

    def _may_come_back(self, owner: Owner, error: OSError) -> bool:
        """Whether a log is there though it cannot be read just now: whoever goes on without it loses what waits in it for parked tables.

        One in a store that the tables are not in may be gone for good, which the user knows.
        """
        place = Place.parse(owner.log)
        if place.kind == "posix":
            return not isinstance(error, (PermissionError, NotADirectoryError))
        return isinstance(error, ConnectionError) and place.shares_store(Place.parse(self.tables.root.url))


def parked_in(checkpoint: Checkpoint) -> dict[str, tuple[int, ...]]:
    """What waits in a log for which tables, by their folders. Raises CheckpointMismatch for a log that was lost or edited."""
    so_far: Standing | None = checkpoint.log.state().so_far
    return {} if so_far is None else dict(so_far.parked)


def columns_of(generation: Generation) -> Columns:
    """The names of columns that the generation's files have."""
    prefix = "sink.columns."
    told = generation.world.fingerprint.items()
    return Columns(**{name.removeprefix(prefix): value for name, value in told if name.startswith(prefix)})
