"""Appending files to a Delta table by an entry in its log: one transaction id a batch, so a repeat changes nothing.

delta-rs reads the table and says what it is; the entry is written here. Its own commit reads and keeps the whole
list of files, so that it costs more with every commit a table has had; this one costs the same at any age.
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass, field, replace
from typing import Any

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from distributary.errors import PipelineError
from distributary.ingest.tables.handle import opened
from distributary.ingest.tables.log import append_actions, entry_info, put_entry
from distributary.ingest.tables.state import Path, TableState, state_of
from distributary.ingest.tables.transaction import TableCommit, is_in

_log = logging.getLogger(__name__)

_ATTEMPTS = 20

# Delta's own default where a table does not say.
_CHECKPOINT_INTERVAL = 100


@dataclass(slots=True)
class _Seen:
    """A table at one version. `entry` tells that version's log file from another one of the same name."""

    state: TableState
    entry: str | None
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

    def commit(self, one: TableCommit) -> bool:
        """Makes the files part of the table under the transaction (app_id, batch_id); False when it was in already.

        The entry is the version after the one that was checked, so a rival in between makes the attempt start again,
        checks included. Raises CommitImpossible where repeating can never help.
        """
        for _ in range(_ATTEMPTS):
            seen = self._checked(one)
            if is_in(seen.transaction(one.app_id), one.batch_id):
                return False
            _require_fit(seen.state, one)
            if put_entry(one.path, seen.state.version + 1, _actions(one)):
                self._advance(seen, one)
                return True
            del self._seen[one.path]
        raise PipelineError(
            f"table {one.path}, batch {one.batch_id}: {_ATTEMPTS} times another writer was first; it is tried again"
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

    def _checked(self, one: TableCommit) -> _Seen:
        try:
            return self._look(one.path)
        except TableNotFoundError:
            raise one.impossible("there is no Delta table any more") from None

    def _advance(self, seen: _Seen, one: TableCommit) -> None:
        seen.state = replace(seen.state, version=seen.state.version + 1)
        seen.own[one.app_id] = one.batch_id
        seen.entry = _identity(one.path, seen.state.version)
        interval = int(seen.state.properties.get("delta.checkpointInterval", _CHECKPOINT_INTERVAL))
        if seen.state.version % interval == 0:
            _checkpoint(one.path)


def _look_at(folder: str) -> _Seen:
    handle = opened(folder)
    return _Seen(state_of(handle, folder), _identity(folder, handle.version()), handle)


def _require_fit(state: TableState, one: TableCommit) -> None:
    if not state.native:
        raise one.impossible(f"it does not take files as they are any more ({state.why_not})")
    one.require_columns(state.layout)


def _actions(one: TableCommit) -> list[dict[str, Any]]:
    found = [(file, one.require_file(file)) for file in one.files]
    return append_actions(found, one.app_id, one.batch_id, one.metadata)


def _is_newest(folder: str, seen: _Seen) -> bool:
    """Looking for the next log entry costs microseconds; a table made anew has another file by this name."""
    same = seen.entry is not None and _identity(folder, seen.state.version) == seen.entry
    return same and entry_info(folder, seen.state.version + 1) is None


def _identity(folder: str, version: int) -> str | None:
    """What tells a log entry from every other file; None where it was cleaned up after a checkpoint."""
    info = entry_info(folder, version)
    return None if info is None else info.tag


def _checkpoint(folder: str) -> None:
    """Readers open faster with it; the commit is in without it, and so never fails for it."""
    try:
        opened(folder).create_checkpoint()
    except (DeltaError, OSError) as error:
        _log.warning("table %s: no checkpoint was written (%s); the next one will do", folder, error)
