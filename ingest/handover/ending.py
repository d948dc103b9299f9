"""The end of an earlier log: what it decided is brought to all its tables, and what it left is swept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from distributary.errors import CommitImpossible
from distributary.ingest.batch.finish import Finisher
from distributary.ingest.batch.parking import Waiting, brought_in
from distributary.ingest.batch.sweep import sweep
from distributary.ingest.checkpoint.folder import Checkpoint
from distributary.ingest.checkpoint.generation import Generation, read_generation
from distributary.ingest.checkpoint.manifest import Manifest
from distributary.ingest.checkpoint.manifests import manifest_of
from distributary.ingest.columns.safe_names import OUR_NAMES
from distributary.ingest.commit_log.entries import Standing
from distributary.ingest.commit_log.reading import CommitLog, State
from distributary.ingest.handover.earlier import as_rewritten, with_place
from distributary.ingest.handover.reaching import Reaching, columns_of
from distributary.ingest.settings.groups import Columns
from distributary.ingest.tables.commit import OF_ONE_TABLE, is_for_all


@dataclass(frozen=True, slots=True)
class StayParked:
    """What is parked in a log that is handed over; nothing is parked there any more."""

    so_far: Standing
    parks: bool = False

    def waiting(self, batch_id: int) -> frozenset[str]:
        """The folders of the tables for which a batch's files wait."""
        return self.so_far.waiting(batch_id)

    def park(self, batch_id: int, error: CommitImpossible) -> bool:
        """Never: what a table cannot take is told."""
        return False

    def unreadable(self, folders: Iterable[str]) -> Mapping[str, str]:
        """None, as nothing could wait for it."""
        return {}


class Ending:
    """Brings earlier logs to their end. Doing it again changes nothing."""

    def __init__(self, reaching: Reaching) -> None:
        self._reaching = reaching

    def finish(self, checkpoint: Checkpoint) -> None:
        """See to it that all tables have a log's newest batch, since whoever decided it may finish it at any time."""
        log, generation = checkpoint.log, read_generation(checkpoint)
        so_far = log.state().so_far
        if generation is None or so_far is None or so_far.last is None:
            return
        finisher, batch = self._reaching.finisher(checkpoint, generation), log.newest_batch(so_far.last)
        manifest = None if batch is None else manifest_of(batch, log)
        # The power may have failed amid this.
        known = () if manifest is None else manifest.entities.values()
        mended = self._reaching.mend(checkpoint, generation, [*OUR_NAMES, *known])
        try:
            reached = finisher.reached(generation)
            if batch is None or manifest is None:
                if reached != so_far.last:
                    raise log.missing(so_far.last)
            # Though the ledger has it, a table may lack it that alone was put back from a copy.
            elif reached != so_far.last or finisher.given(log).lacks(
                manifest, finisher.newest(generation, _folders(manifest, so_far)), mended
            ):
                decided = as_rewritten(manifest, log, so_far)
                finisher.finish(decided, self._reaching.spark, batch.before, parked=StayParked(so_far))
            self._bring_in(log, so_far, finisher, columns_of(generation))
        except CommitImpossible as error:
            raise with_place(error, checkpoint) from error

    def sweep(self, checkpoint: Checkpoint, generation: Generation, state: State) -> None:
        """Delete what an earlier log's run wrote for numbers that are its last entry's now, and those before that are not settled."""
        if state.so_far is None or state.newest is None:
            return
        # Starts that found nothing to do close what they have swept, and only the next batch would say so.
        settled = max(state.so_far.settled, state.closed)
        made_for = range(settled + 1, state.newest.number + 1)
        named = _names_behind(settled, checkpoint.log, state.so_far)
        sweep(self._reaching.tables.root, generation.id, [made_for], named)

    def _bring_in(self, log: CommitLog, so_far: Standing, finisher: Finisher, columns: Columns) -> None:
        """Commit what waits for parked tables: nobody who comes later looks there."""
        tables, spark = self._reaching.tables, self._reaching.spark
        for folder, numbers in so_far.parked.items():
            if all(finisher.leaves_out(number, folder) for number in numbers):
                continue  # as where it came in before
            try:
                waiting = Waiting(log, folder, numbers, self._reaching.widens)
                brought_in(waiting, finisher, tables, columns, spark)
            except CommitImpossible:
                raise
            except OF_ONE_TABLE as error:
                if is_for_all(error):
                    raise
                raise CommitImpossible(
                    f"table {tables.place(folder)} is parked, and what waits for it cannot be brought in: {error}",
                    (folder,),
                ) from error
            # The log is closed for good, so this is what keeps it from being done again, when the table may be another one.
            for number in numbers:
                finisher.brought_in(number, folder)


def _folders(manifest: Manifest, so_far: Standing) -> list[str]:
    """The folders that are to have a batch, but for those of parked tables."""
    waits = so_far.waiting(manifest.batch_id)
    return sorted(folder for table in manifest.tables if table.folder not in waits for folder in table.parts)


def _names_behind(settled: int, log: CommitLog, so_far: Standing) -> frozenset[str]:
    """The names of all files of the batches that are not settled."""
    named: set[str] = set()
    while so_far.last is not None and so_far.last > settled:
        batch = log.newest_batch(so_far.last)
        if batch is None:
            raise log.missing(so_far.last)
        decided = manifest_of(batch, log)
        named |= decided.file_names() | as_rewritten(decided, log, so_far).file_names()
        so_far = batch.so_far
    return frozenset(named)
