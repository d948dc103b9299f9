"""What the versions of a Delta table bring, read off its log: files with rows, in an order that never changes.

An offset is the version, with 32 bits behind it for the row: files count in the order of the entry, rows in the order of the file.
https://github.com/delta-io/delta/blob/master/PROTOCOL.md#change-metadata
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, TypeVar
from urllib.parse import unquote

from distributary.errors import CheckpointMismatch, ConfigError, SetupError
from distributary.ingest.log_paths import LOG, entry_path, entry_version
from distributary.ingest.merge import live_files
from distributary.ingest.merge.columns import DataColumns, at_once
from distributary.ingest.merge.live_files import Action
from distributary.ingest.settings.source.delta import VERSION_BITS
from distributary.ingest.storage.contract import Files
from distributary.ingest.tables.log import entry

CHANGE = "_change_type"
"""The column in which files of changes say what became of a row, and the field that records have it in."""

INSERTED, DELETED = "insert", "delete"

BEFORE = "update_preimage"
"""What a row was before an update."""

GONE, CAME = "gone", "came"
"""Of a file that says by a column what became of each row: those that are no more, and those that are there now."""

# Of what entries name: one that has ten thousand files weighs as much as ten thousand that have one.
_ACTIONS_KEPT = 50_000

READ_AHEAD = 64
"""How many entries are read together, where each waits for another machine."""

# Of versions that are read by now, so many are remembered before they are let go of together.
_READ_KEPT = 1_000

# Entries that are looked at before the one that halving comes to.
_LOOKED_BACK = 64

# A path that leads elsewhere, as those of a shallow clone do: https://github.com/delta-io/delta/blob/master/PROTOCOL.md#add-file-and-remove-file
_ELSEWHERE = re.compile(r"/|[A-Za-z][A-Za-z0-9+.-]*:")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RowsFile:
    """A file with rows of a version.

    name     its path in the table
    add      the action by which its reader finds its rows
    offset   that of its first row
    rows     how many it has, marked ones among them
    millis   when the version was committed, in milliseconds since the epoch
    after    of a file whose marks the version changes, the action that says which rows have them on the other side: only rows that differ count
    change   what became of all of its rows, or which of them count where a column says it; None where only what is added is read
    """

    name: str
    add: Action
    offset: int
    rows: int
    millis: int
    change: str | None = None
    after: Action | None = None

    @property
    def version(self) -> int:
        """The version that brings its rows."""
        return self.offset >> VERSION_BITS

    def parted_by(self, columns: Sequence[str]) -> RowsFile:
        """The same, of a table in partitions by these: those without a value, of which Spark's removals say nothing, are so in its files, too.

        Spark writes them there as they were given, an empty text among them.
        """
        if not columns:
            return self
        named = {**dict.fromkeys(columns), **(self.add.get("partitionValues") or {})}
        return replace(self, add={**self.add, "partitionValues": named})


# A file's name, the action by which it is read, what became of its rows, and the action behind it.
_Told: TypeAlias = tuple[str, Action, str | None, Action | None]


@dataclass(frozen=True, slots=True)
class _Brief:
    """What is kept of every version that was looked at.

    millis       when it was committed
    has_columns  whether it says anew what the table's columns are
    takes_away   whether it deletes or replaces rows
    """

    millis: int
    has_columns: bool
    takes_away: bool


class TableLog:
    """The log of a table that is read as a stream."""

    def __init__(self, place: Files, changes: bool = False) -> None:
        """`changes`: whether deletes and updates are read, too."""
        self.place, self.changes = place, changes
        self._entries: dict[int, tuple[Action, ...]] = {}
        self._briefs: dict[int, _Brief] = {}
        self._rows: dict[int, int] = {}
        self._held, self._newest = 0, -1

    def first(self) -> int:
        """The oldest version whose entry is still there."""
        return next(self._versions("0"), 0)

    def behind_newest(self) -> int:
        """The version that comes next."""
        # From one before on: where not even the newest known one is there, the log is another one.
        after = entry_path(self._newest - 1).rpartition("/")[2] if self._newest > 0 else "0"
        self._newest = max(self._versions(after), default=-1)
        if self._newest < 0 and after != "0":
            self._newest = max(self._versions("0"), default=-1)
        return self._newest + 1

    def _versions(self, after: str) -> Iterator[int]:
        """Those with an entry, in order; a store tells names behind one page by page."""
        found = map(entry_version, self.place.names(LOG, after=after))
        return (version for version in found if version is not None)

    def millis(self, version: int) -> int:
        """When a version was committed."""
        return self._brief(version).millis

    def first_since(self, milliseconds: int) -> int | None:
        """The first version that was committed at this time or later; None where none was.

        Looked for by halves, so that of a long log few entries are read. Clocks of writers differ, and times may go back from one version to the next:
        those shortly before are looked at as well.
        """
        low, high = self.first(), self.behind_newest()
        first, end = low, high
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self.millis(middle) >= milliseconds else (middle + 1, high)
        at = low
        while first < low and at - low < _LOOKED_BACK:
            low -= 1
            at = low if self.millis(low) >= milliseconds else at
        return at if at < end else None

    def files(self, first: int, behind: int) -> list[RowsFile]:
        """The files with the rows that these versions bring. Raises CheckpointMismatch for one that cannot be read, SetupError for one with too many rows."""
        self.read_ahead(first, behind)
        for version in range(first, behind):
            if self.is_refused(version):
                raise self._takes_away(version)
        return [file for of in self._at_once(self._files, range(first, behind)) for file in of]

    def is_refused(self, version: int) -> bool:
        """Whether a version does what is not read: those before it are, and it is told once its turn has come."""
        return not self.changes and self._brief(version).takes_away

    def read_ahead(self, first: int, behind: int) -> None:
        """Have the entries of these versions looked at together."""
        self._at_once(self._brief, range(first, behind))

    def rows(self, first: int, behind: int) -> int:
        """How many rows these versions bring, of which each is read once."""
        known = {version: self._rows.get(version) for version in range(first, behind)}
        missing = [version for version, count in known.items() if count is None]
        return sum(filter(None, known.values())) + sum(self._at_once(self._count, missing))

    def has_columns_of_its_own(self, version: int) -> bool:
        """Whether a version says anew what the table's columns are, so that files of before may have others."""
        return self._brief(version).has_columns

    def _at_once(self, work: Callable[[int], T], versions: Sequence[int]) -> list[T]:
        """The work done for each version, some side by side where each waits for another machine, and no more than that in memory."""
        parts = (versions[at : at + READ_AHEAD] for at in range(0, len(versions), READ_AHEAD))
        return [one for part in parts for one in at_once(self.place, work, part)]

    def forget(self, before: int) -> None:
        """Let go of what is known of versions that are read: a run may go on for years. Who asks for them has them read again."""
        if sum(version < before for version in list(self._briefs)) < _READ_KEPT:
            return
        for known in (self._rows, self._briefs):
            for version in list(known):
                if version < before:
                    known.pop(version, None)

    def _count(self, version: int) -> int:
        told = self._told(version, self._entry(version))
        # A file that says what became of each row is read twice, once for either kind.
        count = sum(
            _rows(self.place, name, after or action) for name, action, change, after in told if change != GONE
        )
        self._rows[version] = count
        return count

    def _files(self, version: int) -> list[RowsFile]:
        actions, millis = self._entry(version), self.millis(version)
        begin = at = version << VERSION_BITS
        found = list[RowsFile]()
        for name, action, change, after in self._told(version, actions):
            rows = _rows(self.place, name, after or action)
            found.append(RowsFile(name, action, at, rows, millis, change, after))
            at += rows
        if at - begin > 1 << VERSION_BITS:
            raise SetupError(
                f"version {version} of {self.place} brings {at - begin:,} rows, and no more than {1 << VERSION_BITS:,} have an offset: begin "
                f"behind it with a new checkpoint and `starting_version: {version + 1}`, and bring its rows in by other means"
            )
        return found

    def _brief(self, version: int) -> _Brief:
        if (known := self._briefs.get(version)) is not None:
            return known
        return self._noted(version, self._entry(version))

    def _noted(self, version: int, actions: tuple[Action, ...]) -> _Brief:
        has_columns = any("metaData" in action for action in actions)
        brief = _Brief(self._committed(version, actions), has_columns, _takes_away(actions))
        self._briefs[version] = brief
        return brief

    def _entry(self, version: int) -> tuple[Action, ...]:
        if (known := self._entries.get(version)) is not None:
            return known
        found = _entry_of(self.place, version)
        self._noted(version, found)
        # Several threads may be here; what one of them forgets too much is read again.
        self._held += len(found)
        if self._held > _ACTIONS_KEPT:
            self._entries.clear()
            self._held = len(found)
        self._entries[version] = found
        return found

    def _committed(self, version: int, actions: Sequence[Action]) -> int:
        """When a version was committed, by what it says, or by the time of its entry's file, as Delta itself takes it then."""
        info: Action = next((action["commitInfo"] for action in actions if action.get("commitInfo")), {})
        if said := info.get("inCommitTimestamp") or info.get("timestamp"):
            return int(said)
        file = self.place.info(entry_path(version))
        if file is None:
            raise _entry_gone(self.place, version)
        return file.modified

    def _told(self, version: int, actions: Sequence[Action]) -> Iterator[_Told]:
        adds = {action["add"]["path"]: action["add"] for action in actions if _is_change(action.get("add"))}
        removes = [action["remove"] for action in actions if _is_change(action.get("remove"))]
        feed = [action["cdc"] for action in actions if action.get("cdc") is not None]
        if not self.changes:
            yield from ((unquote(path), add, None, None) for path, add in adds.items())
        # First what is gone, as what came may be of the same keys.
        elif feed:
            yield from ((unquote(cdc["path"]), cdc, kind, None) for kind in (GONE, CAME) for cdc in feed)
        else:
            marked = list[tuple[Action, Action]]()
            for gone_file in self._with_partitions(version, removes):
                after = adds.pop(gone_file["path"], None)
                marked += [] if after is None else [(gone_file, after)]
                yield unquote(gone_file["path"]), gone_file, DELETED, after
            yield from ((unquote(path), add, INSERTED, None) for path, add in adds.items())
            # A table that was put back has rows again that were marked as gone.
            for before, after in marked:
                if before.get("deletionVector") is not None:
                    yield unquote(after["path"]), after, INSERTED, before

    def _with_partitions(self, version: int, removes: Sequence[Action]) -> Iterator[Action]:
        """What is removed, with the values of its partition, which a writer may leave out: the table had them when the file came."""
        lacking = [one for one in removes if "partitionValues" not in one]
        try:
            live = dict(live_files.read(self.place, version - 1)) if lacking else {}
        except FileNotFoundError:
            raise CheckpointMismatch(
                f"version {version} of {self.place} takes files away without saying of which partition they are, and the log of before is gone"
            ) from None
        for one in removes:
            add = live.get(unquote(one["path"]))
            yield one if add is None or one not in lacking else {**add, **one}

    def _takes_away(self, version: int) -> CheckpointMismatch:
        return CheckpointMismatch(
            f"version {version} of {self.place} deletes or replaces rows, and only appended ones are read. To have what became of rows, "
            "write `source: {delta: {read: changes}}`; to leave the version out, begin behind it with a new checkpoint: "
            f"`starting_version: {version + 1}`, and `start: from_tables` is of no use then, so `start: again`"
        )


def _takes_away(actions: Iterable[Action]) -> bool:
    return any(
        _is_change(action.get("remove"))
        or (_is_change(action.get("add")) and "deletionVector" in action["add"])
        for action in actions
    )


def _entry_of(place: Files, version: int) -> tuple[Action, ...]:
    try:
        return tuple(map(_said, entry(place, version)))
    except FileNotFoundError:
        raise _entry_gone(place, version) from None


def _said(action: Action) -> Action:
    """An action without what it says to be null, as delta-rs before 1.0 says of each file that no vector marks its rows."""
    return {
        kind: {name: value for name, value in told.items() if value is not None}
        if isinstance(told, dict)
        else told
        for kind, told in action.items()
    }


def _entry_gone(place: Files, version: int) -> CheckpointMismatch:
    return CheckpointMismatch(
        f"{place} has no entry of version {version} in its log any more: retention took it, or the table is another one by now. Begin "
        "with the first version that is there, with a new checkpoint and `start: again`"
    )


def _is_change(action: Mapping[str, Any] | None) -> bool:
    return action is not None and bool(action.get("dataChange", True))


def _rows(place: Files, name: str, action: Action) -> int:
    """How many rows a file has, by its statistics, or by its own footer where there are none. Raises ConfigError for one of another table."""
    if _ELSEWHERE.match(name):
        raise ConfigError(
            f"{place} has files of another table in its log, as a shallow clone does, and those are not read as a source: read that table, or make "
            "this one a deep clone"
        )
    stats = action.get("stats")
    known = json.loads(stats).get("numRecords") if stats else None
    if isinstance(known, int):
        return known
    try:
        return DataColumns(place, name, _size(place, name, action)).rows
    except FileNotFoundError:
        raise gone(place, name) from None


def _size(place: Files, name: str, action: Action) -> int:
    size = action.get("size")
    if size is None:
        info = place.info(name)
        if info is None:
            raise gone(place, name)
        size = info.size
    return int(size)


def gone(place: Files, name: str) -> CheckpointMismatch:
    """What is said of a file that the log names and that is there no more."""
    return CheckpointMismatch(
        f"{place} has no file {name} any more, which its log has rows of in that were not read yet: VACUUM took it, with a retention that is "
        "shorter than this pipeline was away. Begin behind it with a new checkpoint, `starting_version` and `start: again`"
    )
