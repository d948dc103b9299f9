"""Steps 7 and 8 of docs/explanation/how-a-batch-commits.md for a replay: every table gets its part, and what was resolved is told last."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import SparkSession

from distributary.errors import CommitImpossible
from distributary.ingest import failpoints
from distributary.ingest.batch.finish import Finisher
from distributary.ingest.checkpoint.manifest import Manifest, TableFiles
from distributary.ingest.replay.kept import Kept
from distributary.ingest.tables.commit import commit_tables, make_lasting
from distributary.ingest.tables.known import TableBook
from distributary.ingest.tables.log_commit import NativeCommits
from distributary.ingest.tables.transaction import TableCommit, Transaction

REPLAY = "distributary.replay"
"""In a commit: the replay that it is a part of. It says nothing of a generation, as no reading of topics goes on with it."""

# Another writer's entry may take the place of ours on a local file system.
_MOST_TIMES = 3


@dataclass(frozen=True)
class Committing:
    """Commits what a replay's manifest names. Doing it again changes nothing.

    where  the replay's folder
    """

    finisher: Finisher
    tables: TableBook
    native: NativeCommits
    spark: SparkSession | None
    where: str

    def commit(self, kept: Kept, manifest: Manifest, *, fresh: bool) -> None:
        """`fresh` says that it was decided just now. Raises CommitImpossible where a table cannot take its files, and other PipelineErrors."""
        *others, last = manifest.tables
        self._commit([self._commit_of(one, kept, fresh) for one in others])
        failpoints.reach(failpoints.BEFORE_LEDGER, manifest.batch_id)
        # By this the records are open no more, so they have to be where it says.
        self._commit([self._commit_of(last, kept, fresh)])

    def _commit_of(self, table: TableFiles, kept: Kept, fresh: bool) -> TableCommit:
        transaction = Transaction(table.app_id, 0, {REPLAY: kept.id})
        return self.finisher.table_commit(table, transaction, fresh=fresh)

    def _commit(self, commits: list[TableCommit]) -> None:
        def committed(one: TableCommit) -> None:
            failpoints.reach(failpoints.BETWEEN_COMMITS, one.batch_id)

        try:
            for _ in range(_MOST_TIMES):
                done = commit_tables(self.spark, commits, self.tables.threads, committed, self.native)
                there = {table for table, new in done.items() if not new}
                commits = make_lasting(self.tables.root, commits, self.native, there)
                if not commits:
                    break
        except CommitImpossible as error:
            raise CommitImpossible(
                f"a replay of quarantined records is decided and cannot be finished; nothing of it is lost or twice: {error}. Put the table "
                f"right, and say `distributary quarantine replay` again; or delete {self.where}, and the next replay finds what its tables have by then",
                error.tables,
            ) from error
