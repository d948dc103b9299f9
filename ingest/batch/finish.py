"""Steps 7 and 8 of docs/explanation/how-a-batch-commits.md: every table that its manifest names gets its commit, now or after any number of crashes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from pyspark.sql import SparkSession

from distributary.errors import CommitImpossible
from distributary.ingest import failpoints
from distributary.ingest.checkpoint.folder import Checkpoint
from distributary.ingest.checkpoint.generation import Generation
from distributary.ingest.checkpoint.manifest import Manifest, Role, TableFiles
from distributary.ingest.checkpoint.stuck import Resolutions, StuckCommits
from distributary.ingest.columns.safe_names import BATCHES_TABLE, CHANGES_TABLE, QUARANTINE_TABLE
from distributary.ingest.kafka.columns import table_schema
from distributary.ingest.kafka.offsets import offsets_to_json
from distributary.ingest.settings.groups import Columns
from distributary.ingest.tables.commit import commit_tables
from distributary.ingest.tables.known import TableBook
from distributary.ingest.tables.log_commit import NativeCommits
from distributary.ingest.tables.transaction import (
    BATCH,
    GENERATION,
    LINEAGE,
    OFFSETS,
    TableCommit,
    Transaction,
    is_in,
)

# The tables that are no entity's.
_OWN: Mapping[str, Role] = {
    QUARANTINE_TABLE: "quarantine",
    CHANGES_TABLE: "changes",
    BATCHES_TABLE: "batches",
}

# Committed one after the other: the row in the batch ledger comes last and so says that all tables are complete.
_ORDER = (("events", "quarantine"), ("changes",), ("batches",))


def commit_metadata(manifest: Manifest, lineage: str) -> dict[str, str]:
    """What each commit says of itself; with it the tables alone tell where to go on."""
    return {
        GENERATION: manifest.generation,
        LINEAGE: lineage,
        BATCH: str(manifest.batch_id),
        OFFSETS: json.dumps(offsets_to_json(manifest.offsets)),
    }


def ahead(newest: Mapping[str, int | None], last: Manifest | None) -> list[str]:
    """Which tables have a batch that a log has not come to, by the newest one of each and the newest manifest of the log."""
    number = -1 if last is None else last.batch_id
    written = set() if last is None else {table.folder for table in last.tables}
    return [
        folder
        for folder, batch in newest.items()
        if batch is not None and (batch > number or (batch == number and folder not in written))
    ]


class Finisher:
    """Commits what a manifest names. Doing it again changes nothing."""

    def __init__(
        self,
        columns: Columns,
        checkpoint: Checkpoint,
        tables: TableBook,
        native: NativeCommits,
        lineage: str,
    ) -> None:
        self._columns, self._tables, self._native, self._lineage = columns, tables, native, lineage
        self._resolutions, self._stuck = Resolutions(checkpoint), StuckCommits(checkpoint)

    def reached(self, generation: Generation) -> int | None:
        """The newest batch that all its tables have, as the ledger says, which is committed last.

        None before the first, and where the ledger was dropped or made anew. Raises PipelineError where nobody can tell.
        """
        return self._tables.newest_batch(BATCHES_TABLE, generation.app_id("batches"))

    def newest(self, generation: Generation, folders: Sequence[str]) -> dict[str, int | None]:
        """The newest batch of a generation in each of these tables. Raises PipelineError where nobody can tell."""
        apps = {folder: generation.app_id(_OWN.get(folder, "events")) for folder in folders}
        return self._tables.newest_batches(apps)

    def require_in_ledger(self, manifest: Manifest) -> None:
        """Raises TableAhead where the ledger's newest batch has this one's number and other offsets."""
        for table in manifest.tables:
            if table.role == "batches":
                told = commit_metadata(manifest, self._lineage)
                transaction = Transaction(table.app_id, manifest.batch_id, told)
                self._tables.require_in(self._table_commit(table, transaction, fresh=False))

    def may_lack(self, batch_id: int) -> bool:
        """Whether the user decided that the ledger goes without this batch's row."""
        return BATCHES_TABLE in self._resolutions.skipped(batch_id)

    def others(self, manifest: Manifest, number: int) -> list[bool]:
        """Whether each of a batch's tables has batch `number`, but for the ledger and those that are to go without the former."""
        skipped = self._resolutions.skipped(manifest.batch_id)
        return [
            is_in(self._tables.newest_batch(table.folder, table.app_id), number)
            for table in manifest.tables
            if table.role != "batches" and table.folder not in skipped
        ]

    def lost_its_row(self, manifest: Manifest) -> bool:
        """Whether the ledger's file of this batch is gone, as when the ledger was dropped."""
        return any(
            self._tables.place(table.folder).info(file.name) is None
            for table in manifest.tables
            if table.role == "batches"
            for file in table.files
        )

    def finish(
        self, manifest: Manifest, spark: SparkSession, before: int | None = None, *, fresh: bool = False
    ) -> None:
        """Raises CommitImpossible where a table can never take its files, and `distributary resolve` then decides.

        `before` is the newest batch that the log had before this one, `fresh` whether the manifest was written just now. Raises
        TableAhead where a table has yet another.
        """
        skipped, told = self._resolutions.skipped(manifest.batch_id), commit_metadata(manifest, self._lineage)
        for roles in _ORDER:
            commits = [
                self._table_commit(table, Transaction(table.app_id, manifest.batch_id, told, before), fresh)
                for table in manifest.tables
                if table.role in roles and table.folder not in skipped
            ]
            self._commit(commits, spark)
        self._stuck.clear(manifest.batch_id)

    def _commit(self, commits: Sequence[TableCommit], spark: SparkSession) -> None:
        def committed(commit: TableCommit) -> None:
            failpoints.reach(failpoints.BETWEEN_COMMITS, commit.batch_id)

        try:
            commit_tables(spark, commits, self._tables.threads, committed, self._native)
        except CommitImpossible as error:
            self._stuck.write(commits[0].batch_id, error)
            raise

    def _table_commit(self, table: TableFiles, transaction: Transaction, fresh: bool) -> TableCommit:
        ours = table.role != "events"
        schema = table.layout.columns if ours else table_schema(self._columns, table.layout)
        return TableCommit(
            table=table.folder,
            place=self._tables.place(table.folder),
            files=table.files,
            schema=schema,
            transaction=transaction,
            native=table.native,
            fresh=fresh,
        )
