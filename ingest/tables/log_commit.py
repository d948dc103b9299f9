"""Appending files to a Delta table by an entry in its log: one transaction id a batch, so a repeat changes nothing.

delta-rs reads the table and says what it is; the entry is written here. Its own commit reads and keeps the whole
list of files, so that it costs more with every commit a table has had; this one costs the same at any age.
"""

from __future__ import annotations

import logging
import time
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from distributary.errors import PipelineError
from distributary.ingest.columns.differences import differences
from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.opening import At, files_at
from distributary.ingest.tables.handle import opened
from distributary.ingest.tables.log import (
    append_actions,
    entry_tag,
    has_entry,
    put_entry,
    tag_of,
    tagged_entry,
)
from distributary.ingest.tables.state import TableState, state_of
from distributary.ingest.tables.transaction import TableCommit
from distributary.values import without_logins

_log = logging.getLogger(__name__)

_ATTEMPTS = 20

# How long what another machine was asked for is taken for granted between commits, which ask anew: a thousand tables
# take seconds to be asked for.
TRUSTED_SECONDS = 60.0

# So many commits of others are read one by one; behind more of them a table is opened again.
_MOST_CAUGHT_UP = 20

# The actions that make another table of it.
_CHANGES = {"metaData", "protocol"}

# Delta's own default where a table does not say.
_CHECKPOINT_INTERVAL = 100


@dataclass(slots=True)
class _Seen:
    """A table at one version. `entry` tells that version's log file from another one of the same name; `at` is when it was looked at."""

    state: TableState
    entry: str | None
    handle: DeltaTable | None
    own: dict[str, int] = field(default_factory=dict)
    at: float = field(default_factory=time.monotonic)

    def trusted(self, place: Files) -> bool:
        """Whether it is taken for granted that this is the newest version."""
        return place.remote and time.monotonic() - self.at < TRUSTED_SECONDS

    def transaction(self, app_id: str) -> int | None:
        """The newest version of an application's transactions: one since we looked, else what was there."""
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
        checks included. Raises CommitImpossible where repeating can never help, TableAhead where another log has filled the table.
        """
        for _ in range(_ATTEMPTS):
            seen, newest = self._newest(one.place, self._checked(one), one.app_id)
            if one.is_in(newest, seen.state.version):
                return False
            _require_fit(seen.state, one)
            actions = _actions(one)
            if put_entry(one.place, seen.state.version + 1, actions):
                self._advance(seen, one, actions)
                return True
            self._look(one.place)
        raise PipelineError(
            f"table {one.place}, batch {one.batch_id}: {_ATTEMPTS} times another writer was first; it is tried again"
        )

    def state(self, table: At) -> TableState:
        """What the table is now. Raises TableNotFoundError, and other DeltaErrors where delta-rs cannot open it."""
        return self._look(files_at(table)).state

    def newest(self, table: At, app_id: str) -> int | None:
        """The newest transaction of an application in the table; None without any, and without a table. Raises DeltaError."""
        place = files_at(table)
        try:
            return self._newest(place, self._look(place), app_id)[1]
        except TableNotFoundError:
            return None

    def known(self, table: At) -> TableState | None:
        """What the table is now if that can be told without opening it, which is nearly always.

        Of a table on another machine, what it was a minute ago.
        """
        place = files_at(table)
        seen = self._seen.get(place.url)
        if seen is None:
            return None
        return seen.state if seen.trusted(place) or _is_newest(place, seen) else None

    def created(self, state: TableState) -> None:
        """Take note of a table that was just made, so that it need not be opened."""
        self._seen[state.place.url] = _Seen(state, entry_tag(state.place, state.version), None)

    def forget(self, table: At) -> None:
        """Take note that a table is not what it was."""
        self._seen.pop(files_at(table).url, None)

    def _newest(self, place: Files, seen: _Seen, app_id: str) -> tuple[_Seen, int | None]:
        """The newest transaction of an application, and the table at the version that this is said of."""
        try:
            return seen, seen.transaction(app_id)
        except DeltaError:
            # A handle reads when it is asked, by keys that may have ended since it was opened, and by entries that may be gone.
            seen = self._seen[place.url] = _look_at(place)
            return seen, seen.transaction(app_id)

    def _look(self, place: Files, *, newest: bool = True) -> _Seen:
        seen = self._seen.get(place.url)
        if seen is None or not (_is_caught_up(place, seen) if newest else _is_there(place, seen)):
            seen = self._seen[place.url] = _look_at(place)
        return seen

    def _checked(self, one: TableCommit) -> _Seen:
        try:
            # A later entry is met with by putting ours, which saves a request.
            seen = self._look(one.place, newest=not one.place.remote)
            # Unless the table grew in one: what it was before could never take these files.
            stale = one.place.remote and not _fits(seen.state, one)
            return self._look(one.place) if stale else seen
        except TableNotFoundError:
            raise one.impossible("there is no Delta table any more") from None

    def _advance(self, seen: _Seen, one: TableCommit, actions: Sequence[Mapping[str, Any]]) -> None:
        seen.state = replace(seen.state, version=seen.state.version + 1)
        seen.own[one.app_id] = one.batch_id
        seen.entry = tag_of(actions) if one.place.remote else entry_tag(one.place, seen.state.version)
        seen.at = time.monotonic()
        interval = int(seen.state.properties.get("delta.checkpointInterval", _CHECKPOINT_INTERVAL))
        if (seen.state.version + _shift(one)) % interval == 0:
            _checkpoint(one.place)


def _look_at(place: Files) -> _Seen:
    handle = opened(place)
    return _Seen(state_of(handle, place), entry_tag(place, handle.version()), handle)


def _fits(state: TableState, one: TableCommit) -> bool:
    return state.native and not any(differences(state.layout, one.schema))


def _require_fit(state: TableState, one: TableCommit) -> None:
    if not state.native:
        raise one.impossible(f"it does not take files as they are any more ({state.why_not})")
    one.require_columns(state.layout)


def _actions(one: TableCommit) -> list[dict[str, Any]]:
    found = [(file, one.require_file(file)) for file in one.files]
    return append_actions(found, one.app_id, one.batch_id, one.metadata)


def _is_newest(place: Files, seen: _Seen) -> bool:
    """Looking for the next log entry costs microseconds."""
    newest = _is_there(place, seen) and not has_entry(place, seen.state.version + 1)
    if newest:
        seen.at = time.monotonic()
    return newest


def _is_caught_up(place: Files, seen: _Seen) -> bool:
    """Whether what was seen is the newest version, now that what others appended since is taken note of.

    Opening a table takes the longer the more files it has; of many pipelines that append to one ledger nobody would ever be first.
    """
    for _ in range(_MOST_CAUGHT_UP):
        if _is_newest(place, seen):
            return True
        actions, tag = _entry(place, seen.state.version + 1)
        if not (_is_there(place, seen) and actions) or any(_CHANGES & action.keys() for action in actions):
            return False
        seen.own |= {one["txn"]["appId"]: one["txn"]["version"] for one in actions if "txn" in one}
        seen.state = replace(seen.state, version=seen.state.version + 1)
        seen.entry = tag
    return False


def _entry(place: Files, version: int) -> tuple[list[dict[str, Any]], str | None]:
    try:
        return tagged_entry(place, version)
    except FileNotFoundError:
        return [], None


def _is_there(place: Files, seen: _Seen) -> bool:
    """Whether the version's entry is there yet; a table made anew has another file by this name."""
    return seen.entry is not None and entry_tag(place, seen.state.version) == seen.entry


def _shift(one: TableCommit) -> int:
    """Far away a checkpoint takes a hundred requests: tables that began together take turns."""
    return zlib.crc32(one.table.encode()) if one.place.remote else 0


def _checkpoint(place: Files) -> None:
    """Readers open faster with it; the commit is in without it, and so never fails for it."""
    try:
        opened(place).create_checkpoint()
    except (DeltaError, OSError) as error:
        _log.warning(
            "table %s: no checkpoint was written (%s); the next one will do",
            place,
            without_logins(str(error)),
        )
