"""Appending files to a Delta table by an entry in its log: one transaction id a batch, so a repeat changes nothing.

delta-rs reads the table and says what it is; the entry is written here. Its own commit reads and keeps the whole
list of files, so that it costs more with every commit a table has had; this one costs the same at any age.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import unquote

from deltalake.exceptions import TableNotFoundError

from distributary.errors import CheckpointMismatch, PipelineError
from distributary.ingest.columns.clustering import sources
from distributary.ingest.columns.differences import differences
from distributary.ingest.history.merging import History
from distributary.ingest.merge.attempts import Attempts, KnownFiles, Version
from distributary.ingest.merge.columns import Unreadable
from distributary.ingest.merge.counts import MadeFiles, MergeCounts
from distributary.ingest.merge.rule import VECTORS, MergeRule
from distributary.ingest.merge.upsert import KeyMoved, Merger, Upsert
from distributary.ingest.merge.vectors import WrongVector, file_of
from distributary.ingest.parquet.data_file import is_merged
from distributary.ingest.parquet.statistics import Indexed
from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.opening import At, files_at
from distributary.ingest.tables.handle import opened
from distributary.ingest.tables.log import (
    CHANGES,
    ENGINE,
    append_actions,
    clocks,
    commit_of,
    entry,
    entry_tag,
    has_entry,
    is_read,
    lines_of,
    put_entry,
    tag_of,
    tagged_entry,
    transactions_of,
    version_of,
)
from distributary.ingest.tables.log_checkpoint import Committed, LogCheckpoints, pack
from distributary.ingest.tables.state import TableState, is_bare, state_of
from distributary.ingest.tables.transaction import TableCommit

_ATTEMPTS = 20

# How long what another machine was asked for is taken for granted between commits, which ask anew: a thousand tables
# take seconds to be asked for.
TRUSTED_SECONDS = 60.0

# So many commits of others are read one by one; behind more of them a table is opened again.
_MOST_CAUGHT_UP = 20

# So many commits of other pipelines, as in a ledger that they share, are synced one by one.
_MOST_FELLOWS = 50

# So many entries of a table in a store are kept for its next checkpoint, some 400 bytes each. One that marks rows of many files has
# 80 bytes for each of them, and of such only the newest are kept: others are asked for again.
_ENTRIES_KEPT, _BYTES_KEPT = 200, 2**18


@dataclass(slots=True)
class _Seen:
    """A table at one version. `entry` tells that version's log file from another one of the same name; `at` is when it was looked at.

    own      the newest transaction of each application that was asked for, or has committed since; None: it has none
    entries  the newest entries of the log that were written here, packed, in a store
    before   what tells the entry before, where that is known
    """

    state: TableState
    entry: str | None
    own: dict[str, int | None] = field(default_factory=dict)
    entries: dict[int, bytes] = field(default_factory=dict)
    before: str | None = None
    new: bool = False
    at: float = field(default_factory=time.monotonic)

    def trusted(self, place: Files) -> bool:
        """Whether it is taken for granted that this is the newest version."""
        return place.remote and time.monotonic() - self.at < TRUSTED_SECONDS

    def knows(self, app_id: str) -> bool:
        """Whether an application's newest transaction is known without opening the table, as of one that was just made."""
        return self.new or app_id in self.own


class NativeCommits:
    """Commits to many tables. A table is read when it is met, and again only when somebody else has changed it.

    What was read is not kept open: a table of twenty thousand files would hold forty megabytes.
    """

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}
        self._checkpoints = LogCheckpoints()
        self._files = KnownFiles(entry_tag)
        self._merged: dict[str, tuple[str, int, Mapping[str, Any]]] = {}
        self._app_of: Callable[[str], str | None] = lambda _: None
        # The newest transaction that each table had of an application, as far as it was committed, or found, here.
        self._had: dict[tuple[str, str], int] = {}

    def expect(self, app_of: Callable[[str], str | None]) -> None:
        """Take note of whose commits will be made, by a table's URL: what he committed last is asked for where a table is opened."""
        self._app_of = app_of

    def settle(self) -> None:
        """Wait for the checkpoints of logs that are being written."""
        self._checkpoints.settle()

    def close(self) -> None:
        """The same, and begin no other."""
        self._checkpoints.close()

    def commit(self, one: TableCommit) -> bool:
        """Makes the files part of the table under the transaction (app_id, batch_id); False when it was in already.

        The entry is the version after the one that was checked, so a rival in between makes the attempt start again,
        checks included. Raises CommitImpossible where repeating can never help, TableAhead where another log has filled the table, and
        CheckpointMismatch where it was put back from an older copy.
        """
        attempts: Attempts | None = None
        for _ in range(_ATTEMPTS):
            began = clocks()
            seen, newest = self._newest(one.place, self._checked(one), one.app_id)
            self._require_not_put_back(one, newest)
            if one.is_in(newest, seen.state.version) or one.is_forgotten(
                seen.state.properties, seen.state.version
            ):
                return False
            _require_fit(seen.state, one)
            if one.merge is not None:
                attempts = attempts or _attempts(one, seen.state, one.merge)
            version = seen.state.version
            try:
                actions = _actions(one) if attempts is None else self._merge(attempts, one, seen)
            except FileNotFoundError as error:
                if attempts is None:
                    raise
                # What is known of a table may be days old, and its files were compacted and cleaned up since.
                if self._look(one.place).state.version == version:
                    raise one.impossible(f"a file of it is gone ({error})") from None
                attempts.take_back()
                continue
            if put_entry(one.place, version + 1, actions):
                if not is_read(one.place, version + 1, began):
                    # The files stay: by what the table says of itself it is told whether they are in.
                    self.forget(one.place)
                    continue
                self._advance(seen, one, actions)
                if attempts is not None:
                    self._files.advance(_version(one.place, seen), actions)
                    self._merged[one.place.url] = (one.app_id, one.batch_id, actions[0]["commitInfo"])
                    if not one.fresh:
                        attempts.sweep()
                return True
            if attempts is not None:
                attempts.take_back()
            self._look(one.place)
        raise PipelineError(
            f"table {one.place}, batch {one.batch_id}: {_ATTEMPTS} times another writer was first; it is tried again"
        )

    def _require_not_put_back(self, one: TableCommit, newest: int | None) -> None:
        """Raises CheckpointMismatch where a table had a later batch than its newest one by now; one that was made anew has none.

        Not for that batch itself, which comes again where another writer's entry took the place of its own.
        """
        before = self._had.get((one.place.url, one.app_id))
        if newest is not None and before is not None and newest < before < one.batch_id:
            raise CheckpointMismatch(
                f"table {one.place} had batch {before} in this run, and has batch {newest} as its newest one now: it was put back from an older "
                "copy, and what came in between would be missing. Restore the newest copy of it, and run again"
            )
        if newest is not None:
            self._had[one.place.url, one.app_id] = newest

    def merged(self, one: TableCommit) -> MergeCounts | None:
        """What became of the rows that a commit which is in its table merged, as its entry says; None where nobody can tell any more."""
        return MergeCounts.told(self._info_of(one))

    def made(self, one: TableCommit) -> MadeFiles:
        """The files of rows that it made of others; none where nobody can tell any more."""
        return MadeFiles.told(self._info_of(one))

    def _info_of(self, one: TableCommit) -> Mapping[str, Any]:
        """What the commit of a merge says of itself; nothing where its entry is not there any more."""
        app_id, batch_id, info = self._merged.get(one.place.url, ("", -1, {}))
        if (app_id, batch_id) == (one.app_id, one.batch_id):
            return info
        seen = self._look(one.place, one.app_id)
        found = commit_of(one.place, seen.state.version, one.app_id, one.batch_id)
        self._merged[one.place.url] = (one.app_id, one.batch_id, {} if found is None else found[0])
        return self._merged[one.place.url][2]

    def state(self, table: At) -> TableState:
        """What the table is now. Raises TableNotFoundError, and other DeltaErrors where delta-rs cannot open it."""
        return self._look(files_at(table)).state

    def newest(self, table: At, app_id: str) -> int | None:
        """The newest transaction of an application in the table; None without any, and without a table. Raises DeltaError."""
        place = files_at(table)
        try:
            return self._newest(place, self._look(place, app_id), app_id)[1]
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
        self._seen[state.place.url] = _Seen(state, entry_tag(state.place, state.version), new=True)

    def has_seen(self, table: At) -> bool:
        """Whether a table was opened."""
        return files_at(table).url in self._seen

    def entry_of(self, one: TableCommit) -> int | None:
        """The version by which a commit came into its table, which was opened; None where it is not there (any more), or nobody can tell."""
        newest = self._seen[one.place.url].state.version
        while has_entry(one.place, newest + 1):
            newest += 1
        return version_of(one.place, newest, one.app_id, one.batch_id)[0]

    def files_of(self, one: TableCommit, version: int) -> list[str]:
        """What a merge's entry names beside its batch's files, relative to the sink's root: none of it was synced before the batch was decided."""
        adds = [action["add"] for action in entry(one.place, version) if "add" in action]
        found = {file_of(add["deletionVector"]) for add in adds if "deletionVector" in add}
        # Others that it names were there, and synced, before.
        found |= {name for add in adds if is_merged(name := unquote(add["path"]), one.batch_id)}
        # Somebody may have brought its rows into other files since, and deleted these.
        there = sorted(name for name in found if name is not None and one.place.info(name) is not None)
        return [f"{one.table}/{name}" for name in there]

    def fellows(self, one: TableCommit, version: int) -> list[int] | None:
        """The versions of other pipelines right before a commit's, since the one of its own application or what made the table; None where others were in between."""
        found: list[int] = []
        try:
            for earlier in range(version - 1, max(version - _MOST_FELLOWS, -1), -1):
                if earlier == 0:
                    # What made the table: another pipeline may have done so, and not come to where it is synced.
                    return [*found, earlier]
                apps = transactions_of(one.place, earlier)
                if one.app_id in apps:
                    return found
                if not any(_is_fellow(app, one.app_id) for app in apps):
                    return None
                found.append(earlier)
        except FileNotFoundError:
            return None
        return None

    def is_overwritten(self, table: At) -> bool:
        """Whether another file took the place of the newest entry that is known of a table, which stayed the same otherwise.

        On a local file system Delta's own store looks whether a version is there and then renames its entry to it.
        """
        place = files_at(table)
        seen = self._seen.get(place.url)
        if seen is None or place.remote or seen.before is None:
            return False
        now = entry_tag(place, seen.state.version)
        return now not in (None, seen.entry) and entry_tag(place, seen.state.version - 1) == seen.before

    def forget(self, table: At, *, replaced: bool = False) -> None:
        """Take note that a table is not what it was; if another writer `replaced` an entry of it, which may be in a checkpoint by now."""
        url = files_at(table).url
        if replaced:
            self._checkpoints.take_back(files_at(table))
        self._seen.pop(url, None)
        self._files.forget(url)

    def _merge(self, attempts: Attempts, one: TableCommit, seen: _Seen) -> list[dict[str, Any]]:
        """The entry by which a batch is merged into what the table is now."""
        live, memory = self._files.at(_version(one.place, seen)), None
        if one.merge is not None and one.merge.deletes is not None:
            place = one.merge.deletes.memory
            try:
                memory = self._files.at(_version(place, self._look(place)))
            except TableNotFoundError:
                raise one.impossible(f"what remembers its deletes is gone: {place}") from None
        try:
            return attempts.actions(live, memory, seen.state.layout, one.metadata, ENGINE)
        except KeyMoved as error:
            raise one.impossible(
                f"{error}, and nothing says which is newer. Name `sequence_by`, or set `on_repartition: timestamp`"
            ) from None
        except (WrongVector, Unreadable) as error:
            raise one.impossible(str(error)) from None

    def _newest(self, place: Files, seen: _Seen, app_id: str) -> tuple[_Seen, int | None]:
        """The newest transaction of an application, and the table at the version that this is said of."""
        if not seen.knows(app_id):
            seen = self._seen[place.url] = _look_at(place, app_id)
        return seen, seen.own.get(app_id)

    def _look(self, place: Files, app_id: str | None = None, *, newest: bool = True) -> _Seen:
        """The table as it is; where it has to be opened, an application's newest transaction is asked for by the way."""
        seen = self._seen.get(place.url)
        if seen is None or not (_is_caught_up(place, seen) if newest else _is_there(place, seen)):
            if not (seen is None or place.remote or _is_there(place, seen)):
                self.forget(place, replaced=True)
            seen = self._seen[place.url] = _look_at(place, app_id or self._app_of(place.url))
        return seen

    def _checked(self, one: TableCommit) -> _Seen:
        try:
            # A later entry is met with by putting ours, which saves a request.
            seen = self._look(one.place, one.app_id, newest=not one.place.remote)
            # Unless the table grew in one: what it was before could never take these files.
            stale = one.place.remote and not _fits(seen.state, one)
            return self._look(one.place, one.app_id) if stale else seen
        except TableNotFoundError:
            raise one.impossible("there is no Delta table any more") from None

    def _advance(self, seen: _Seen, one: TableCommit, actions: Sequence[Mapping[str, Any]]) -> None:
        seen.state = replace(seen.state, version=seen.state.version + 1)
        seen.own[one.app_id] = self._had[one.place.url, one.app_id] = one.batch_id
        seen.before = seen.entry
        seen.entry = tag_of(actions) if one.place.remote else entry_tag(one.place, seen.state.version)
        seen.at = time.monotonic()
        if one.place.remote:
            _keep(seen.entries, seen.state.version, pack(lines_of(actions)))
        state = seen.state
        changed = sum("remove" in action for action in actions)
        self._checkpoints.follow(
            Committed(one.place, state.version, state.properties, seen.entry, seen.entries, changed)
        )


def _keep(entries: dict[int, bytes], version: int, entry: bytes) -> None:
    entries[version] = entry
    while len(entries) > 1 and (
        len(entries) > _ENTRIES_KEPT or sum(map(len, entries.values())) > _BYTES_KEPT
    ):
        del entries[next(iter(entries))]


def _is_fellow(app_id: str, mine: str) -> bool:
    """Whether an application is another pipeline that fills the same kind of table."""
    return app_id.rpartition("/")[2] == mine.rpartition("/")[2]


def _look_at(place: Files, app_id: str | None) -> _Seen:
    handle = opened(place)
    own = {} if app_id is None else {app_id: handle.transaction_version(app_id)}
    return _Seen(state_of(handle, place), entry_tag(place, handle.version()), own)


def _fits(state: TableState, one: TableCommit) -> bool:
    return state.native and _same_partitions(state, one) and not any(differences(state.layout, one.schema))


def _same_partitions(state: TableState, one: TableCommit) -> bool:
    # Deletes alone, which are in none, may have to be merged.
    return not one.files or set(state.partitions) == set(one.partitions)


def _require_fit(state: TableState, one: TableCommit) -> None:
    if not state.native and one.merge is not None:
        # Spark's writer would append the rows.
        raise one.impossible(f"rows cannot be replaced in it ({state.why_not})")
    if not state.native:
        raise one.takes_no_files(state.why_not)
    if not _same_partitions(state, one):
        bare = one.merge is not None and is_bare(state)
        one.refuse_partitions(state.layout, state.partitions, bare=bare)
    one.require_columns(state.layout)


def _attempts(one: TableCommit, state: TableState, rule: MergeRule) -> Attempts:
    if state.properties.get(VECTORS, "").lower() != "true":
        raise one.impossible(f"it does not keep deletion vectors, by which rows are replaced ({VECTORS})")
    if state.properties.get("delta.appendOnly", "").lower() == "true":
        raise one.impossible("no row of it may be replaced (delta.appendOnly)")
    found = [(file, one.require_file(file)) for file in one.files]
    ends = () if rule.history is None else rule.history.columns
    clustered = sources(state.layout, state.clustering or ())
    indexed = Indexed.told(state.properties, (*rule.keys, *rule.order.sequence, *ends, *clustered))
    merge = Upsert if rule.history is None else History
    try:
        merger: Merger = merge(one.place, one.files, one.schema, rule)
        return Attempts(one.place, found, merger, rule, (one.app_id, one.batch_id), indexed, state.partitions)
    except Unreadable as error:
        raise one.impossible(str(error)) from None


def _version(place: Files, seen: _Seen) -> Version:
    return Version(place, seen.state.version, seen.entry)


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
        if not (_is_there(place, seen) and actions) or any(CHANGES & action.keys() for action in actions):
            return False
        seen.own |= {one["txn"]["appId"]: one["txn"]["version"] for one in actions if "txn" in one}
        seen.state = replace(seen.state, version=seen.state.version + 1)
        seen.before, seen.entry, seen.entries = seen.entry, tag, {}
    return False


def _entry(place: Files, version: int) -> tuple[list[dict[str, Any]], str | None]:
    try:
        return tagged_entry(place, version)
    except FileNotFoundError:
        return [], None


def _is_there(place: Files, seen: _Seen) -> bool:
    """Whether the version's entry is there yet; a table made anew has another file by this name."""
    return seen.entry is not None and entry_tag(place, seen.state.version) == seen.entry
