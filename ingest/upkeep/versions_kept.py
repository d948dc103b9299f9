"""What the versions of a table name that are to stay readable: files that are in force, and those that were until lately."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from urllib.parse import unquote

from distributary.ingest.log_paths import LOG, entry_path
from distributary.ingest.merge import live_files
from distributary.ingest.merge.live_files import Action, LiveFiles
from distributary.ingest.merge.vectors import file_of
from distributary.ingest.storage.contract import Files


@dataclass(slots=True)
class Named:
    """Names of files in a table's folder, or below it, by what its log says.

    kept     those that a version needs which is to stay readable, the newest one among them
    expired  those that only older versions need, as far as the log remembers
    """

    kept: set[str] = field(default_factory=set)
    expired: set[str] = field(default_factory=set)


def named(place: Files, live: LiveFiles, since: int, remembered: int) -> Named:
    """What the log of a table names at its newest version, which is read, and at those that were the newest one since a time.

    since       milliseconds since the epoch, by the clock of the table's place
    remembered  since when a checkpoint of the log keeps what was taken away, by the table's own word

    Raises FileNotFoundError where entries went away meanwhile.
    """
    found = Named()
    for _, add in live:
        found.kept |= _files(add)
    base, paths = live_files.checkpoint_of(place, live.version)
    for path in paths:
        for remove in live_files.in_checkpoint(place, path, "remove"):
            _sort(found, remove, remove.get("deletionTimestamp") or since, since)
    for version, removes in _entries(place, base + 1, live.version):
        entry = place.info(entry_path(version))
        # Two clocks: its writer's, and that of the place. The later word counts.
        at = since if entry is None else entry.modified
        for remove in removes:
            _sort(found, remove, max(remove.get("deletionTimestamp") or since, at), since)
    if since < remembered:
        for remove in _before(place, base, since):
            found.kept |= _files(remove)
    found.expired -= found.kept
    return found


def _sort(found: Named, remove: Action, at: int, since: int) -> None:
    (found.kept if at >= since else found.expired).update(_files(remove))


def _entries(place: Files, first: int, last: int) -> Iterator[tuple[int, list[Action]]]:
    for version in range(first, last + 1):
        yield version, _removes(live_files.entry(place, version))


def _before(place: Files, base: int, since: int) -> Iterator[Action]:
    """What entries took away that a checkpoint may not remember, from that backwards, as far as they are there and young enough."""
    for version in range(base, -1, -1):
        info = place.info(f"{LOG}/{version:020d}.json")
        if info is None or info.modified < since:
            return
        try:
            yield from _removes(live_files.entry(place, version))
        except FileNotFoundError:
            # Cleaned up just now, as too old to be read.
            return


def _removes(actions: Iterable[Action]) -> list[Action]:
    return [action["remove"] for action in actions if "remove" in action]


def _files(action: Action) -> set[str]:
    """The data file of an action, and the file of what marks its rows."""
    vector = action.get("deletionVector")
    found = {unquote(action["path"])}
    if vector is not None and (name := file_of(vector)) is not None:
        found.add(name)
    return found
