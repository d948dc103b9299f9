"""Appending files to a Delta table by an entry in its log: one transaction id a batch, so a repeat changes nothing.

delta-rs reads the table and says what it is; the entry is written here. Its own commit reads and keeps the whole
list of files, so that it costs more with every commit a table has had; this one costs the same at any age.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from distributary.errors import CommitImpossible, PipelineError
from distributary.ingest.columns.differences import differences
from distributary.ingest.parquet.data_file import DataFile
from distributary.ingest.tables.log import append_actions, entry_path, put_entry
from distributary.ingest.tables.state import Path, TableState, state_of

_log = logging.getLogger(__name__)

_ATTEMPTS = 20

# Delta's own default where a table does not say.
_CHECKPOINT_INTERVAL = 100


@dataclass(slots=True)
class _Seen:
    """A table at one version. `entry` tells that version's log file from another one of the same name."""

    state: TableState
    entry: tuple[int, int] | None
    handle: DeltaTable | None
    own: dict[str, int] = field(default_factory=dict)

    def transaction(self, app_id: str) -> int | None:
        """The newest version of an application's transactions: ours since we looked, else what was there."""
        known = self.own.get(app_id)
        if known is None and self.handle is not None:
            return self.handle.transaction_version(app_id)
        return known


class NativeCommits:
    """Commits to many tables. A table is read when it is met, and again only when somebody else has changed it."""

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}

    def commit(  # noqa: PLR0913, PLR0917 - one value each of what a commit is
        self,
        path: Path,
        files: Sequence[DataFile],
        schema: pa.Schema,
        app_id: str,
        batch_id: int,
        metadata: Mapping[str, str],
    ) -> bool:
        """Makes the files part of the table under the transaction (app_id, batch_id); False when it was in already.

        `schema` is that of the files. The entry is the version after the one that was checked, so a rival in between
        makes the attempt start again, checks included. Raises CommitImpossible where repeating can never help.
        """
        folder = os.fspath(path)
        for _ in range(_ATTEMPTS):
            seen = self._checked(folder, batch_id)
            known = seen.transaction(app_id)
            if known is not None and known >= batch_id:  # 0 is a version
                return False
            _require_fit(seen.state, schema, folder, batch_id)
            found = [(file, require_file(folder, file, batch_id)) for file in files]
            if put_entry(folder, seen.state.version + 1, append_actions(found, app_id, batch_id, metadata)):
                self._advance(folder, seen, app_id, batch_id)
                return True
            del self._seen[folder]
        raise PipelineError(
            f"table {folder}, batch {batch_id}: {_ATTEMPTS} times another writer was first; it is tried again"
        )

    def state(self, path: Path) -> TableState:
        """What the table is now. Raises TableNotFoundError, and other DeltaErrors where delta-rs cannot open it."""
        return self._look(os.fspath(path)).state

    def known(self, path: Path) -> TableState | None:
        """What the table is now if that can be told without opening it, which is nearly always."""
        seen = self._seen.get(folder := os.fspath(path))
        return seen.state if seen is not None and _is_newest(folder, seen) else None

    def created(self, state: TableState) -> None:
        """Take note of a table that was just made, so that it need not be opened."""
        self._seen[state.path] = _Seen(state, _identity(state.path, state.version), None)

    def _look(self, folder: str) -> _Seen:
        seen = self._seen.get(folder)
        if seen is None or not _is_newest(folder, seen):
            seen = self._seen[folder] = _look_at(folder)
        return seen

    def _checked(self, folder: str, batch_id: int) -> _Seen:
        try:
            return self._look(folder)
        except TableNotFoundError:
            raise impossible(folder, batch_id, "there is no Delta table any more") from None

    def _advance(self, folder: str, seen: _Seen, app_id: str, batch_id: int) -> None:
        seen.state = replace(seen.state, version=seen.state.version + 1)
        seen.own[app_id] = batch_id
        seen.entry = _identity(folder, seen.state.version)
        interval = int(seen.state.properties.get("delta.checkpointInterval", _CHECKPOINT_INTERVAL))
        if seen.state.version % interval == 0:
            _checkpoint(folder)


def impossible(path: Path, batch_id: int, why: str) -> CommitImpossible:
    """The error for a table that can never take its files of this batch."""
    return CommitImpossible(
        f"table {os.fspath(path)} cannot take its files of batch {batch_id}: {why}. Put that right and run again, "
        "or let `distributary resolve` decide what becomes of them"
    )


def require_file(path: Path, file: DataFile, batch_id: int) -> os.stat_result:
    """The file's status; CommitImpossible where it is gone or has another size than when it was written."""
    try:
        status = os.stat(os.path.join(path, file.name))
    except FileNotFoundError:
        raise impossible(path, batch_id, f"file {file.name} is gone") from None
    if status.st_size != file.bytes:
        raise impossible(
            path, batch_id, f"file {file.name} has {status.st_size} bytes, not {file.bytes} as written"
        )
    return status


def require_columns(path: Path, table: pa.Schema, files: pa.Schema, batch_id: int) -> None:
    """CommitImpossible where the files have columns that the table lacks or holds with another type."""
    if found := [str(one) for one in differences(table, files)]:
        raise impossible(path, batch_id, "; ".join(found))


def _look_at(folder: str) -> _Seen:
    handle = DeltaTable(folder)
    return _Seen(state_of(handle, folder), _identity(folder, handle.version()), handle)


def _require_fit(state: TableState, schema: pa.Schema, path: Path, batch_id: int) -> None:
    if not state.native:
        raise impossible(path, batch_id, f"it does not take files as they are any more ({state.why_not})")
    require_columns(path, state.layout, schema, batch_id)


def _is_newest(folder: str, seen: _Seen) -> bool:
    """Looking for the next log entry costs microseconds; a table made anew has another file by this name."""
    same = seen.entry is not None and _identity(folder, seen.state.version) == seen.entry
    return same and not os.path.exists(entry_path(folder, seen.state.version + 1))


def _identity(folder: str, version: int) -> tuple[int, int] | None:
    """What tells a log entry from every other file; None where it was cleaned up after a checkpoint."""
    try:
        status = os.stat(entry_path(folder, version))
    except FileNotFoundError:
        return None
    return (status.st_ino, status.st_mtime_ns)


def _checkpoint(folder: str) -> None:
    """Readers open faster with it; the commit is in without it, and so never fails for it."""
    try:
        DeltaTable(folder).create_checkpoint()
    except (DeltaError, OSError) as error:
        _log.warning("table %s: no checkpoint was written (%s); the next one will do", folder, error)
