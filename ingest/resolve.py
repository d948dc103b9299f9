"""Deciding about commits that can never succeed: a table was dropped or altered by hand after its files were decided."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Literal

from deltalake.exceptions import DeltaError

from distributary.errors import ConfigError
from distributary.ingest.checkpoint.folder import Checkpoint
from distributary.ingest.checkpoint.manifest import Manifest, TableFiles
from distributary.ingest.checkpoint.manifests import ManifestStore
from distributary.ingest.checkpoint.stuck import Resolutions, StuckCommits
from distributary.ingest.kafka.columns import table_schema
from distributary.ingest.lease.holding import held
from distributary.ingest.settings.groups import Columns
from distributary.ingest.settings.model import Settings
from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.opening import open_files
from distributary.ingest.storage.posix import PosixFiles
from distributary.ingest.tables.change import create
from distributary.ingest.tables.known import ENTITY_PROPERTY
from distributary.ingest.tables.log import has_log
from distributary.ingest.tables.transaction import is_committed

Choice = Literal["recreate", "skip"]


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
    found = []
    for stuck in StuckCommits(checkpoint).read():
        manifest = ManifestStore(checkpoint).read(stuck.batch_id)
        skipped = Resolutions(checkpoint).skipped(stuck.batch_id)
        for table in manifest.tables if manifest else ():
            waits = stuck.may_wait(table.folder) and table.folder not in skipped
            if waits and not _is_in(root, table, stuck.batch_id):
                found.append(StuckTable(stuck.batch_id, table.folder, table.rows, stuck.message))
    return found


def resolve(settings: Settings, table: str, choice: Choice) -> StuckTable:
    """Decide about one stuck table; the next run goes on with it.

    settings  the pipeline's
    table     the table's folder, as `stuck_tables` names it
    choice    `recreate` puts what is there aside and makes the table anew, empty, to take this batch's rows; `skip` goes on
              without this batch's rows in it

    Returns what was decided about. Raises ConfigError for a table that does not wait, and for one in a store
    that is there still: no store renames a folder in one step. LeaseHeld while a run is alive.
    """
    checkpoint = Checkpoint(open_files(settings.checkpoint, settings.storage))
    with held(checkpoint, settings.name):
        waiting = {stuck.table: stuck for stuck in stuck_tables(settings)}
        if table not in waiting:
            known = ", ".join(sorted(waiting)) or "none"
            raise ConfigError(f"table {table} does not wait for a decision; those that do: {known}")
        stuck = waiting[table]
        if choice == "skip":
            Resolutions(checkpoint).skip(stuck.batch_id, table)
        else:
            root = open_files(settings.sink.root, settings.storage)
            _recreate(root, settings.sink.columns, ManifestStore(checkpoint).read(stuck.batch_id), table)
        return stuck


def _recreate(root: Files, columns: Columns, manifest: Manifest | None, folder: str) -> None:
    if manifest is None:
        raise ConfigError(f"table {folder}: the manifest of its batch is gone; restore it")
    table = next(table for table in manifest.tables if table.folder == folder)
    before = _put_aside(root, folder)
    ours = table.role != "events"
    schema = table.layout.columns if ours else table_schema(columns, table.layout)
    entity = next((entity for entity, its in manifest.entities.items() if its == folder), None)
    create(root.below(folder), schema, {ENTITY_PROPERTY: entity} if entity is not None else {})
    if before is not None and isinstance(root, PosixFiles):
        for file in table.files:
            root.rename(f"{before}/{file.name}", f"{folder}/{file.name}")


def _put_aside(root: Files, folder: str) -> str | None:
    """Where the old table is now; what a user may want back is never removed."""
    if isinstance(root, PosixFiles):
        aside = f".{folder}.replaced-{int(time.time())}"
        return aside if root.rename(folder, aside) else None
    if has_log(root.below(folder)):
        raise ConfigError(
            f"table {folder}: only a folder of a POSIX file system is put aside by this; move {root.below(folder).url} away, or "
            "delete it, with your store's own tools, then say this again"
        )
    return None


def _is_in(root: Files, table: TableFiles, batch_id: int) -> bool:
    try:
        return is_committed(root.below(table.folder), table.app_id, batch_id)
    except DeltaError:
        return False
