"""An earlier log of a pipeline as a new checkpoint finds it: held against the tables that it filled, before anything rests on either."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from distributary.errors import CheckpointMismatch, CommitImpossible, NewerFormat, PipelineError, TableAhead
from distributary.ingest.batch.finish import Finisher
from distributary.ingest.checkpoint.folder import Checkpoint
from distributary.ingest.checkpoint.generation import Generation, read_generation
from distributary.ingest.checkpoint.manifest import Manifest
from distributary.ingest.checkpoint.manifests import ManifestStore, manifest_of, with_rewritten
from distributary.ingest.checkpoint.put_back import ahead
from distributary.ingest.columns.safe_names import BATCHES_TABLE, OUR_NAMES, RESERVED_TABLES
from distributary.ingest.commit_log.entries import Batch, HandedOver, Owner, Standing
from distributary.ingest.commit_log.reading import CommitLog
from distributary.ingest.handover.reaching import UNREACHED, Reaching, parked_in
from distributary.ingest.merge.rule import with_memories
from distributary.ingest.tables.transaction import is_in

Newest = Mapping[str, int | None]

_OLDER = "its tables are older than the log, as if put back from a copy"


@dataclass(frozen=True, slots=True)
class Earlier:
    """An earlier log of the pipeline.

    checkpoint  where it can be reached, and is that owner's
    ended       whether it was handed over before
    lost        in words why nothing can be had from it; empty where it goes on
    tables      the folders of those that are its own
    """

    owner: Owner
    checkpoint: Checkpoint | None
    ended: bool = False
    lost: str = ""
    tables: tuple[str, ...] = ()


class Looking:
    """Looks at earlier logs, and changes nothing of them."""

    def __init__(self, reaching: Reaching) -> None:
        self._reaching = reaching

    def state(self, owner: Owner, tables: Sequence[str]) -> Earlier:
        """What became of an owner's log, who has these tables. Raises NewerFormat, and PipelineError where nobody can open one of them."""
        checkpoint = self._reaching.checkpoint(owner)
        generation = None if checkpoint is None else read_generation(checkpoint)
        if checkpoint is None or generation is None:
            return Earlier(owner, None, lost=UNREACHED)
        self._reaching.mend(checkpoint, generation, [*OUR_NAMES, *tables])
        finisher = self._reaching.finisher(checkpoint, generation)
        try:
            asked = [*RESERVED_TABLES, *(table for table in tables if table not in parked_in(checkpoint))]
            # Of a run that is alive the tables are never ahead of its log, if they are asked first, and never behind, if once more.
            reached = _newest(finisher, checkpoint, generation, asked)
            state = checkpoint.log.state()
        except NewerFormat:
            raise
        except CheckpointMismatch as error:
            return Earlier(owner, None, lost=str(error))
        if self._is_older(checkpoint, finisher, reached):
            return Earlier(owner, None, lost="its log is older than the tables, as if put back from a copy")
        if _lack_batches(finisher, checkpoint, state.so_far, reached) and _lack_batches(
            finisher, checkpoint, state.so_far, _newest(finisher, checkpoint, generation, asked)
        ):
            return Earlier(owner, None, lost=_OLDER)
        if self._lack_the_newest(checkpoint, finisher, state.so_far):
            return Earlier(owner, None, lost=_OLDER)
        return Earlier(owner, checkpoint, isinstance(state.newest, HandedOver), tables=tuple(tables))

    def require_whole(self, one: Earlier) -> None:
        """Raises CommitImpossible where one of a log's tables lacks a batch that was in it: what it had would be missing behind the log's end.

        But for the newest batch, which is brought in once more where the log is taken over.
        """
        checkpoint = one.checkpoint
        generation = None if checkpoint is None else read_generation(checkpoint)
        so_far = None if checkpoint is None else checkpoint.log.state().so_far
        if checkpoint is None or generation is None or so_far is None:
            return
        if (last := _last(checkpoint, so_far)) is None:
            return
        finisher, log = self._reaching.finisher(checkpoint, generation), checkpoint.log
        asked = {*RESERVED_TABLES, *one.tables} - {BATCHES_TABLE} - so_far.parked.keys()
        memories = with_memories(asked).intersection(self._reaching.tables.root.folders())
        # Behind the log: all before its newest batch was in them then.
        newest, given = finisher.newest(generation, sorted(asked | memories)), finisher.given(log)
        lacking = given.lacks(manifest_of(last, log), newest)
        if (found := given.lacked(last, newest, lacking)) is not None:
            raise with_place(finisher.was_put_back(last.number, found, lacking), checkpoint)

    def _lack_the_newest(self, checkpoint: Checkpoint, finisher: Finisher, so_far: Standing | None) -> bool:
        """Whether no table has a log's newest batch, and no file of it is there any more: only a run of that log could read its records again."""
        last = _last(checkpoint, so_far)
        if so_far is None or last is None:
            return False
        decided = as_rewritten(manifest_of(last, checkpoint.log), checkpoint.log, so_far)
        late = () if decided.late_row is None else (BATCHES_TABLE,)
        given, waits = finisher.given(checkpoint.log), so_far.parked.keys()
        return given.is_nowhere(decided, waits, {*waits, *late, *given.resolutions.skipped(last.number)})

    def _is_older(self, checkpoint: Checkpoint, finisher: Finisher, reached: Newest) -> bool:
        last = ManifestStore(checkpoint).last()
        if ahead(reached, last):
            return True
        try:
            if last is not None and reached[BATCHES_TABLE] == last.batch_id:
                finisher.require_in_ledger(last)
        except TableAhead:
            return True
        return False


def with_place(error: CommitImpossible, checkpoint: Checkpoint) -> CommitImpossible:
    """The error of an earlier checkpoint's batch, which waits there: the settings of the new one do not lead whoever decides to it."""
    return CommitImpossible(
        f"{error}\nThis is the earlier checkpoint's batch: `distributary resolve` decides about it with "
        f"`checkpoint: {checkpoint}` in the settings",
        error.tables,
    )


def as_rewritten(manifest: Manifest, log: CommitLog, so_far: Standing) -> Manifest:
    """The manifest with the files that were written again by the time that a log stands so."""
    entries = map(log.rewritten, so_far.rewritten)
    return with_rewritten(manifest, (entry for entry in entries if entry is not None), log)


def _newest(
    finisher: Finisher, checkpoint: Checkpoint, generation: Generation, tables: Sequence[str]
) -> Newest:
    try:
        return finisher.newest(generation, tables)
    except CheckpointMismatch:
        raise
    except (PipelineError, OSError) as error:
        # Of a store that does not answer it says nothing.
        if isinstance(error, OSError) and finisher.remote:
            raise
        raise PipelineError(
            f"{error}\nIt is a table of the earlier checkpoint, {checkpoint}: have what was done to it taken back, or restore it from a copy. For others "
            "to go on without it, run that checkpoint with `policies.stuck_table: park` before its tables are taken over"
        ) from error


def _last(checkpoint: Checkpoint, so_far: Standing | None) -> Batch | None:
    return None if so_far is None or so_far.last is None else checkpoint.log.newest_batch(so_far.last)


def _lack_batches(
    finisher: Finisher, checkpoint: Checkpoint, so_far: Standing | None, reached: Newest
) -> bool:
    """Whether tables lack a batch that a log says was in all of them: behind its end what they had would be missing."""
    last = _last(checkpoint, so_far)
    if last is None or not finisher.is_behind(last, reached[BATCHES_TABLE]):
        return False
    # The ledger alone may have been dropped.
    return reached[BATCHES_TABLE] is not None or not any(is_in(one, last.before) for one in reached.values())
