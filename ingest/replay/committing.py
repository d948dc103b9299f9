"""Steps 7 and 8 of docs/explanation/how-a-batch-commits.md for a replay: every table gets its part, and what was resolved is told last."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import SparkSession

from distributary.errors import CommitImpossible, TableAhead
from distributary.ingest import failpoints
from distributary.ingest.batch.finish import Finisher
from distributary.ingest.checkpoint.manifest import Manifest, TableFiles
from distributary.ingest.columns.safe_names import RESOLVED_TABLE
from distributary.ingest.replay.exchanging import Exchange
from distributary.ingest.replay.kept import NUMBER, Kept
from distributary.ingest.replay.places import Places
from distributary.ingest.settings.groups import Columns
from distributary.ingest.tables.commit import commit_tables, make_lasting
from distributary.ingest.tables.known import TableBook
from distributary.ingest.tables.log_commit import NativeCommits
from distributary.ingest.tables.transaction import TableCommit, Transaction

# Another writer's entry may take the place of ours on a local file system.
_MOST_TIMES = 3


@dataclass(frozen=True)
class Committing:
    """Commits what a replay's manifest names. Doing it again changes nothing.

    kept         the replay
    columns      what tables call Kafka's columns
    transaction  by which each table has its part once
    """

    finisher: Finisher
    tables: TableBook
    native: NativeCommits
    spark: SparkSession | None
    kept: Kept
    columns: Columns
    transaction: Transaction

    def commit(self, manifest: Manifest, leaving: Mapping[str, Places], *, fresh: bool) -> None:
        """`fresh` says that it was decided just now, `leaving` which rows make room. Raises CommitImpossible where a table cannot take its files, and other PipelineErrors."""
        added = [one for one in manifest.tables if one.folder not in {*leaving, RESOLVED_TABLE}]
        self._commit([self._commit_of(one, fresh) for one in added])
        # A record whose row moves is in two tables sooner than in none.
        self._exchange(
            [
                Exchange(self._of(folder, manifest, fresh), places, self.columns, self.kept.id)
                for folder, places in leaving.items()
            ]
        )
        failpoints.reach(failpoints.BEFORE_LEDGER, NUMBER)
        # By this the records are open no more, so they have to be where it says.
        resolved = [one for one in manifest.tables if one.folder == RESOLVED_TABLE]
        self._commit([self._commit_of(one, fresh) for one in resolved])

    def _commit_of(self, table: TableFiles, fresh: bool) -> TableCommit:
        return self.finisher.table_commit(table, self.transaction, fresh=fresh)

    def _of(self, folder: str, manifest: Manifest, fresh: bool) -> TableCommit:
        """What comes to a table that rows leave, which may be nothing."""
        found = [table for table in manifest.tables if table.folder == folder]
        if found:
            return self._commit_of(found[0], fresh)
        return TableCommit(folder, self.tables.place(folder), (), pa.schema([]), self.transaction, True)

    def _exchange(self, exchanges: Sequence[Exchange]) -> None:
        if not exchanges:
            return
        with ThreadPoolExecutor(max(self.tables.threads, 1), thread_name_prefix="replay") as pool:
            running = {pool.submit(one.made): one.commit for one in exchanges}
            try:
                for done in as_completed(running):
                    self.tables.changed(running[done].table)
                    with self._told():
                        done.result()
                    failpoints.reach(failpoints.BETWEEN_COMMITS, NUMBER)
            finally:
                pool.shutdown(wait=True, cancel_futures=True)

    def _commit(self, commits: list[TableCommit]) -> None:
        def committed(_: TableCommit) -> None:
            failpoints.reach(failpoints.BETWEEN_COMMITS, NUMBER)

        with self._told():
            for _ in range(_MOST_TIMES):
                done = commit_tables(self.spark, commits, self.tables.threads, committed, self.native)
                there = {table for table, new in done.items() if not new}
                commits = make_lasting(self.tables.root, commits, self.native, there)
                if not commits:
                    break

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Inside, what a table can never take is told with what to do."""
        try:
            yield
        except TableAhead as error:
            raise TableAhead(
                f"a replay is decided and cannot be finished; nothing of it is lost or twice: {error}. Delete {self.kept.place.url}, and the next "
                "replay finds what its tables have by then"
            ) from error
        except CommitImpossible as error:
            raise CommitImpossible(
                f"a replay is decided and cannot be finished; nothing of it is lost or twice: {error}. Put the table "
                f"right, and say the same again; or delete {self.kept.place.url}, and the next replay finds what its tables have by then",
                error.tables,
            ) from error
