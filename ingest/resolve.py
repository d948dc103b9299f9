"""Deciding about commits that can never succeed: a table was dropped or altered by hand after its files were decided."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count
from typing import Literal

from deltalake.exceptions import DeltaError

from distributary.errors import CommitImpossible, ConfigError
from distributary.ingest.bronze.rule import KEEPS_PROPERTY
from distributary.ingest.checkpoint.folder import Checkpoint
from distributary.ingest.checkpoint.generation import read_generation
from distributary.ingest.checkpoint.manifest import Manifest, TableFiles
from distributary.ingest.checkpoint.manifests import ManifestStore, finished_manifest, finished_table
from distributary.ingest.checkpoint.stuck import Resolutions, StuckCommits
from distributary.ingest.columns.partitions import partition_columns
from distributary.ingest.columns.safe_names import BATCHES_TABLE, aside_prefix
from distributary.ingest.commit_log.reading import KeptLog
from distributary.ingest.kafka.columns import table_schema
from distributary.ingest.lease.holding import held
from distributary.ingest.lease.replaying import alone
from distributary.ingest.lease.upkeep_lock import no_upkeep
from distributary.ingest.merge.rule import MergeRule, Order, memory_folder, memory_schema, position_of
from distributary.ingest.settings.model import Settings
from distributary.ingest.settings.rule_book import TableSpec
from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.opening import open_files
from distributary.ingest.storage.posix import PosixFiles
from distributary.ingest.tables.change import LOG_RETENTION, create, log_retention
from distributary.ingest.tables.known import (
    ENTITY_PROPERTY,
    PIPELINE_PROPERTY,
    REMEMBERS_PROPERTY,
    MadeWith,
    folder_of_topics,
)
from distributary.ingest.tables.log import has_log
from distributary.ingest.tables.state_by_spark import path_for_spark
from distributary.ingest.tables.transaction import is_in, newest_batch

Choice = Literal["recreate", "skip", "skip_lost"]


@dataclass(frozen=True, slots=True)
class StuckTable:
    """A table that waits for a decision.

    batch_id  the batch that cannot be committed to it
    table     its folder
    rows      how many rows of the batch wait
    why       what happened to the table
    """

    batch_id: int
    table: str
    rows: int
    why: str


def stuck_tables(settings: Settings) -> list[StuckTable]:
    """The tables of a pipeline that wait for a decision: a run stopped with CommitImpossible because of them.

    >>> distributary.stuck_tables(settings)
    []
    """
    checkpoint = Checkpoint(open_files(settings.checkpoint, settings.storage))
    root = open_files(settings.sink.root, settings.storage)
    messages = {stuck.batch_id: stuck.message for stuck in StuckCommits(checkpoint).read()}
    parked = _parked(checkpoint, root, messages)
    known = {(one.batch_id, one.table) for one in parked}
    return [*parked, *(one for one in _stuck(checkpoint, root) if (one.batch_id, one.table) not in known)]


def _parked_batches(checkpoint: Checkpoint, folder: str) -> Sequence[int]:
    """The batches that wait for a table, or did when the log was last told so."""
    so_far = checkpoint.log.state().so_far
    return () if so_far is None else so_far.parked.get(folder, ())


def _stuck(checkpoint: Checkpoint, root: Files) -> Iterator[StuckTable]:
    """The tables of the batch that a run stopped for."""
    for stuck in StuckCommits(checkpoint).read():
        manifest = ManifestStore(checkpoint).read(stuck.batch_id)
        skipped = Resolutions(checkpoint).skipped(stuck.batch_id)
        for table in manifest.tables if manifest else ():
            waits = stuck.may_wait(table.folder) and table.folder not in skipped
            if waits and not _has(root, table, stuck.batch_id):
                yield StuckTable(stuck.batch_id, table.folder, table.rows, stuck.message)


def _parked(checkpoint: Checkpoint, root: Files, messages: Mapping[int, str]) -> list[StuckTable]:
    """What waits for the tables that are parked, table by table and batch by batch."""
    state, log = checkpoint.log.state(), KeptLog(checkpoint.files)
    parked = {} if state.so_far is None else state.so_far.parked
    newest = {
        folder: _newest(root, finished_table(log, numbers[0], folder)[0].table(folder))
        for folder, numbers in parked.items()
    }
    there: dict[str, frozenset[str]] = {}
    found = list[StuckTable]()
    # Each batch is read once for all tables.
    for number in sorted({number for numbers in parked.values() for number in numbers}):
        skipped = Resolutions(checkpoint).skipped(number)
        for folder, numbers in parked.items():
            if number not in numbers or folder in skipped or is_in(newest[folder], number):
                continue
            table = finished_table(log, number, folder)[0].table(folder)
            why = messages.get(number, f"it waits behind batch {numbers[0]}")
            with suppress(OSError):  # of a folder that cannot be read nobody knows what is gone
                there[folder] = there.get(folder) or _files_of(root, folder)
                known = (there[folder], _remembered(root, table))
                names = (file.name for part in table.parts.values() for file in part)
                gone = [name for name in names if not any(name in one for one in known)]
                why = f"{why}; and file {gone[0]} is gone" if gone and gone[0] not in why else why
            found.append(StuckTable(number, folder, table.rows, why))
    return sorted(found, key=lambda one: (one.table, one.batch_id))


def resolve(settings: Settings, table: str, choice: Choice) -> StuckTable:
    """Decide about one stuck table; the next run goes on with it.

    settings  the pipeline's
    table     the table's folder, as `stuck_tables` names it
    choice    `recreate` puts what is there aside and makes the table anew, empty, to take the rows that wait; `skip` goes on
              without these rows in it, `skip_lost` without those of batches whose files are gone, as by `VACUUM`

    Of a parked table that is about all batches that wait for it; the next run brings them in, the oldest first. One that was put back from an
    older copy meanwhile is to go without what it lacks first: `skip` is about that alone, `skip_lost` about that, too. Returns what was
    decided about: the first of these batches, with the rows of all. Raises ConfigError for a table that does not wait, for one in a store
    that is there still: no store renames a folder in one step; and where no file is gone that was to be. LeaseHeld while a run is alive, or a table is to be put
    aside while a replay is, and PipelineError where a table is to be put aside while upkeep is under way.
    """
    checkpoint = Checkpoint(open_files(settings.checkpoint, settings.storage))
    with held(checkpoint, settings.name):
        waiting = stuck_tables(settings)
        mine = [stuck for stuck in waiting if stuck.table == table]
        if not mine:
            known = ", ".join(sorted({stuck.table for stuck in waiting})) or "none"
            raise ConfigError(f"table {table} does not wait for a decision; those that do: {known}")
        root = open_files(settings.sink.root, settings.storage)
        back = _put_back(checkpoint, mine)
        if choice == "skip":
            mine = back or mine
        if choice == "skip_lost":
            rest = [stuck for stuck in mine if stuck not in back]
            mine = [*back, *_without_files(checkpoint, root, table, rest)]
            if not mine:
                raise ConfigError(f"table {table}: none of the files that wait for it is gone")
        numbers = [stuck.batch_id for stuck in mine]
        if choice != "recreate":
            for number in numbers:
                Resolutions(checkpoint).skip(number, table)
        else:
            _require_undone(checkpoint, root, table, numbers)
            manifests = [_manifest(checkpoint, number, table) for number in numbers]
            # A replay beside a run that has ended since would commit to the log of the new table, beyond its end.
            with alone(checkpoint), no_upkeep(root):
                # What came in of what waited goes aside with the table, its files with it.
                for number in _parked_batches(checkpoint, table):
                    if number not in numbers:
                        Resolutions(checkpoint).skip(number, table)
                _recreate(root, settings, _made_with(settings, checkpoint), manifests, table)
        return replace(mine[0], rows=sum(stuck.rows for stuck in mine))


def _put_back(checkpoint: Checkpoint, waiting: Sequence[StuckTable]) -> list[StuckTable]:
    """Those of a parked table's batches that were in it until it was put back from a copy: without them it can take what waits."""
    parked = _parked_batches(checkpoint, waiting[0].table)
    return [stuck for stuck in waiting if parked and stuck.batch_id < parked[0]]


def _require_undone(checkpoint: Checkpoint, root: Files, table: str, numbers: Sequence[int]) -> None:
    """Raises ConfigError for a batch that no run comes back to: one that was in all its tables, until this one was put back from a copy."""
    parked = _parked_batches(checkpoint, table)
    ledgers = [
        (number, one)
        for number in numbers
        for one in _manifest(checkpoint, number, table).tables
        if one.folder == BATCHES_TABLE != table
    ]
    if any(number not in parked and is_in(_newest(root, ledger), number) for number, ledger in ledgers):
        raise ConfigError(
            f"table {table} was put back from an older copy; made anew it would lack all that it has as well. Restore its newest copy, or go on "
            "without what it lacks (`--skip`)"
        )


def _without_files(
    checkpoint: Checkpoint, root: Files, folder: str, waiting: Sequence[StuckTable]
) -> list[StuckTable]:
    """Those of a table's batches that wait of which a file is gone."""
    there, found = _files_of(root, folder), list[StuckTable]()
    for stuck in waiting:
        table = _manifest(checkpoint, stuck.batch_id, folder).table(folder)
        there |= _remembered(root, table)
        if any(file.name not in there for part in table.parts.values() for file in part):
            found.append(stuck)
    return found


def _files_of(root: Files, folder: str) -> frozenset[str]:
    """The names of the files that wait for a table, or of what was put aside of it."""
    folders = [folder, *(one for one in root.folders() if one.startswith(aside_prefix(folder)))]
    return frozenset(name for one in folders for name in root.names(one))


def _remembered(root: Files, table: TableFiles) -> frozenset[str]:
    """The names of the files in what remembers a table's deletes; of a batch that has none nobody asks."""
    return frozenset(root.names(memory_folder(table.folder))) if table.deletes else frozenset()


def _manifest(checkpoint: Checkpoint, number: int, folder: str) -> Manifest:
    entry = checkpoint.log.entry(number)
    manifest = (
        ManifestStore(checkpoint).read(number)
        if entry is None
        else finished_manifest(checkpoint.log, number)[0]
    )
    if manifest is None:
        raise ConfigError(f"table {folder}: the manifest of its batch is gone; restore it")
    return manifest


def _made_with(settings: Settings, checkpoint: Checkpoint) -> MadeWith:
    """What a run makes tables with: rows that take the place of others need tables that were made for it."""
    generation = read_generation(checkpoint, with_log=True)
    return MadeWith(
        {LOG_RETENTION: log_retention(settings.sink.log_retention_days)},
        settings.rule_book().of,
        {} if generation is None else generation.world.topics,
        folder_of_topics(settings.route),
        settings.decode.key == "auto",
    )


def _recreate(
    root: Files, settings: Settings, made_with: MadeWith, manifests: Sequence[Manifest], folder: str
) -> None:
    # Each batch came with the columns of those before it.
    manifest = manifests[-1]
    table = manifest.table(folder)
    ours = table.role != "events"
    schema = table.layout.columns if ours else table_schema(settings.sink.columns, table.layout)
    entity = next((entity for entity, its in manifest.entities.items() if its == folder), None)
    own, spec = {PIPELINE_PROPERTY: settings.name}, TableSpec()
    if table.role == "bronze":
        own[KEEPS_PROPERTY] = "true"
    if entity is not None:
        own, spec = {**own, ENTITY_PROPERTY: entity}, made_with.spec_of(entity)
    waiting = [one.table(folder) for one in manifests]
    partitions = _partitions(settings, spec, waiting)
    _require_taken(root, spec, partitions, waiting)
    _put_aside(root, folder)
    create(
        root.below(folder),
        schema,
        made_with.whole(folder, spec, own),
        comment=spec.comment or "",
        partitions=partitions,
        cluster_by=spec.cluster_by,
    )
    merging = table.merging
    if merging is not None and merging.deletes is not None:
        # What it remembers stays, as long as it is there: by that no row comes back which was deleted.
        order = Order(position_of(settings.sink.columns), merging.sequence)
        by = MergeRule(merging.keys, order, history=merging.history)
        told = {PIPELINE_PROPERTY: settings.name, REMEMBERS_PROPERTY: folder}
        create(root.below(memory_folder(folder)), memory_schema(by, schema), told)
    if not isinstance(root, PosixFiles):
        return
    # Whoever said this before may have died when the table was aside, and its files were.
    asides = [one for one in root.folders() if one.startswith(aside_prefix(folder))]
    for file in (file for one in manifests for file in one.table(folder).files):
        any(root.rename(f"{aside}/{file.name}", f"{folder}/{file.name}") for aside in asides)


def _partitions(settings: Settings, spec: TableSpec, waiting: Sequence[TableFiles]) -> tuple[str, ...]:
    """What a table made anew is partitioned by: what the settings say, or else as what waits for it, whose deletes do not tell."""
    by = partition_columns(spec.partition_by, waiting[-1].layout.columns, settings.sink.columns.kafka_date)
    if by and len(by) == len(spec.partition_by):
        return by
    return next((table.partitions for table in reversed(waiting) if table.files), ())


def _require_taken(
    root: Files, spec: TableSpec, partitions: Sequence[str], waiting: Sequence[TableFiles]
) -> None:
    """Raises ConfigError where a table partitioned so could never take what waits for it: as files alone, which are told apart otherwise."""
    table = next((one for one in waiting if one.files and set(one.partitions) != set(partitions)), None)
    if table is None:
        return
    if not table.merging:
        # Spark's writer takes their rows, where it may write.
        with suppress(CommitImpossible):
            path_for_spark(root.below(table.folder))
            return
    raise ConfigError(
        f"table {table.folder}: the files that wait for it are partitioned by {', '.join(table.partitions) or 'nothing'}, and {spec.setting}."
        f"partition_by says {', '.join(spec.partition_by) or 'nothing'}: made anew by that it could never take them. Write partition_by as it "
        "was until they are in, or go on without them (`--skip`); nothing was changed"
    )


def _put_aside(root: Files, folder: str) -> None:
    """What a user may want back is never removed."""
    if isinstance(root, PosixFiles):
        # Another one may have been put aside within the second, or before the clock was set back.
        there = set(root.folders())
        names = (f"{aside_prefix(folder)}{number}" for number in count(int(time.time())))
        root.rename(folder, next(name for name in names if name not in there))
        return
    if has_log(root.below(folder)):
        raise ConfigError(
            f"table {folder}: only a folder of a POSIX file system is put aside by this; move {root.below(folder).url} away, or "
            "delete it, with your store's own tools, then say this again"
        )


def _has(root: Files, table: TableFiles, number: int) -> bool:
    """Whether a batch is in a table, and in what remembers its deletes if it has any."""
    return all(is_in(_newest(root, table, folder), number) for folder in table.parts)


def _newest(root: Files, table: TableFiles, folder: str = "") -> int | None:
    """The newest batch in a table, or in what remembers its deletes, by that folder; None also where nobody can tell."""
    try:
        return newest_batch(root.below(folder or table.folder), table.app_id)
    except (DeltaError, OSError):
        return None
