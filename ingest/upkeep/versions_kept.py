"""What the versions of a table name that are to stay readable: files that are in force, and those that were until lately."""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from urllib.parse import unquote

from distributary.ingest.log_paths import LOG, entry_path, entry_version
from distributary.ingest.merge import live_files
from distributary.ingest.merge.live_files import Action, LiveFiles
from distributary.ingest.merge.vectors import file_of
from distributary.ingest.storage.contract import Files
from distributary.ingest.tables.log import entry_tag

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


@dataclass(slots=True)
class TakenAway:
    """What was read of a log by earlier upkeeps: entries are cleaned up, and checkpoints forget what was taken away long ago.

    through  the version up to which entries were read; -1 for none
    tag      what tells that version's entry from another one's of its number
    at       when each file was taken away by what was read, of those that may be there yet; in milliseconds since the epoch
    since    from when on all that was written to the log was read
    """

    through: int = -1
    tag: str | None = None
    at: dict[str, int] = field(default_factory=dict)
    since: int = 0

    @classmethod
    def told(cls, content: bytes) -> TakenAway:
        """What `content` gave; nothing where it was cut off or is something else."""
        try:
            told = json.loads(content)
            return cls(int(told["through"]), told["tag"], dict(told["at"]), int(told["since"]))
        except (ValueError, KeyError, TypeError):
            return cls()

    def content(self) -> bytes:
        """The same as JSON."""
        return json.dumps(asdict(self), separators=(",", ":")).encode()

    def only(self, there: Container[str]) -> None:
        """Let go of all files but these."""
        self.at = {name: at for name, at in self.at.items() if name in there}

    def take(self, action: Action, at: int) -> None:
        """Take note of what was taken away at a time."""
        for name in _files(action):
            self.at[name] = max(at, self.at.get(name, 0))

    def begin(self, place: Files, since: int) -> None:
        """Have all read once more where the log is not that one any more, as that of a table that was put back, or its entries are gone, or more is asked for."""
        tag = entry_tag(place, self.through) if self.through >= 0 else None
        if tag is not None and tag != self.tag:
            self.at = {}
        if tag is None or tag != self.tag or since < self.since:
            self.through, self.since = -1, since


def named(
    place: Files,
    live: LiveFiles,
    since: int,
    is_undecided: Callable[[Action], bool],
    taken: TakenAway | None = None,
) -> Named:
    """What the log of a table names at its newest version, which is read, and at those that were the newest one since a time.

    since       milliseconds since the epoch, by the clock of the table's place
    is_undecided  whether the batch of a `txn` action may come to nothing yet: a start undoes it where the power took files
                  that it brought, and what it or anybody behind it took away is in force again then
    taken       what is known of what entries took away, which is brought up to date

    Raises FileNotFoundError where entries went away meanwhile.
    """
    found, taken = Named(), taken or TakenAway()
    taken.begin(place, since)
    for _, add in live:
        found.kept |= _files(add)
    base, paths, in_no_order = _told_in_order(place, live.version, is_undecided)
    undecided = in_no_order
    for path in paths:
        for remove in live_files.in_checkpoint(place, path, "remove"):
            at = remove.get("deletionTimestamp") or since
            taken.take(remove, at)
            _sort(found, remove, since if undecided else at, since)
    for version in range(base + 1, live.version + 1):
        actions = live_files.entry(place, version)
        undecided = undecided or any("txn" in one and is_undecided(one["txn"]) for one in actions)
        entry = place.info(entry_path(version))
        # Two clocks: its writer's, and that of the place. The later word counts.
        at = since if entry is None else entry.modified
        for remove in _told(actions, "remove"):
            told = max(remove.get("deletionTimestamp") or since, at)
            taken.take(remove, told)
            _sort(found, remove, since if undecided else told, since)
        for change in _told(actions, "cdc"):
            _sort(found, change, since if undecided else at, since)
    for one, at in _before(place, base, since, taken.through):
        taken.take(one, at)
    taken.through, taken.tag = base, entry_tag(place, base) if base >= 0 else None
    found.kept |= {name for name, at in taken.at.items() if at >= since}
    found.expired |= set() if in_no_order else taken.at.keys()
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


def _before(place: Files, base: int, since: int, through: int) -> Iterator[tuple[Action, int]]:
    """What young entries behind a version took away that are in a checkpoint, and when; and what they say that a change feed tells by.

    It may not remember the former: what a table asks for when one is written is no more than it has asked for at some time. The latter is in none.
    """
    young = [
        info
        for info in place.list(LOG)
        if info.modified >= since
        and (version := entry_version(info.name)) is not None
        and through < version <= base
    ]
    with ThreadPoolExecutor(_THREADS) as pool:
        # Some at a time: there may be one for each batch of days.
        for first in range(0, len(young), _AT_ONCE):
            some = young[first : first + _AT_ONCE]
            for info, actions in zip(
                some, pool.map(lambda one: _taken_away(place, one.path), some), strict=True
            ):
                yield from ((one, info.modified) for one in actions)


def _taken_away(place: Files, path: str) -> list[Action]:
    try:
        entry = place.read(path)
    except FileNotFoundError:
        # Cleaned up just now, as too old to be read.
        return []
    # Nearly all do nothing but append.
    if b'"remove"' not in entry and b'"cdc"' not in entry:
        return []
    return list(_told([json.loads(line) for line in entry.splitlines()], "remove", "cdc"))


def _told(actions: Iterable[Action], *kinds: str) -> Iterator[Action]:
    """What actions of these kinds say."""
    return (action[kind] for action in actions for kind in kinds if kind in action)


def _files(action: Action) -> set[str]:
    """The data file of an action, and the file of what marks its rows."""
    vector = action.get("deletionVector")
    found = {unquote(action["path"])}
    if vector is not None and (name := file_of(vector)) is not None:
        found.add(name)
    return found
