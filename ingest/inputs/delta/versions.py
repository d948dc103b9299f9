"""What the versions of a Delta table bring, read off its log: files with rows, in an order that never changes.

An offset is the version, with 32 bits behind it for the row: files count in the order of the entry, rows in the order of the file.
https://github.com/delta-io/delta/blob/master/PROTOCOL.md#change-metadata
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from urllib.parse import unquote

from distributary.errors import CheckpointMismatch
from distributary.ingest.log_paths import LOG, entry_version
from distributary.ingest.merge import live_files
from distributary.ingest.merge.columns import DataColumns
from distributary.ingest.merge.live_files import Action
from distributary.ingest.settings.source.delta import VERSION_BITS
from distributary.ingest.storage.contract import Files
from distributary.ingest.tables.log import entry

CHANGE = "_change_type"
"""The column in which files of changes say what became of a row, and the field that records have it in."""

INSERTED, DELETED = "insert", "delete"

# What a row was before an update: its record would be one of a row that is no more.
BEFORE = "update_preimage"

TOLD_WITHIN = ""
"""Of a file that says by a column what became of each row."""

# Of what entries name: one that has ten thousand files weighs as much as ten thousand that have one.
_ACTIONS_KEPT = 50_000


@dataclass(frozen=True, slots=True)
class RowsFile:
    """A file with rows of a version.

    name     its path in the table
    add      the action by which its reader finds its rows
    offset   that of its first row
    rows     how many it has, marked ones among them
    millis   when the version was committed, in milliseconds since the epoch
    after    of a file whose marks the version changes, the action that says which rows have them on the other side: only rows that differ count
    change   what became of all of its rows, or that a column says it; None where only what is added is read
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


# A file's name, the action by which it is read, what became of its rows, and the action behind it.
_Told: TypeAlias = tuple[str, Action, str | None, Action | None]


@dataclass(frozen=True, slots=True)
class TableLog:
    """The log of a table that is read as a stream. `changes`: whether deletes and updates are read, too."""

    place: Files
    changes: bool = False
    _read: dict[int, tuple[Action, ...]] = field(default_factory=dict, repr=False, compare=False)

    def first(self) -> int:
        """The oldest version whose entry is still there."""
        return min(self._versions(), default=0)

    def behind_newest(self) -> int:
        """The version that comes next."""
        return max(self._versions(), default=-1) + 1

    def _versions(self) -> list[int]:
        found = map(entry_version, self.place.names(LOG))
        return [version for version in found if version is not None]

    def millis(self, version: int) -> int:
        """When a version was committed."""
        return _millis(self._entry(version))

    def files(self, version: int) -> list[RowsFile]:
        """The files with the rows that a version brings. Raises CheckpointMismatch for one that cannot be read."""
        actions = self._entry(version)
        at, millis, found = version << VERSION_BITS, _millis(actions), list[RowsFile]()
        for name, action, change, after in self._told(version, actions):
            rows = _rows(self.place, name, after or action)
            found.append(RowsFile(name, action, at, rows, millis, change, after))
            at += rows
        return found

    def has_columns_of_its_own(self, version: int) -> bool:
        """Whether a version says anew what the table's columns are, so that files of before may have others."""
        return any("metaData" in action for action in self._entry(version))

    def rows(self, version: int) -> int:
        """How many rows a version brings."""
        return sum(file.rows for file in self.files(version))

    def _entry(self, version: int) -> tuple[Action, ...]:
        if version not in self._read:
            found = _entry_of(self.place, version)
            if sum(map(len, self._read.values())) + len(found) > _ACTIONS_KEPT:
                self._read.clear()
            self._read[version] = found
        return self._read[version]

    def _told(self, version: int, actions: Sequence[Action]) -> Iterator[_Told]:
        adds = {action["add"]["path"]: action["add"] for action in actions if _is_change(action.get("add"))}
        removes = [action["remove"] for action in actions if _is_change(action.get("remove"))]
        feed = [action["cdc"] for action in actions if action.get("cdc") is not None]
        if not self.changes:
            self._require_appended(version, adds.values(), removes)
            yield from ((unquote(path), add, None, None) for path, add in adds.items())
        elif feed:
            yield from ((unquote(cdc["path"]), cdc, TOLD_WITHIN, None) for cdc in feed)
        else:
            # First what is gone, as what came may be of the same keys.
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

    def _require_appended(self, version: int, adds: Iterable[Action], removes: Sequence[Action]) -> None:
        if removes or any("deletionVector" in add for add in adds):
            raise CheckpointMismatch(
                f"version {version} of {self.place} deletes or replaces rows, and only appended ones are read. To have what became of rows, "
                "write `source: {delta: {read: changes}}`; to leave the version out, begin behind it with a new checkpoint: "
                f"`starting_version: {version + 1}`, and `start: from_tables` is of no use then, so `start: again`"
            )


def _entry_of(place: Files, version: int) -> tuple[Action, ...]:
    try:
        return tuple(entry(place, version))
    except FileNotFoundError:
        raise CheckpointMismatch(
            f"{place} has no entry of version {version} in its log any more: retention took it, or the table is another one by now. Begin "
            "with the first version that is there, with a new checkpoint and `start: again`"
        ) from None


def _is_change(action: Mapping[str, Any] | None) -> bool:
    return action is not None and bool(action.get("dataChange", True))


def _millis(actions: Sequence[Action]) -> int:
    info: Mapping[str, Any] = next((action["commitInfo"] for action in actions if "commitInfo" in action), {})
    return int(info.get("inCommitTimestamp") or info.get("timestamp") or 0)


def _rows(place: Files, name: str, action: Action) -> int:
    """How many rows a file has, by its statistics, or by its own footer where there are none."""
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
