"""Steps 7 and 8 of docs/explanation/how-a-batch-commits.md: every table that its manifest names gets its commit, now or after any number of crashes."""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from typing import Protocol

from pyspark.sql import SparkSession

from distributary.errors import CommitImpossible, PipelineError, SumsDisagree
from distributary.ingest import failpoints
from distributary.ingest.checkpoint.damage import undamaged
from distributary.ingest.checkpoint.folder import Checkpoint
from distributary.ingest.checkpoint.generation import Generation, app_of
from distributary.ingest.checkpoint.manifest import Manifest, Merging, TableFiles, role_of
from distributary.ingest.checkpoint.put_back import Given, PutBack
from distributary.ingest.checkpoint.stuck import Resolutions, StuckCommits
from distributary.ingest.columns.safe_names import BATCHES_TABLE
from distributary.ingest.commit_log.entries import Batch
from distributary.ingest.commit_log.reading import CommitLog
from distributary.ingest.kafka.columns import table_schema
from distributary.ingest.kafka.offsets import offsets_to_json
from distributary.ingest.merge.rule import Deletes, MergeRule, Order, memory_folder, position_of
from distributary.ingest.parquet.data_file import DataFile
from distributary.ingest.settings.groups import Columns
from distributary.ingest.storage.contract import Files
from distributary.ingest.tables.commit import OF_ONE_TABLE, commit_tables, make_lasting, of_unreadable
from distributary.ingest.tables.known import TableBook
from distributary.ingest.tables.ledger import MERGED_ROWS, late_file
from distributary.ingest.tables.log_commit import NativeCommits
from distributary.ingest.tables.mending import mend
from distributary.ingest.tables.transaction import (
    BATCH,
    GENERATION,
    LINEAGE,
    OFFSETS,
    TableCommit,
    Transaction,
    is_in,
)

# Another writer's entry may take the place of ours on a local file system. One whose entry was cleaned up since is not found, however often.
_MOST_TIMES = 3

# Committed one after the other: the row in the batch ledger comes last and so says that all tables are complete.
_ORDER = (("events", "bronze", "quarantine"), ("changes",), ("batches",))


def commit_metadata(manifest: Manifest, lineage: str) -> dict[str, str]:
    """What each commit says of itself; with it the tables alone tell where to go on."""
    return {
        GENERATION: manifest.generation,
        LINEAGE: lineage,
        BATCH: str(manifest.batch_id),
        OFFSETS: json.dumps(offsets_to_json(manifest.offsets)),
    }


class ParkedTables(Protocol):
    """The tables of a run that are parked: docs/adr/0019-parked-tables.md."""

    @property
    def parks(self) -> bool:
        """Whether further tables may be parked."""
        ...

    def waiting(self, batch_id: int) -> frozenset[str]:
        """The folders of the tables for which the batch's files wait."""
        ...

    def park(self, batch_id: int, error: CommitImpossible) -> bool:
        """Let the batch's files wait for the tables that cannot take them; whether that is so now."""
        ...

    def unreadable(self, folders: Iterable[str]) -> Mapping[str, str]:
        """Which of these tables nobody can open, each asked alone, and why; none where something keeps everybody from all of them."""
        ...


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

    @property
    def remote(self) -> bool:
        """Whether the tables are in a store, which may not answer for a while."""
        return self._tables.root.remote

    def reached(self, generation: Generation) -> int | None:
        """The newest batch that all its tables have, as the ledger says, which is committed last.

        None before the first, and where the ledger was dropped or made anew. Raises PipelineError where nobody can tell.
        """
        return self._tables.newest_batch(BATCHES_TABLE, generation.app_id("batches"))

    def newest(self, generation: Generation, folders: Sequence[str]) -> dict[str, int | None]:
        """The newest batch of a generation in each of these tables. Raises PipelineError where nobody can tell."""
        apps = {folder: app_of(generation.id, folder) for folder in folders}
        return self._tables.newest_batches(apps)

    def require_in_ledger(self, manifest: Manifest) -> None:
        """Raises TableAhead where the ledger's newest batch has this one's number and other offsets."""
        for table in manifest.tables:
            if table.role == "batches":
                told = commit_metadata(manifest, self._lineage)
                transaction = Transaction(table.app_id, manifest.batch_id, told)
                self._tables.require_in(self.table_commit(table, transaction, fresh=False))

    def may_lack(self, batch_id: int) -> bool:
        """Whether the user decided that the ledger goes without this batch's row."""
        return BATCHES_TABLE in self._resolutions.skipped(batch_id)

    def is_behind(self, last: Batch, reached: int | None) -> bool:
        """Whether the ledger, which has batches up to `reached`, lacks the one before the newest: that was in all its tables."""
        before = last.so_far.last
        if before is None or (reached is not None and reached >= before):
            return False
        return not (self.may_lack(before) or self.may_lack(last.number))

    def mend(
        self,
        generation: Generation,
        folders: Iterable[str],
        last: Manifest | None,
        parked: Mapping[str, Sequence[int]],
        passed_over: Callable[[str, Exception], None] | None = None,
    ) -> set[str]:
        """Make the logs of these tables readable that a loss of power left otherwise; the tables that it took something from.

        `last` is the log's newest manifest: all before it was synced, but for what waited in a table that is `parked`, as that may
        just have been brought in. `passed_over` is told of each that cannot be mended, from whatever thread, and raises where that is to
        stop the others. Without it this raises CheckpointMismatch where nothing but a copy helps, and OSError where a table cannot be read.
        """

        def mended(folder: str) -> bool:
            role = role_of(folder)
            mine = generation.app_id(role)
            before = min([0 if last is None else last.batch_id, *parked.get(folder, ())])

            def synced(app_id: str, number: int) -> bool:
                # Into a table of events one pipeline writes after the other, and each began when all of the one before was safe.
                return number < before if app_id == mine else role == "events" and app_id.endswith(f"/{role}")

            place = self._tables.place(folder)
            try:
                with undamaged(f"the log of table {place}", "restore the table from a copy, or move it away"):
                    return bool(mend(place, synced))
            except (PipelineError, OSError) as error:
                if passed_over is None:
                    raise
                passed_over(folder, error)
                return False

        with ThreadPoolExecutor(self._tables.threads) as pool:
            found = list(folders)
            return {folder for folder, lost in zip(found, pool.map(mended, found), strict=True) if lost}

    def given(self, log: CommitLog) -> Given:
        """What the log says that tables were given, for whoever holds them against that."""
        return Given(log, self._resolutions, self._tables)

    def was_put_back(self, last: int, found: PutBack, lacking: Container[str]) -> CommitImpossible:
        """The error for tables that were, noted for `distributary resolve` to decide about the newest batch that they lack.

        That is `last` for those that are `lacking` the newest batch of all as well, which are named first then.
        """
        first = [folder for folder in found.newest if folder in lacking]
        named = first or list(found.newest)
        error = CommitImpossible(
            f"table {self._tables.place(named[0])} has batch {found.newest[named[0]]} as its newest one, and batch {found.number} was in it, too: it "
            "was put back from an older copy, or a disk lost what it had. Restore the newest copy of it; or let `distributary resolve` go on without "
            "those batches (--skip), and see with `distributary verify` what it lacks",
            tuple(dict.fromkeys(found.tables[folder] for folder in named)),
        )
        # Each parked table is asked alone, and others may lack the same batch.
        self._stuck.add(last if first else found.number, error)
        return error

    def is_overwritten(self, manifest: Manifest) -> bool:
        """Whether another writer's entry took the place of a batch's in one of its tables."""
        found = {
            table.folder
            for table in manifest.tables
            if any(self._native.is_overwritten(self._tables.place(folder)) for folder in table.parts)
        }
        return bool(found) and not found <= self._resolutions.skipped(manifest.batch_id)

    def finish(
        self,
        manifest: Manifest,
        spark: SparkSession | None,
        before: int | None = None,
        *,
        fresh: bool = False,
        parked: ParkedTables | None = None,
    ) -> None:
        """Raises CommitImpossible where a table can never take its files, and `distributary resolve` then decides.

        `before` is the newest batch that the log had before this one, `fresh` whether the manifest was written just now. With
        `parked` a table of events that cannot is parked instead, before the ledger says that all tables are complete. Raises
        TableAhead where a table has yet another.
        """
        done: list[TableCommit] = []
        # Of a batch that was just decided nobody has decided anything else, and nothing was written down.
        skipped = frozenset() if fresh else self._resolutions.skipped(manifest.batch_id)
        for roles in _ORDER:
            if roles == _ORDER[-1]:
                failpoints.reach(failpoints.BEFORE_LEDGER, manifest.batch_id)
                self._commit([one for one in done if self._is_overwritten(one)], spark)
                manifest = self._with_late_row(manifest, done, fresh)
            waits = frozenset() if parked is None else parked.waiting(manifest.batch_id)
            commits = [
                self._commit_of(table, manifest, before, fresh)
                for table in manifest.tables
                if table.role in roles and table.folder not in skipped | waits
            ]
            # What is nobody's is never parked, whatever its commits are called by.
            may_park = frozenset(table.folder for table in manifest.tables if table.role == "events")
            done += self._commit_or_park(commits, spark, parked, may_park)
        if not fresh and (parked is None or not parked.waiting(manifest.batch_id)):
            self._stuck.clear(manifest.batch_id)

    def _is_overwritten(self, one: TableCommit) -> bool:
        return any(self._native.is_overwritten(part.place) for part in one.parts)

    def bring_in(self, manifest: Manifest, folder: str, spark: SparkSession | None, before: int) -> None:
        """Commit what waits for one of a batch's tables. Raises as `finish`."""
        commit = self._commit_of(manifest.table(folder), manifest, before, fresh=False)
        self._commit([commit], spark, self._stuck.add)

    def leaves_out(self, batch_id: int, folder: str) -> bool:
        """Whether a table is to go without a batch."""
        return folder in self._resolutions.skipped(batch_id)

    def brought_in(self, batch_id: int, folder: str) -> None:
        """Note in a log that nobody writes any more that a table has what waited for it, and is not to get it once more."""
        self._resolutions.skip(batch_id, folder)

    def cleared(self, batch_id: int) -> None:
        """Nothing of a batch waits any more."""
        self._stuck.clear(batch_id)

    def _with_late_row(self, manifest: Manifest, done: Sequence[TableCommit], fresh: bool) -> Manifest:
        """With the ledger's row as a file that is there, where it had to wait for what commits say became of their rows."""
        if manifest.late_row is None:
            return manifest
        table = manifest.table(BATCHES_TABLE)
        if not fresh and is_in(self._tables.newest_batch(table.folder, table.app_id), manifest.batch_id):
            return manifest
        waited_for = sum(one.merging is not None for one in manifest.tables)
        counts = self._merged(done, waited_for)
        made = [self._native.made(one) for one in done if one.merge is not None]
        row = {
            **manifest.late_row,
            "files": manifest.late_row["files"] + sum(one.count for one in made),
            "bytes": manifest.late_row["bytes"] + sum(one.bytes for one in made),
        }
        name, columns = table.files[0].name, table.layout.columns
        file = late_file(self._tables.root, name, row, counts, columns)
        self._tables.root.sync([f"{table.folder}/{file.name}"])
        others = (one for one in manifest.tables if one.folder != BATCHES_TABLE)
        return replace(manifest, tables=(*others, replace(table, files=(file,))))

    def _merged(self, done: Sequence[TableCommit], tables: int) -> Mapping[str, int | None]:
        """What became of the rows that merges into so many tables staged, as their commits say, in the ledger's columns.

        None where one of them does not any more, or is not made: its table waits, or goes without. Raises SumsDisagree where a commit
        tells of more rows, or fewer, than were staged for it.
        """
        found = [(one, self._native.merged(one)) for one in done if one.merge is not None]
        for one, counts in found:
            staged = one.rows_staged
            if counts is not None and counts.staged != staged:
                raise SumsDisagree(
                    f"table {one.place}, batch {one.batch_id}: {staged} rows were staged, and its commit tells of {counts.staged}: "
                    f"{', '.join(f'{value} {name}' for name, value in asdict(counts).items())}. Keep the table and its log, and report it"
                )
        told = [counts for _, counts in found if counts is not None]
        if len(told) < tables:
            return dict.fromkeys(MERGED_ROWS)
        return {
            column: sum(getattr(counts, column.removeprefix("rows_")) for counts in told)
            for column in MERGED_ROWS
        }

    def _commit_or_park(
        self,
        commits: Sequence[TableCommit],
        spark: SparkSession | None,
        parked: ParkedTables | None,
        may_park: frozenset[str],
    ) -> Sequence[TableCommit]:
        """Those of these commits that were made; only tables that `may_park` are parked."""
        while True:
            try:
                self._commit(commits, spark)
                return commits
            except CommitImpossible as error:
                if parked is None or not (error.tables and may_park.issuperset(error.tables)):
                    raise
                _require_files([commit for commit in commits if commit.table in error.tables], error, parked)
                if not parked.park(commits[0].batch_id, error):
                    raise
                # Others may have failed beside it, of which no more was said.
                commits = [commit for commit in commits if commit.table not in error.tables]
            except OF_ONE_TABLE as error:
                stuck = None if parked is None else of_unreadable(commits, error, parked.unreadable)
                if parked is None or stuck is None or not may_park.issuperset(stuck.tables):
                    raise
                self._stuck.write(commits[0].batch_id, stuck)
                if not parked.park(commits[0].batch_id, stuck):
                    raise stuck from error
                commits = [commit for commit in commits if commit.table not in stuck.tables]

    def _commit_of(
        self, table: TableFiles, manifest: Manifest, before: int | None, fresh: bool
    ) -> TableCommit:
        told = commit_metadata(manifest, self._lineage)
        if table.merging is not None and not fresh:
            table = replace(table, merging=self._as_said_now(table.merging, manifest, table.folder))
        return self.table_commit(
            table, Transaction(table.app_id, manifest.batch_id, told, before), fresh=fresh
        )

    def _as_said_now(self, merging: Merging, manifest: Manifest, folder: str) -> Merging:
        """What becomes of keys that moved may be said after a batch was decided, which would stop each run otherwise."""
        entity = next((entity for entity, one in manifest.entities.items() if one == folder), None)
        upsert = None if entity is None else self._tables.made_with.spec_of(entity).upsert
        return merging if upsert is None else replace(merging, moved=upsert.moved)

    def _commit(
        self,
        commits: Sequence[TableCommit],
        spark: SparkSession | None,
        note: Callable[[int, CommitImpossible], None] | None = None,
    ) -> None:
        def committed(commit: TableCommit) -> None:
            failpoints.reach(failpoints.BETWEEN_COMMITS, commit.batch_id)

        try:
            for _ in range(_MOST_TIMES):
                done = commit_tables(spark, commits, self._tables.threads, committed, self._native)
                there = {table for table, new in done.items() if not new}
                # A row of the ledger that survives says that all before it does.
                commits = make_lasting(self._tables.root, commits, self._native, there)
                if not commits:
                    break
        except CommitImpossible as error:
            (note or self._stuck.write)(commits[0].batch_id, error)
            raise

    def table_commit(self, table: TableFiles, transaction: Transaction, *, fresh: bool) -> TableCommit:
        """What becomes part of a table, by which transaction."""
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
            merge=self.rule_of(table),
        )

    def rule_of(self, table: TableFiles) -> MergeRule | None:
        """By which rule a batch's rows become part of a table; None where each is added."""
        merging = table.merging
        if merging is None:
            return None
        order, told = Order(position_of(self._columns), merging.sequence, merging.moved), merging.deletes
        memory = self._tables.place(memory_folder(table.folder))
        found = None if told is None else Deletes(memory, table.deletes, told.mark, told.days, told.again)
        return MergeRule(merging.keys, order, merging.update, found, merging.history)


def _require_files(commits: Sequence[TableCommit], error: CommitImpossible, parked: ParkedTables) -> None:
    """Raises PipelineError, after which they are written again, where files that were to wait are gone: soon nobody can any more."""
    lost = [
        commit.table
        for commit in commits
        if any(_is_gone(part.place, file) for part in commit.parts for file in part.files)
    ]
    if lost and parked.parks:
        raise PipelineError(
            f"batch {commits[0].batch_id}: files of {', '.join(lost)} are gone, and are written again before they wait: {error}"
        ) from error


def _is_gone(place: Files, file: DataFile) -> bool:
    """Whether a file is known to be gone, which nobody can tell of a folder that cannot be read."""
    try:
        return place.info(file.name) is None
    except ConnectionError:
        raise
    except OSError:
        return False
