"""What the versions of a table name that are to stay readable: files that are in force, and those that were until lately."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from urllib.parse import unquote

from distributary.ingest.log_paths import LOG, entry_path, entry_version
from distributary.ingest.merge import live_files
from distributary.ingest.merge.live_files import Action, LiveFiles
from distributary.ingest.merge.vectors import file_of
from distributary.ingest.storage.contract import Files

# In a store each read waits for an answer.
_THREADS = 16
_AT_ONCE = 1000


@dataclass(slots=True)
class Named:
    """Names of files in a table's folder, or below it, by what its log says.

    kept     those that a version needs which is to stay readable, the newest one among them
    expired  those that only older versions need, as far as the log remembers
    """

    kept: set[str] = field(default_factory=set)
    expired: set[str] = field(default_factory=set)


def named(place: Files, live: LiveFiles, since: int, is_undecided: Callable[[Action], bool]) -> Named:
    """What the log of a table names at its newest version, which is read, and at those that were the newest one since a time.

    since       milliseconds since the epoch, by the clock of the table's place
    is_undecided  whether the batch of a `txn` action may come to nothing yet: a start undoes it where the power took files
                  that it brought, and what it or anybody behind it took away is in force again then

    Raises FileNotFoundError where entries went away meanwhile.
    """
    found = Named()
    for _, add in live:
        found.kept |= _files(add)
    base, paths, undecided = _told_in_order(place, live.version, is_undecided)
    for path in paths:
        for remove in live_files.in_checkpoint(place, path, "remove"):
            at = since if undecided else remove.get("deletionTimestamp") or since
            _sort(found, remove, at, since)
    for version in range(base + 1, live.version + 1):
        actions = live_files.entry(place, version)
        undecided = undecided or any("txn" in one and is_undecided(one["txn"]) for one in actions)
        entry = place.info(entry_path(version))
        # Two clocks: its writer's, and that of the place. The later word counts.
        at = since if entry is None else entry.modified
        for remove in _removes(actions):
            told = since if undecided else max(remove.get("deletionTimestamp") or since, at)
            _sort(found, remove, told, since)
    for remove in _before(place, base, since):
        found.kept |= _files(remove)
    found.expired -= found.kept
    return found


def _told_in_order(
    place: Files, version: int, is_undecided: Callable[[Action], bool]
) -> tuple[int, Sequence[str], bool]:
    """The newest checkpoint of a log without an undecided batch, its parts, and whether there is none; then it is the newest of all.

    A checkpoint does not tell what came before such a batch and what behind it. The entries behind an older one do, as long as they are there.
    """
    newest = base, paths = live_files.checkpoint_of(place, version)
    while _holds_undecided(place, paths, is_undecided):
        before, paths = live_files.checkpoint_of(place, base - 1, hinted=False)
        there = {entry_version(name) for name in place.names(LOG)}
        if not there.issuperset(range(before + 1, base + 1)):
            return *newest, True
        base = before
    return base, paths, False


def _holds_undecided(place: Files, paths: Sequence[str], is_undecided: Callable[[Action], bool]) -> bool:
    return any(is_undecided(txn) for path in paths for txn in live_files.in_checkpoint(place, path, "txn"))


def _sort(found: Named, remove: Action, at: int, since: int) -> None:
    (found.kept if at >= since else found.expired).update(_files(remove))


def _before(place: Files, base: int, since: int) -> Iterator[Action]:
    """What young entries took away that are in a checkpoint.

    It may not remember them: what a table asks for when one is written is no more than it has asked for at some time.
    """
    young = [
        info.path
        for info in place.list(LOG)
        if info.modified >= since and (version := entry_version(info.name)) is not None and version <= base
    ]
    with ThreadPoolExecutor(_THREADS) as pool:
        # Some at a time: there may be one for each batch of days.
        for first in range(0, len(young), _AT_ONCE):
            for actions in pool.map(lambda path: _taken_away(place, path), young[first : first + _AT_ONCE]):
                yield from actions


def _taken_away(place: Files, path: str) -> list[Action]:
    try:
        entry = place.read(path)
    except FileNotFoundError:
        # Cleaned up just now, as too old to be read.
        return []
    # Nearly all do nothing but append.
    return _removes(json.loads(line) for line in entry.splitlines()) if b'"remove"' in entry else []


def _removes(actions: Iterable[Action]) -> list[Action]:
    return [action["remove"] for action in actions if "remove" in action]


def _files(action: Action) -> set[str]:
    """The data file of an action, and the file of what marks its rows."""
    vector = action.get("deletionVector")
    found = {unquote(action["path"])}
    if vector is not None and (name := file_of(vector)) is not None:
        found.add(name)
    return found
