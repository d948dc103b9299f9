"""Checkpoints of tables' logs, and taking away what they make unnecessary: aside, while batches go on.

A checkpoint names all of a table's files again. One after every so many commits would cost ever more, in time and in bytes; so the
commits between two of them grow with the table, and reading what came since costs a part of what reading the checkpoint does. A merge that
marks rows of many files counts as many commits.
"""

from __future__ import annotations

import logging
import re
import threading
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass

from deltalake.exceptions import DeltaError

from distributary.ingest.log_paths import LOG, entry_path, entry_version
from distributary.ingest.settings.table_properties import interval_seconds
from distributary.ingest.storage.contract import Files, Info
from distributary.ingest.storage.posix import temporary_files
from distributary.ingest.tables.handle import answered, opened
from distributary.ingest.tables.log import (
    LastCheckpoint,
    entry_tag,
    has_entry,
    is_whole,
    last_checkpoint,
    transactions_of,
)
from distributary.values import without_logins

_log = logging.getLogger(__name__)

# Delta's own defaults where a table does not say.
_INTERVAL, _RETENTION_SECONDS = 100, 30 * 86_400.0

# Commits between two checkpoints, as a part of the files that the last one names.
_SHARE = 8

# Behind upkeep: from so many entries on, or as many as take the time that reading the checkpoint does: an entry takes that of some eighty actions.
_TAIL, _TAIL_SHARE = 10, 80

# Two: the one that is far away mostly waits, and the one that is near takes a core from whoever decodes.
_THREADS = 2

# What is younger may not be on a disk yet, in a place that was not told to sync it; somebody may just be reading it.
_LEAST_SECONDS = 3_600.0

# A clock would have to go ahead as often within the time that a log is kept for to take young versions away.
_STEPS = 8

# What a log's checkpoints may take together: this many times the newest one, or this many bytes.
_CHECKPOINTS, _CHECKPOINT_BYTES = 2.5, 16 * 2**20

# So many of the newest entries are looked at again once a checkpoint of them is there: whoever puts another in the place of one looked before
# that came.
_RACED = 10

# After so many commits a log is looked through again, if no checkpoint came before: older ones may have grown old meanwhile.
_LOOKED_THROUGH = 1_000

# A version, what of it that is, and the file.
_LogFile = tuple[int, str, Info]

_LAST = f"{LOG}/_last_checkpoint"

# Only names whose meaning is known are taken away: entries, their sums, and checkpoints in one file or in parts.
_NAME = re.compile(r"(\d{20})\.(json|crc|checkpoint\.parquet|checkpoint\.\d{10}\.\d{10}\.parquet)")


@dataclass(frozen=True, slots=True)
class Made:
    """A checkpoint in a folder, by its version, and what tells the newest entries that are in it from others of the same versions."""

    version: int
    tags: Mapping[int, str]

    def is_wrong(self, place: Files) -> bool:
        """Whether another entry is in the place of one of these: on a local file system Delta's own store may put it there."""
        now = _tags(place, min(self.tags) - 1) if self.tags else {}
        return any(now.get(number, tag) != tag for number, tag in self.tags.items())


@dataclass(frozen=True, slots=True)
class Committed:
    """A version that was just committed to a table.

    tag      what tells its entry from another table's of the same name
    entries  those of the log that are known here, packed, by version: in a store each would have to be asked for again
    changed  how many of the table's files its entry takes away, or marks rows of
    """

    place: Files
    version: int
    properties: Mapping[str, str]
    tag: str | None
    entries: Mapping[int, bytes]
    changed: int = 0

    @property
    def interval(self) -> int:
        """After how many commits, at the least, the log gets a checkpoint."""
        return interval_of(self.properties)

    @property
    def its_turn(self) -> bool:
        """Whether to look if one is due; tables that began together take turns."""
        return self.is_turn_since(self.version - 1)

    def is_turn_since(self, version: int) -> bool:
        """Whether the turn came behind an earlier version, if only at one that is another writer's."""
        first = zlib.crc32(self.place.url.encode())
        return (self.version + first) // self.interval > (version + first) // self.interval

    @property
    def is_drawn(self) -> bool:
        """The same by a die, as often: whoever commits once between two commits of others may never meet the turn."""
        return zlib.crc32(f"{self.version} {self.place.url}".encode()) % self.interval == 0


def interval_of(properties: Mapping[str, str]) -> int:
    """After how many commits, at the least, the log of a table with these properties gets a checkpoint."""
    told = properties.get("delta.checkpointInterval", "")
    return max(int(told), 1) if told.isdecimal() else _INTERVAL


class LogCheckpoints:
    """Writes checkpoints in threads of its own, one at a time for a table. A commit is in without them, and never fails for them."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="log-checkpoint")
        self._under_way: dict[str, Future[None]] = {}
        self._followed: dict[str, int] = {}
        self._cleaned: dict[str, tuple[int, int]] = {}
        self._made: dict[str, Made] = {}
        self._lock = threading.Lock()

    def follow(self, committed: Committed) -> None:
        """Have it looked, aside, whether a checkpoint is due, if it is this table's turn."""
        url = committed.place.url
        with self._lock:
            before = self._followed.get(url)
            self._followed[url] = committed.version
            due = (
                committed.is_turn_since(before)
                if before is not None and before < committed.version
                else committed.its_turn or committed.is_drawn
            )
            if due and url not in self._under_way:
                self._under_way[url] = self._pool.submit(self._renew, committed)

    def settle(self) -> None:
        """Wait for what is under way."""
        with self._lock:
            under_way = list(self._under_way.values())
        wait(under_way)

    def take_back(self, place: Files) -> None:
        """Take a table's newest checkpoint away that was made here, if another writer's entry took the place of one that is in it."""
        with self._lock:
            under_way = self._under_way.get(place.url)
        if under_way is not None:
            wait([under_way])
        with self._lock:
            made = self._made.pop(place.url, None)
        if made is not None and made.is_wrong(place):
            _take_away(place, made.version)

    def close(self) -> None:
        """Wait for what is under way, and end."""
        self._pool.shutdown()

    def _renew(self, committed: Committed) -> None:
        try:
            last = last_checkpoint(committed.place)
            # Upkeep may have been here meanwhile.
            is_newer = last.version > committed.version and has_entry(committed.place, last.version)
            newest = last.version
            if not is_newer and is_due(committed, last):
                made, newest = _write(committed, last), committed.version
                with self._lock:
                    self._made |= {} if made is None else {committed.place.url: made}
            # Looking through a log takes the longer the more was committed within the time that it is kept for. Without a checkpoint all of it stays.
            behind, at = self._cleaned.get(committed.place.url, (-1, committed.version))
            if newest != behind or not at <= committed.version < at + _LOOKED_THROUGH:
                clean_up(committed)
                self._cleaned[committed.place.url] = newest, committed.version
        except (DeltaError, OSError, ValueError) as error:
            _log.warning(
                "table %s: no checkpoint was written (%s); the next one will do",
                committed.place,
                without_logins(str(error)).partition("\n")[0],
            )
        finally:
            with self._lock:
                self._under_way.pop(committed.place.url, None)


def is_due(committed: Committed, last: LastCheckpoint) -> bool:
    """Whether so much came since the last checkpoint that there should be another one."""
    # A checkpoint keeps for a while what was taken away, so where entries change many files it grows by as many with each of them.
    share = last.size // _SHARE // max(committed.changed, 1)
    # What the log says of one that is yet to come is wrong.
    return not -1 <= last.version <= committed.version or (
        committed.version - last.version >= max(committed.interval, share)
    )


def shorten_tail(place: Files, version: int, properties: Mapping[str, str]) -> bool:
    """Whether a checkpoint was written at a version, the newest one, since whoever opens the table went through many entries behind the last one.

    For a moment at which there is time for it, as nobody waits. Raises DeltaError where delta-rs cannot write it, OSError where its place does not
    answer or a disk refuses to sync.
    """
    last = last_checkpoint(place)
    tail = version - last.version
    if 0 <= tail < max(_TAIL, last.size // _TAIL_SHARE):
        return False
    _write(Committed(place, version, properties, tag=None, entries={}), last)
    return True


def pack(entry: bytes) -> bytes:
    """An entry for `Committed.entries`."""
    return zlib.compress(entry, 1)


def clean_up(committed: Committed) -> int:
    """How many files were taken away that no version needs which the table is to be readable at.

    By the rules of https://github.com/delta-io/delta/blob/master/PROTOCOL.md#metadata-cleanup: all before the newest
    checkpoint that is not newer than the newest commit which is older than the table's `delta.logRetentionDuration`. How old one is the
    log says itself, by the steps from each of its files to the next: no clock that is ahead for as long as it likes makes young ones old.

    And checkpoints behind that one, where there are more than a log should carry: versions since are read by their entries.
    """
    place, properties = committed.place, committed.properties
    kept = retention_seconds(properties)
    if kept is None or properties.get("delta.enableExpiredLogCleanup", "true").lower() != "true":
        return 0
    there = list(_named(place))
    old = _older(there, committed.version, max(kept, _LEAST_SECONDS) * 1000)
    bound = max((version for version, _ in _checkpoints(place, old)), default=0)
    garbage = [info.path for version, _, info in old if version < bound]
    garbage += _too_many(place, there, bound, committed.version)
    # Whoever stood still since it was listed: others may stand on what was too much then, or the table was made anew.
    if not garbage or not _is_there(place, there[0][2]):
        return 0
    place.delete(garbage)
    return len(garbage)


def _is_there(place: Files, info: Info) -> bool:
    """Whether a file is as it was told: the first one of a log goes with the first who cleans that up."""
    now = place.info(info.path)
    return now is not None and (now.size, now.tag) == (info.size, info.tag)


def _checkpoints(place: Files, files: Iterable[_LogFile]) -> Iterator[tuple[int, Info]]:
    for version, kind, info in files:
        if kind == "checkpoint.parquet" and (place.remote or is_whole(place, info.path)):
            yield version, info


def _too_many(place: Files, files: Sequence[_LogFile], bound: int, newest: int) -> Iterator[str]:
    """Checkpoints that make a log several times what it needs, from the oldest on: times travelled to are mostly recent.

    The one that the oldest readable version stands on stays, and the one behind it, which takes its place with time: only once that one is old,
    too, may entries go. So does the one that readers may have come upon within the last hour.
    """
    found = [(version, info) for version, info in _checkpoints(place, files) if bound <= version <= newest]
    hour_old = _older(files, newest, _LEAST_SECONDS * 1000)
    seen = max((version for version, _ in _checkpoints(place, hour_old)), default=0)
    held = sum(info.size for _, info in found)
    for version, info in found[2:]:
        if version >= seen or held <= max(_CHECKPOINTS * found[-1][1].size, _CHECKPOINT_BYTES):
            return
        held -= info.size
        yield info.path


def _older(files: Sequence[_LogFile], newest: int, kept: float) -> list[_LogFile]:
    """The first files of a log that are as old as this, in milliseconds, as seen from its newest version; none where that is not there.

    Where a clock is ahead, all that was written before would be old at once. So a long step to the next file counts for an eighth of that
    time, and the last of them for nothing. One that is newer than what came behind it, as from a clock that went ahead for a while, is as old as that.
    """
    there = [file for file in files if file[0] <= newest]
    if not any(entry_version(info.name) == newest for *_, info in there):
        return []
    longest = max(kept / _STEPS, _LEAST_SECONDS * 1000)
    age, next_one, was_cut = 0.0, float(there[-1][2].modified), False
    for index in range(len(there) - 1, -1, -1):
        modified = min(float(there[index][2].modified), next_one)
        step, next_one = next_one - modified, modified
        if step <= longest:
            age += step
        elif was_cut:
            age += longest
        was_cut = was_cut or step > longest
        if age >= kept:
            return there[: index + 1]
    return []


def retention_seconds(properties: Mapping[str, str]) -> float | None:
    """For how long a table says its versions are to be readable; None where that cannot be told."""
    text = properties.get("delta.logRetentionDuration")
    if text is None:
        return _RETENTION_SECONDS
    # Delta lets the word be left out.
    found = interval_seconds(text)
    return interval_seconds(f"interval {text}") if found is None else found


def _named(place: Files) -> Iterator[_LogFile]:
    """The files of a log in order, but for those of other names: version, what it is, and the rest."""
    for info in place.list(LOG):
        if found := _NAME.fullmatch(info.name):
            yield int(found[1]), found[2], info


def _write(committed: Committed, last: LastCheckpoint) -> Made | None:
    """The checkpoint that was written in a folder; None where it was not to stay, and in a store, where entries are never replaced."""
    place = committed.place
    if last.version > committed.version:
        # delta-rs puts no lower one in its place. Without it a log is listed from its beginning.
        place.delete([_LAST])
        last = LastCheckpoint()
    if place.remote and committed.entries and last.plain:
        # Entries may be gone behind a checkpoint that the log does not tell of: delta-rs finds it.
        with suppress(FileNotFoundError):
            _write_from_copy(committed, last)
            return None
    first = committed.version - _RACED
    tags = {} if place.remote else _tags(place, first)
    handle = opened(place)
    if not place.remote:
        # Those that came while it was opened are in it.
        tags = {**_tags(place, first), **tags}
    written = [_checkpoint_path(handle.version()), _LAST]
    if not place.remote:
        # Those that Spark wrote have Hadoop's sums beside them, by which it would not read ours.
        place.delete(f"{LOG}/.{path.rpartition('/')[2]}.crc" for path in written)
    answered(place, handle.create_checkpoint)
    # What is cleaned up behind it is gone for good.
    try:
        place.sync(written)
    except OSError:
        # Asked once more a disk says that it has what it did not take.
        place.delete(reversed(written))
        raise
    made = Made(handle.version(), {number: tag for number, tag in tags.items() if number <= handle.version()})
    if made.is_wrong(place):
        _take_away(place, made.version)
        return None
    return made


def _tags(place: Files, behind: int) -> dict[int, str]:
    """What tells the entries of a log behind a version from others by their names."""
    after = "" if behind < 0 else entry_path(behind).rpartition("/")[2]
    found = ((entry_version(info.name), info.tag) for info in place.list(LOG, after))
    return {version: tag for version, tag in found if version is not None}


def _take_away(place: Files, version: int) -> None:
    """Delete a checkpoint that has what an entry said which is gone, and later ones, made of it; not where the log is not whole without."""
    files = list(_named(place))
    entries = {number for number, _, info in files if entry_version(info.name) is not None}
    before = max((number for number, _ in _checkpoints(place, files) if number < version), default=-1)
    if not entries.issuperset(range(before + 1, max(entries, default=version) + 1)):
        _log.warning(
            "table %s: its checkpoint of version %s has what an entry said that another writer's took the place of, and is all that tells of what "
            "was before it. Compare the table with its log",
            *(place, version),
        )
        return
    wrong = (info.path for number, kind, info in files if number >= version and "checkpoint" in kind)
    place.delete([_LAST, *wrong])


def take_away_untold(place: Files, app_id: str, number: int) -> None:
    """Delete checkpoints that have a transaction of which no entry tells, as another writer's took its place: whoever made them may be dead.

    Nothing is done where an entry since the one before it was cleaned up: it may have told of it.
    """
    files = list(_named(place))
    version = max((one for one, _, info in files if entry_version(info.name) is not None), default=-1)
    with suppress(FileNotFoundError):
        while version >= 0:
            told = transactions_of(place, version).get(app_id)
            if told == number:
                return
            if told is not None and told < number:
                break
            version -= 1
        if wrong := [one for one, kind, _ in files if one > version and "checkpoint" in kind]:
            _take_away(place, min(wrong))


def _write_from_copy(committed: Committed, last: LastCheckpoint) -> None:
    """Let delta-rs make the checkpoint from a copy of the log on this machine: most of the log was written here.

    In the store itself it would ask for each entry again.
    """
    place, version = committed.place, committed.version
    with temporary_files("distributary-copied-log-") as copy:
        if last.version >= 0:
            path = _checkpoint_path(last.version)
            copy.put(path, place.read(path), named_later=True)
            copy.put(_LAST, last.words, named_later=True)
        for number in range(last.version + 1, version + 1):
            known = committed.entries.get(number)
            entry = zlib.decompress(known) if known else place.read(entry_path(number))
            copy.put(entry_path(number), entry, named_later=True)
        opened(copy).create_checkpoint()
        made = copy.read(_checkpoint_path(version))
        # A table that was dropped and made anew meanwhile would get another one's files.
        if entry_tag(place, version) == committed.tag:
            place.put(_checkpoint_path(version), made)
            place.put(_LAST, copy.read(_LAST))


def _checkpoint_path(version: int) -> str:
    return f"{LOG}/{version:020d}.checkpoint.parquet"
