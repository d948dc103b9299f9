"""Tables that were put back alone from an older copy: each is held against what the log says it was given."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass

from distributary.ingest.checkpoint.manifests import folders_of
from distributary.ingest.checkpoint.stuck import Resolutions
from distributary.ingest.commit_log.entries import NONE, Batch
from distributary.ingest.commit_log.reading import CommitLog
from distributary.ingest.tables.known import TableBook
from distributary.ingest.tables.transaction import FORGETS, is_in

# So many batches back it is looked, at each start, what tables were given for which the newest ones have nothing: each is a request in a store.
_MOST_LOOKED_AT = 10


@dataclass(frozen=True, slots=True)
class Given:
    """What a log says that tables were given, but for what somebody let them go without."""

    log: CommitLog
    resolutions: Resolutions
    tables: TableBook

    def lacked(
        self, last: Batch, newest: Mapping[str, int | None], lacking: Container[str]
    ) -> tuple[int, Mapping[str, int]] | None:
        """A batch from before the newest that tables lack, and which one each of these has instead: all of those were in their tables.

        By the `newest` batch of each table, those among them that are `lacking` the newest of all. What was given to a table that forgets, or
        was made anew since, nobody asks it for.
        """
        # What came before a batch that somebody let a table go without is nobody's question any more.
        passed = self.resolutions.skipped(last.number)
        wanted = {
            folder: one
            for folder, one in newest.items()
            if one is not None and one < last.number and folder not in passed
        }
        so_far, closed, looked_at = last.so_far, self.log.closed() if wanted else NONE, 0
        while wanted and so_far.last is not None and so_far.last > closed:
            if looked_at >= _MOST_LOOKED_AT and not any(folder in lacking for folder in wanted):
                return None
            batch, looked_at = self.log.entry(so_far.last), looked_at + 1
            if not isinstance(batch, Batch):
                return None  # another run goes on by now, and has closed it
            so_far, given = batch.so_far, folders_of(batch, self.log).intersection(wanted) - {*batch.waits}
            asked = given - self.resolutions.skipped(batch.number) if given else given
            behind = [folder for folder in asked if not is_in(wanted[folder], batch.number)]
            states = self.tables.states(sorted(behind))
            if told := [folder for folder in states if FORGETS not in states[folder].properties]:
                return batch.number, {folder: wanted[folder] for folder in told}
            wanted = {folder: one for folder, one in wanted.items() if folder not in given}
        return None
