"""Whether tables have batches of which the ledger does not tell, by the transactions of their commits, and whether their logs are whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress

from deltalake import DeltaTable

from distributary.errors import CheckpointMismatch
from distributary.ingest.checkpoint.folder import Checkpoint
from distributary.ingest.checkpoint.generation import app_of
from distributary.ingest.checkpoint.manifests import folders_of
from distributary.ingest.checkpoint.stuck import Resolutions
from distributary.ingest.columns.safe_names import CHANGES_TABLE, MEMORY_SUFFIX, QUARANTINE_TABLE
from distributary.ingest.commit_log.entries import Batch as Decided
from distributary.ingest.merge.rule import with_memories
from distributary.ingest.tables.log import has_log, tables_under
from distributary.ingest.tables.mending import damaged_entries
from distributary.producer_sim.verify.lake import READ_ERRORS, Lake
from distributary.producer_sim.verify.ledger_check import Batch
from distributary.producer_sim.verify.log_check import LogNow
from distributary.producer_sim.verify.verdict import Difference

# Per table and generation, the newest batch that is in it.
Newest = Mapping[str, Mapping[str, int]]


def generations(ledger: Iterable[Batch], log: LogNow | None) -> frozenset[str]:
    """The generations of whose batches the ledger has to tell.

    Of an earlier one a batch may be half in: who goes on from tables takes it over, and the ledger tells of that as the heir's.
    """
    if log is not None:
        return frozenset({log.generation.id})
    told = frozenset(batch.generation for batch in ledger)
    return told if len(told) == 1 else frozenset()


def newest_of(table: DeltaTable, name: str, wanted: Iterable[str]) -> dict[str, int]:
    """The newest batch of each of these generations in a table; those without any are left out."""
    asked = {generation: table.transaction_version(app_of(generation, name)) for generation in wanted}
    return {generation: batch for generation, batch in asked.items() if batch is not None}


def newest_of_own(lake: Lake, wanted: Iterable[str]) -> dict[str, dict[str, int]]:
    """The same of the tables that are no entity's, and of what remembers deletes; one that cannot be read is told of where it is read."""
    found = {}
    memories = (name for name in lake.root.folders() if name.endswith(MEMORY_SUFFIX))
    for name in (QUARANTINE_TABLE, CHANGES_TABLE, *(one for one in memories if one not in lake.others)):
        with suppress(*READ_ERRORS):
            table = lake.open(name)
            if table is not None:
                found[name] = newest_of(table, name, wanted)
    return found


def check_commits(newest: Newest, ledger: Sequence[Batch], log: LogNow | None) -> Iterator[Difference]:
    """Batches in tables that the ledger, to which each comes last, does not have; one that the next start finishes is told of by its log."""
    told: dict[str, int] = {}
    for batch in ledger:
        told[batch.generation] = max(batch.batch_id, told.get(batch.generation, -1))
    for table, batches in sorted(newest.items()):
        for generation, number in sorted(batches.items()):
            if number > told.get(generation, -1) and not _is_decided(generation, number, log):
                detail = f"it has batch {number} of generation {generation}, of which the ledger and this checkpoint's log do not tell"
                yield Difference("batch_unrecorded", table, detail)


def check_given(
    lake: Lake, newest: Newest, ledger: Sequence[Batch], checkpoint: Checkpoint, log: LogNow
) -> Iterator[Difference]:
    """Tables that lack the newest batch which the log gave them, or are gone: of one with one row a key no count shows that."""
    mine, met, number = log.generation.id, set(with_memories(log.so_far.parked)), log.so_far.last
    whole = max((batch.batch_id for batch in ledger if batch.generation == mine), default=-1)
    try:
        closed = checkpoint.log.closed()
        while number is not None and number > closed:
            batch = checkpoint.log.entry(number)
            if not isinstance(batch, Decided):
                return  # a run goes on meanwhile, and has closed it
            given = set(folders_of(batch, checkpoint.log)) if number <= whole else set[str]()
            for table in sorted(given - met - with_memories(batch.waits)):
                found = _lacking(lake, table, newest.get(table), (mine, number))
                skipped = Resolutions(checkpoint).skipped(number) if found else frozenset[str]()
                if found and table not in with_memories(skipped):
                    yield found
            met |= given
            number = batch.so_far.last
    except CheckpointMismatch as error:
        yield Difference("checkpoint_unreadable", str(checkpoint), str(error))


def check_changes(lake: Lake, ledger: Sequence[Batch]) -> Iterator[Difference]:
    """The ledger of changes, if it is gone: a run makes it before its first batch, and the log may name none any more that had rows for it."""
    if ledger and not has_log(lake.root.below(CHANGES_TABLE)):
        detail = "there are batches, and it is not there: the next run makes it anew, and nothing tells any more by what tables became what they are"
        yield Difference("table_missing", CHANGES_TABLE, detail)


def _lacking(
    lake: Lake, table: str, newest: Mapping[str, int] | None, given: tuple[str, int]
) -> Difference | None:
    generation, number = given
    # Who moves a table away to change its rule takes with it what remembers deletes, which may not come again.
    if newest is None and not table.endswith(MEMORY_SUFFIX) and not has_log(lake.root.below(table)):
        detail = f"batch {number} was in it, and it is not there: the next batch with rows for it makes it anew, without what it had"
        return Difference("table_missing", table, detail)
    had = (newest or {}).get(generation, number)
    if had >= number:
        return None
    detail = f"it has batch {had} as its newest one, and batch {number} was in it, too: it was put back from an older copy, or a disk lost what it had"
    return Difference("tables_behind", table, detail)


def check_logs(lake: Lake) -> Iterator[Difference]:
    """Entries that mean nothing any more: of changes, and of rows that replace others, nothing else tells how many there were."""
    if lake.root.remote:
        return  # what a store has is whole
    for name in sorted(set(tables_under(lake.root)) - lake.others.keys()):
        lost: Sequence[int] = ()
        # Whoever reads the table tells of it.
        with suppress(OSError):
            lost = damaged_entries(lake.root.below(name))
        for version in lost:
            detail = (
                f"version {version} of its log was emptied or cut off, and is read as a commit of nothing"
            )
            yield Difference("log_damaged", name, detail)


def _is_decided(generation: str, number: int, log: LogNow | None) -> bool:
    return log is not None and generation == log.generation.id and number == log.so_far.last
