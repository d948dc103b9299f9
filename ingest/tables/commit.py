"""Committing the files of many tables at once, each table on its own way, with nobody left out because another failed."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from typing import TYPE_CHECKING

from deltalake.exceptions import DeltaError
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from distributary.errors import CommitImpossible, DistributaryError, PipelineError
from distributary.ingest.log_paths import entry_path
from distributary.ingest.spark.error_classes import named
from distributary.ingest.storage.contract import Files
from distributary.ingest.tables.change import evolve
from distributary.ingest.tables.log import write_again
from distributary.ingest.tables.log_checkpoint import take_away_untold
from distributary.ingest.tables.log_commit import NativeCommits
from distributary.ingest.tables.spark_commit import commit_by_writer
from distributary.ingest.tables.state_by_spark import path_for_spark
from distributary.ingest.tables.transaction import (
    LacksColumns,
    LacksPartitions,
    TableCommit,
    TakesNoFiles,
    is_in,
)
from distributary.values import without_logins

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger(__name__)

# What a table that nobody can open may be met by: whether it is one, that table is asked itself.
OF_ONE_TABLE = (
    PipelineError,
    DeltaError,
    OSError,
    Py4JJavaError,
    PySparkException,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
)


def commit_tables(
    spark: SparkSession | None,
    commits: Sequence[TableCommit],
    threads: int,
    on_commit: Callable[[TableCommit], None] | None = None,
    native: NativeCommits | None = None,
) -> dict[str, bool]:
    """Commits every table and answers for each whether it was new (False: it was in already).

    `native` remembers tables from one batch to the next. `on_commit` is called after each table, in the caller's thread; an error of its own ends the work. A table that
    fails keeps no other from its commit. Then CommitImpossible is raised if there is one, naming every table
    concerned; else the first error, to be tried again.
    """
    done: dict[str, bool] = {}
    errors: list[Exception] = []
    work = _Worker(spark, native or NativeCommits())
    with ThreadPoolExecutor(max(threads, 1), thread_name_prefix="commit") as pool:
        running = {pool.submit(work.commit, commit): commit for commit in commits}
        try:
            for future in as_completed(running):
                _note(future, running[future], done, errors, on_commit)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
    _raise_worst(errors)
    return done


def make_lasting(
    root: Files, commits: Sequence[TableCommit], native: NativeCommits, there: Container[str] = ()
) -> list[TableCommit]:
    """Let commits survive a loss of power; those that are not there any more, as another writer's entry took the place of theirs.

    `there` are the tables that had theirs already: it may be what a sync failed for, and is put anew, with those of other pipelines
    that were synced beside it: they are not told that it failed.
    """
    if root.remote:
        return []
    # What delta-rs cannot open Spark has committed, and that is safe already.
    parts = [part for one in commits for part in one.parts]
    looked_at = [one for one in parts if native.has_seen(one.place)]
    found = {one.table: native.entry_of(one) for one in looked_at}
    paths: list[str] = []
    shared: list[str] = []
    for one in looked_at:
        if (version := found[one.table]) is not None:
            # What others committed since is behind ours then, and nobody would look at it again.
            fellows = native.fellows(one, version)
            entries = [f"{one.table}/{entry_path(number)}" for number in [version, *(fellows or ())]]
            # Of a merge, what its entry is the first to name.
            entries += [] if one.merge is None else native.files_of(one, version)
            paths += entries
            shared += [one.table] if fellows is None else []
            # What remembers deletes may have had its part before a crash, whatever its table had.
            if one.table in there or not (one.fresh or one in commits):
                write_again(root, entries)
                native.forget(one.place)
    root.sync(paths)
    # Such as a compaction, whose files nobody has synced.
    root.sync_folders(shared)
    gone = {one.table for one in looked_at if found[one.table] is None}
    for one in looked_at:
        if one.table in gone:
            native.forget(one.place, replaced=True)
            if is_in(native.newest(one.place, one.app_id), one.batch_id):
                # By a checkpoint alone.
                take_away_untold(one.place, one.app_id, one.batch_id)
                native.forget(one.place)
    return [one for one in commits if not gone.isdisjoint(part.table for part in one.parts)]


def of_unreadable(
    commits: Sequence[TableCommit],
    error: Exception,
    unreadable: Callable[[Iterable[str]], Mapping[str, str]],
) -> CommitImpossible | None:
    """The error of those tables that nobody can open any more, by what `unreadable` says, if by that a commit failed; None where it did by something else."""
    if is_for_all(error):
        return None
    folders = {part.table: commit for commit in commits for part in commit.parts}
    stuck = {
        folders[folder].table: folders[folder].impossible(f"nobody can open it ({why})")
        for folder, why in unreadable(folders).items()
    }
    return CommitImpossible("\n".join(map(str, stuck.values())), tuple(stuck)) if stuck else None


def is_for_all(error: Exception) -> bool:
    """Whether an error that a table was met with is not of that table alone: the place of all does not answer, or the run is to end."""
    if isinstance(error, CommitImpossible):
        return False
    ends = isinstance(error, DistributaryError) and (error.fatal or not isinstance(error, PipelineError))
    return ends or isinstance(error, (ConnectionError, TimeoutError))


class _Worker:
    """Commits a table in whatever thread it is called, with one Spark session a thread: sessions share settings."""

    def __init__(self, spark: SparkSession | None, native: NativeCommits) -> None:
        self._spark, self._native, self._own = spark, native, threading.local()

    def commit(self, one: TableCommit) -> bool:
        if one.merge is not None:
            return self._merge(one)  # the writer would append its rows
        if not one.native and not _is_spark_kept_out(one):
            return commit_by_writer(self._session(one), one)
        try:
            return self._by_entry(one)
        except TakesNoFiles:
            if self._spark is None or _is_spark_kept_out(one):
                raise
            # Altered since its files were decided: the writer takes their rows, unless one of them does not meet what is asked now.
            return commit_by_writer(self._session(one), one)

    def _merge(self, one: TableCommit) -> bool:
        """With its deletes remembered before: a late record that they are to keep out may be of the next batch, or of another table's."""
        *before, _ = one.parts
        try:
            for part in before:
                self._by_entry(part)
        except CommitImpossible as error:
            # It is the table that waits, with all that is to be remembered of it.
            error.tables = (one.table,)
            raise
        return self._by_entry(one)

    def _by_entry(self, one: TableCommit) -> bool:
        try:
            return self._native.commit(one)
        except LacksColumns as error:
            # One that has nothing of this pipeline's is another table by now; but partitions are for whoever has the first row.
            others = self._native.newest(one.place, one.app_id) is None
            if others and not isinstance(error, LacksPartitions):
                raise
            # They were there when the batch was decided: another writer's entry took the place of theirs.
            evolve(one.place, one.schema, self._spark, partitions=one.partitions)
            one.place.sync_folders([""])
            self._native.forget(one.place)
            return self._native.commit(one)

    def _session(self, one: TableCommit) -> SparkSession:
        if self._spark is None:
            raise ValueError(
                f"table {one.table} is committed by Spark's writer, and no Spark session was given"
            )
        if not hasattr(self._own, "spark"):
            self._own.spark = self._spark.newSession()
        session: SparkSession = self._own.spark
        return session


def _is_spark_kept_out(one: TableCommit) -> bool:
    """Whether Spark's writer may never write to a table: it was altered since its files were begun, and either takes them as it is by now or is told of."""
    try:
        path_for_spark(one.place)
    except CommitImpossible:
        return True
    return False


def _note(
    future: Future[bool],
    commit: TableCommit,
    done: dict[str, bool],
    errors: list[Exception],
    on_commit: Callable[[TableCommit], None] | None,
) -> None:
    error = future.exception()
    if error is None:
        done[commit.table] = future.result()
        if on_commit is not None:
            on_commit(commit)
    elif isinstance(error, Exception):
        _log.error(
            "table %s, batch %s: %s",
            commit.table,
            commit.batch_id,
            named(error) or without_logins(str(error)),
        )
        if isinstance(error, CommitImpossible):
            # What keeps Spark from any table does not know of which one it was asked.
            error.tables = error.tables or (commit.table,)
        errors.append(error)
    else:
        raise error


def _raise_worst(errors: Sequence[Exception]) -> None:
    lasting = [error for error in errors if isinstance(error, CommitImpossible)]
    if len(lasting) > 1:
        tables = tuple(table for error in lasting for table in error.tables)
        raise CommitImpossible("\n".join(str(error) for error in lasting), tables) from lasting[0]
    for error in [*lasting, *errors]:
        raise error
