"""Steps 7 and 8 of docs/explanation/how-a-batch-commits.md: every table that its manifest names gets its commit, now or after any number of crashes."""

from __future__ import annotations

import json
from collections.abc import Sequence

from pyspark.sql import DataFrame

from distributary.errors import CommitImpossible
from distributary.ingest import failpoints
from distributary.ingest.checkpoint.earlier_runs import BATCH, GENERATION, LINEAGE, OFFSETS
from distributary.ingest.checkpoint.folder import Checkpoint
from distributary.ingest.checkpoint.manifest import Manifest, TableFiles
from distributary.ingest.checkpoint.stuck import Resolutions, StuckCommits
from distributary.ingest.kafka.columns import table_schema
from distributary.ingest.kafka.offsets import offsets_to_json
from distributary.ingest.settings.groups import Columns
from distributary.ingest.tables.commit import commit_tables
from distributary.ingest.tables.known_tables import TableBook
from distributary.ingest.tables.log_commit import NativeCommits
from distributary.ingest.tables.transaction import TableCommit

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

    def finish(self, manifest: Manifest, records: DataFrame) -> None:
        """Raises CommitImpossible where a table can never take its files; `distributary resolve` then decides."""
        skipped = self._resolutions.skipped(manifest.batch_id)
        for roles in _ORDER:
            wanted = [
                table for table in manifest.tables if table.role in roles and table.folder not in skipped
            ]
            self._commit(manifest, wanted, records)
        self._stuck.clear(manifest.batch_id)

    def _commit(self, manifest: Manifest, wanted: Sequence[TableFiles], records: DataFrame) -> None:
        commits = [self._table_commit(manifest, table) for table in wanted]

        def committed(_commit: TableCommit) -> None:
            failpoints.reach(failpoints.BETWEEN_COMMITS, manifest.batch_id)

        try:
            commit_tables(records.sparkSession, commits, self._tables.threads, committed, self._native)
        except CommitImpossible as error:
            self._stuck.write(manifest.batch_id, error)
            raise

    def _table_commit(self, manifest: Manifest, table: TableFiles) -> TableCommit:
        ours = table.role != "events"
        schema = table.layout.columns if ours else table_schema(self._columns, table.layout)
        return TableCommit(
            table=table.folder,
            path=self._tables.path(table.folder),
            files=table.files,
            schema=schema,
            app_id=table.app_id,
            batch_id=manifest.batch_id,
            metadata=commit_metadata(manifest, self._lineage),
            native=table.native,
        )
