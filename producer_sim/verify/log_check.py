"""Whether the pipeline's log and its tables have come equally far."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from distributary.errors import CheckpointMismatch
from distributary.ingest.checkpoint.folder import Checkpoint
from distributary.ingest.checkpoint.generation import Generation, read_generation
from distributary.ingest.checkpoint.stuck import Resolutions
from distributary.ingest.columns.safe_names import BATCHES_TABLE
from distributary.ingest.commit_log.entries import Standing
from distributary.producer_sim.verify.ledger_check import Batch, reached
from distributary.producer_sim.verify.verdict import Difference, named


@dataclass(frozen=True, slots=True)
class LogNow:
    """The log of the checkpoint as it was read.

    place       where it is
    generation  the checkpoint's
    before      the newest batch but one
    so_far      how far it has come
    waits       whether the ledger is to have the row of the newest batch: the user may have decided that it goes without
    """

    place: str
    generation: Generation
    before: int | None
    so_far: Standing
    waits: bool = True


def read_log(checkpoint: Checkpoint, differences: list[Difference]) -> LogNow | None:
    """The log of a checkpoint; None where there is none, or where it cannot be read, which is a difference."""
    try:
        generation, state = read_generation(checkpoint), checkpoint.log.state()
        if generation is None or state.so_far is None:
            return None
        last = state.so_far.last
        batch = None if last is None else checkpoint.log.newest_batch(last)
        skipped = frozenset() if last is None else Resolutions(checkpoint).skipped(last)
    except CheckpointMismatch as error:
        differences.append(Difference("checkpoint_unreadable", str(checkpoint), str(error)))
        return None
    before = None if batch is None else batch.so_far.last
    generation = generation.as_of(state.so_far)
    return LogNow(checkpoint.log.url, generation, before, state.so_far, BATCHES_TABLE not in skipped)


def check_log(ledger: Sequence[Batch], log: LogNow) -> Iterator[Difference]:
    """Everything in which the ledger, which each batch comes to last, disagrees with the log, which it comes from."""
    for folder, numbers in sorted(log.so_far.parked.items()):
        detail = (
            f"{len(numbers)} of its batches, {numbers[0]} to {numbers[-1]}, wait for `distributary resolve`"
        )
        yield Difference("table_parked", folder, detail)
    mine = [batch for batch in ledger if batch.generation == log.generation.id]
    newest = max((batch.batch_id for batch in mine), default=None)
    last = log.so_far.last
    if newest == last:
        yield from _check_ends(mine, ledger, log)
    elif last is None or (newest is not None and newest > last):
        known = "no batch" if last is None else f"batch {last} as the newest one"
        detail = f"the ledger has batch {newest}, the log knows {known}: the checkpoint was put back from an older copy"
        yield Difference("checkpoint_behind", log.place, detail)
    elif log.before is not None and (newest is None or newest < log.before):
        known = "no batch" if newest is None else f"batch {newest} as the newest one"
        detail = f"the ledger has {known}, and batch {log.before} was in all tables: these were put back from an older copy"
        yield Difference("tables_behind", BATCHES_TABLE, detail)
    elif log.waits:
        detail = f"the log in {log.place} has decided it, the ledger does not have it: start the pipeline, which finishes it"
        yield Difference("batch_unfinished", f"batch {last} of generation {log.generation.id}", detail)


def _check_ends(mine: Sequence[Batch], ledger: Sequence[Batch], log: LogNow) -> Iterator[Difference]:
    """A reading that goes on elsewhere than where the newest batch ended leaves out what lies between.

    Where this log has no batch yet it may begin anew, and yet not behind what others have read.
    """
    own = reached(mine)
    for partition, end in sorted({**reached(ledger), **own}.items()):
        topic, number = partition
        goes_on = log.so_far.ends.get(topic, {}).get(number, end)
        if goes_on > end or (goes_on < end and partition in own):
            what = "leaves out" if goes_on > end else "repeats"
            detail = f"the log goes on at {goes_on:,}, the ledger ends at {end:,}: that {what} {abs(goes_on - end):,} offsets"
            yield Difference("ledger_offsets", named(partition), detail)
