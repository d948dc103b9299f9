"""The data files that a table consists of at a version, as its log says: read once, then followed entry by entry."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from distributary.ingest.log_paths import LOG, entry_path
from distributary.ingest.storage.contract import Files

Action = Mapping[str, Any]

_LAST = f"{LOG}/_last_checkpoint"

# One file, one of several parts, or the head of one whose parts have names of their own.
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\.(?:(\d{10})\.(\d{10})\.|[0-9a-f-]{36}\.)?(?:parquet|json)")

_MAPS = ("partitionValues", "tags")

# Entries may be cleaned up between a look at their names and one at their content.
_ATTEMPTS = 3


class LiveFiles:
    """The `add` actions in force at a version of a table, by the files' names.

    version  which one
    kept     what somebody worked out of a file, whatever rows of it are marked, by the file's name
    """

    def __init__(self, version: int, adds: Mapping[str, Action]) -> None:
        """`adds` by the files' names, unquoted."""
        self.version, self._adds = version, dict(adds)
        self.kept: dict[str, Any] = {}

    def __iter__(self) -> Iterator[tuple[str, Action]]:
        return iter(self._adds.items())

    def __len__(self) -> int:
        return len(self._adds)

    def follow(self, actions: Iterable[Action]) -> None:
        """Come to the next version, whose actions these are."""
        actions = list(actions)
        for action in actions:
            if "remove" in action:
                self._adds.pop(unquote(action["remove"]["path"]), None)
        # A file whose vector is another one is removed and added by one entry.
        for action in actions:
            if "add" in action:
                self._adds[unquote(action["add"]["path"])] = action["add"]
        for name in self.kept.keys() - self._adds.keys():
            del self.kept[name]
        self.version += 1


def read(place: Files, version: int) -> LiveFiles:
    """What a version consists of. Raises FileNotFoundError where the log does not lead there (any more)."""
    for attempt in range(_ATTEMPTS):
        try:
            return _read(place, version, hinted=not attempt)
        except FileNotFoundError:
            if attempt + 1 == _ATTEMPTS:
                raise
    raise AssertionError


def entry(place: Files, version: int) -> list[dict[str, Any]]:
    """The actions of a version. Raises FileNotFoundError where its entry is not there (any more)."""
    return [json.loads(line) for line in place.read(entry_path(version)).splitlines()]


def _read(place: Files, version: int, *, hinted: bool) -> LiveFiles:
    base, paths = checkpoint_of(place, version, hinted=hinted)
    adds = [add for path in paths for add in in_checkpoint(place, path)]
    live = LiveFiles(base, {unquote(add["path"]): add for add in adds})
    while live.version < version:
        live.follow(entry(place, live.version + 1))
    return live


def checkpoint_of(place: Files, version: int, *, hinted: bool = True) -> tuple[int, Sequence[str]]:
    """The newest whole checkpoint of a log up to a version, and the paths of its parts; -1 and none where there is none.

    `hinted` asks for names only from where the log says that its newest one is.
    """
    names = list(place.names(LOG, after=_hint(place, version) if hinted else ""))
    found: dict[int, list[str]] = {}
    for name in names:
        if (one := _CHECKPOINT.fullmatch(name)) and int(one[1]) <= version:
            found.setdefault(int(one[1]), []).append(name)
    for number in sorted(found, reverse=True):
        if parts := _whole(found[number]):
            return number, [f"{LOG}/{name}" for name in parts]
    return -1, []


def _hint(place: Files, version: int) -> str:
    """What the names before the newest checkpoint's come before, as the log says; of one that is behind a version it tells nothing."""
    try:
        told = int(json.loads(place.read(_LAST))["version"])
        return f"{told:020d}" if told <= version else ""
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return ""


def _whole(names: Sequence[str]) -> Sequence[str]:
    """One checkpoint among those of a version, with all its parts; nothing where none has them."""
    parts: dict[int, list[str]] = {}
    for name in names:
        found = _CHECKPOINT.fullmatch(name)
        if found is None or found[3] is None:
            return [name]
        parts.setdefault(int(found[3]), []).append(name)
    return next((of for count, of in parts.items() if len(of) == count), [])


def in_checkpoint(place: Files, path: str, kind: str = "add") -> Iterator[Action]:
    """The actions of a kind, `add` or `remove`, in a part of a checkpoint."""
    if path.endswith(".json"):
        actions: Iterable[Action] = [json.loads(line) for line in place.read(path).splitlines()]
    else:
        actions = _rows(place, path, kind)
    for action in actions:
        if action.get(kind) is not None:
            yield _plain(action[kind])
        if action.get("sidecar") is not None:
            yield from in_checkpoint(place, f"{LOG}/_sidecars/{action['sidecar']['path']}", kind)


def _rows(place: Files, path: str, kind: str) -> Iterator[Action]:
    file = pq.ParquetFile(pa.BufferReader(place.read(path)))
    names = file.schema_arrow.names
    wanted = [name for name in ("sidecar",) if name in names]
    if kind in names:
        wanted += [f"{kind}.{one.name}" for one in file.schema_arrow.field(kind).type if _is_told(one.name)]
    for group in range(file.metadata.num_row_groups):
        yield from file.read_row_group(group, columns=wanted).to_pylist()


def _plain(add: Mapping[str, Any]) -> Action:
    """An action as an entry has it: Parquet's maps are lists of pairs, and what is not there is null."""
    kept = {name: dict(value) if name in _MAPS else value for name, value in add.items() if value is not None}
    if vector := kept.get("deletionVector"):
        kept["deletionVector"] = {name: value for name, value in vector.items() if value is not None}
    return {"partitionValues": {}, **kept}


def _is_told(name: str) -> bool:
    """Whether a column of a checkpoint is one of an action, and not the same once more as values."""
    return not name.endswith("_parsed")
