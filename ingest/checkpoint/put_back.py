"""Tables and logs that were put back from an older copy: each table is held against what the log says it was given."""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping
from dataclasses import dataclass

from distributary.ingest.checkpoint.manifest import Manifest
from distributary.ingest.checkpoint.manifests import folders_of
from distributary.ingest.checkpoint.stuck import Resolutions
from distributary.ingest.columns.safe_names import BATCHES_TABLE
from distributary.ingest.commit_log.entries import NONE, Batch
from distributary.ingest.commit_log.reading import CommitLog
from distributary.ingest.merge.rule import with_memories
from distributary.ingest.tables.known import TableBook
from distributary.ingest.tables.log import version_of
from distributary.ingest.tables.transaction import FORGETS, is_in

# So many batches back it is looked, at each start, what tables were given for which the newest ones have nothing: each is a request in a store.
_MOST_LOOKED_AT = 10


def ahead(newest: Mapping[str, int | None], last: Manifest | None) -> list[str]:
    """Which tables have a batch that a log has not come to, by the newest one of each and the newest manifest of the log."""
    number = -1 if last is None else last.batch_id
    written = set() if last is None else {folder for table in last.tables for folder in table.parts}
    return [
        folder
        for folder, batch in newest.items()
        if batch is not None and (batch > number or (batch == number and folder not in written))
    ]


@dataclass(frozen=True, slots=True)
class PutBack:
    """Tables that lack a batch which was in them, by the folders that lack it: their own, or those of what remembers their deletes.

    number  the batch
    newest  which one each of these has instead
    tables  the table that each is of
    """

    number: int
    newest: Mapping[str, int]
    tables: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Given:
    """What a log says that tables were given, but for what somebody let them go without. What remembers their deletes is a table as they are."""

    log: CommitLog
    resolutions: Resolutions
    tables: TableBook

    def lacks(
        self, manifest: Manifest, newest: Mapping[str, int | None], mended: Container[str] = ()
    ) -> list[str]:
        """The folders that do not have a batch which the ledger has, by the newest one of each and by the entry that it came in with.

        One that has none of the pipeline's is another one by now, unless it was mended; one that forgets says nothing.
        """
        skipped = self.resolutions.skipped(manifest.batch_id)
        apps = {
            folder: table.app_id
            for table in manifest.tables
            if table.folder not in skipped
            for folder in table.parts
            if folder in newest and (folder in mended or newest[folder] is not None)
        }
        behind = [folder for folder in apps if not is_in(newest[folder], manifest.batch_id)]
        states = self.tables.states(behind)
        told = [folder for folder, state in states.items() if FORGETS not in state.properties]
        there = {folder: app for folder, app in apps.items() if newest[folder] == manifest.batch_id}
        return told + self._by_checkpoints_alone(there, manifest.batch_id)

    def _by_checkpoints_alone(self, apps: Mapping[str, str], number: int) -> list[str]:
        """Those of these tables that have a batch by a checkpoint of their log alone, as another writer's entry took the place of its own.

        That happens on local file systems, to the last batch of a run, of which nobody is left to look at it again.
        """
        if self.tables.root.remote:
            return []
        states = self.tables.states(apps)
        found = {
            one: version_of(state.place, state.version, apps[one], number) for one, state in states.items()
        }
        return [folder for folder, (version, certain) in found.items() if certain and version is None]

    def lacked(
        self,
        last: Batch,
        newest: Mapping[str, int | None],
        lacking: Container[str],
        *,
        waited: bool = False,
    ) -> PutBack | None:
        """What lacks a batch from before the newest one: all of those were in their tables.

        By the `newest` batch of each folder, those among them that are `lacking` the newest of all. What was given to a table that forgets, or
        was made anew since, nobody asks it for. `waited` is of tables for which `last` is the first batch that waits.
        """
        # What came before a batch that somebody let a table go without is nobody's question any more. One that waits says nothing of that.
        passed = frozenset() if waited else with_memories(self.resolutions.skipped(last.number))
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
            so_far, tables = batch.so_far, folders_of(batch, self.log)
            given = (tables.keys() & wanted.keys()) - with_memories(batch.waits)
            asked = given - with_memories(self.resolutions.skipped(batch.number)) if given else given
            behind = [folder for folder in asked if not is_in(wanted[folder], batch.number)]
            states = self.tables.states(sorted(behind))
            if told := [folder for folder in states if FORGETS not in states[folder].properties]:
                return PutBack(
                    batch.number, {one: wanted[one] for one in told}, {one: tables[one] for one in told}
                )
            wanted = {folder: one for folder, one in wanted.items() if folder not in given}
        return None

    def others(self, manifest: Manifest, number: int, waits: Collection[str] = ()) -> list[bool]:
        """Whether each of a batch's tables has batch `number`, but for the ledger and those that are to go without the former.

        `waits` are the folders of tables that are parked.
        """
        skipped = self.resolutions.skipped(manifest.batch_id).union(waits)
        return [
            is_in(self.tables.newest_batch(table.folder, table.app_id), number)
            for table in manifest.tables
            if table.role != "batches" and table.folder not in skipped
        ]

    def lost_its_row(self, manifest: Manifest) -> bool:
        """Whether the ledger's file of this batch is gone, as when the ledger was dropped."""
        if manifest.late_row is not None:
            # It may not be written yet.
            return not self.tables.states([BATCHES_TABLE])
        return self._lost(manifest, "batches")

    def is_nowhere(self, manifest: Manifest, waits: Collection[str], left_out: Container[str] = ()) -> bool:
        """Whether no table has a batch, and no file of it is there but in those that are left out; `waits` are the folders of parked ones."""
        files = [
            (folder, one.name)
            for table in manifest.tables
            if table.folder not in left_out
            for folder, found in table.parts.items()
            for one in found
        ]
        # Behind the files: of a run that is alive a table may have it by then.
        gone = bool(files) and all(self.tables.place(folder).info(name) is None for folder, name in files)
        return gone and not any(self.others(manifest, manifest.batch_id, waits))

    def lost_in_all(self, manifest: Manifest, waits: Collection[str]) -> bool:
        """Whether a batch is nowhere, what the ledger was to get included, which nobody can make from records again.

        A late row is yet to be made, and a table of the ledger that is not there, beside others that are, was dropped by somebody.
        """
        roles = ("changes",) if manifest.late_row is not None else ("changes", "batches")
        lost = {one.folder for one in manifest.tables if one.role in roles and self._lost(manifest, one.role)}
        lost -= self.resolutions.skipped(manifest.batch_id)
        there = self.tables.states(one.folder for one in manifest.tables) if lost else {}
        lost = lost & there.keys() if there else lost
        return bool(lost) and self.is_nowhere(manifest, waits)

    def _lost(self, manifest: Manifest, role: str) -> bool:
        return any(
            self.tables.place(table.folder).info(file.name) is None
            for table in manifest.tables
            if table.role == role
            for file in table.files
        )
