"""Files in a table's folder that no version of it needs which is to stay readable, and that nobody will name any more.

delta-rs' own clean-up forgets what a checkpoint of the log no longer has, and asked for all it deletes deletion vectors in force. So the
folder is listed here, and what may be needed is taken away from that. Others put the files of a partition into a folder of its own, and
those of a change feed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from distributary.ingest.merge import live_files
from distributary.ingest.settings.table_properties import interval_seconds
from distributary.ingest.storage.contract import Files, Info
from distributary.ingest.tables.log import newest_version
from distributary.ingest.upkeep.undecided import Undecided, made_by
from distributary.ingest.upkeep.versions_kept import Named, TakenAway, named

RETENTION = "delta.deletedFileRetentionDuration"

# How long Delta itself keeps what was taken away, where a table does not say.
DAYS = 7

_DAY_SECONDS = 86_400.0

# What no version ever named may be in the making: a file of another program's that is younger stays, whatever is wished for.
_LEAST_MILLISECONDS = 3_600_000

# As delta-rs and Spark call data files. Others call theirs as they like, and those are looked at only where the log has named them.
_OF_OTHERS = re.compile(
    r"(?:part|cdc)-\d{5,}-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}[A-Za-z0-9._-]*\.parquet"
)

# Where they put what a change feed tells of rows that changed: of a table that is in partitions in folders, too.
_FEED = "_change_data"

# Hadoop's sums of a file, beside it.
_SUMS = re.compile(r"\.(?P<of>.+)\.crc")

# A listing and the log may disagree while others commit and clean up.
_ATTEMPTS = 3

_DELETED_AT_ONCE = 500

_UNKNOWN = "no table under the root tells whose they are"


@dataclass(frozen=True, slots=True)
class Leftovers:
    """What is to go from a table's folder.

    files    those, as they were listed
    held     how many would go, too, did anybody know whether they are yet to come into the table
    why      why nobody knows
    folders  of partitions of which no file is left then, those within others first: a value is their name
    """

    files: Sequence[Info] = ()
    held: int = 0
    why: str = ""
    folders: Sequence[str] = ()

    @property
    def bytes(self) -> int:
        """Of all of them."""
        return sum(info.size for info in self.files)


@dataclass(frozen=True, slots=True)
class Bound:
    """How old a file has to be to go, in milliseconds since the epoch by the clock of the table's place.

    now         what the time is there
    since       files that a version needed which was the newest one at this time, or later, stay
    """

    now: int
    since: int

    @classmethod
    def of(cls, properties: Mapping[str, str], older_than_days: float, now: int) -> Bound | None:
        """What holds of a table with these properties: what is wished for, or what it says itself where that is longer.

        None where nobody can tell what it says.
        """
        told = properties.get(RETENTION)
        # Delta lets the word be left out.
        own = interval_seconds(told or f"interval {DAYS} days")
        own = interval_seconds(f"interval {told}") if own is None else own
        if own is None:
            return None
        wished = older_than_days * _DAY_SECONDS
        kept = wished if told is None else max(wished, own)
        return cls(now, now - int(kept * 1000))


def leftovers(  # noqa: PLR0913 - what is known beside the table itself
    place: Files,
    bound: Bound,
    undecided: Undecided,
    *,
    is_shared: bool = False,
    partitions: Sequence[str] = (),
    taken: TakenAway | None = None,
) -> Leftovers:
    """What is to go from the folder of a table.

    undecided  what logs said before this is asked
    is_shared  whether pipelines write to it that own no table, so that nobody tells where their logs are
    partitions  the columns that it is partitioned by
    taken      what is known of what was taken away, which is brought up to date

    Raises OSError where the place does not answer; FileNotFoundError where the table's log does not lead to its newest version.
    """
    # Before the log is read: what comes into the table meanwhile is not listed, or is named.
    depth = len(partitions)
    folders = [*_folders(place, depth), *_folders(place, depth, _FEED)]
    listed = [info for folder in folders for info in place.list(folder)]
    taken = taken or TakenAway()
    keep = _named(place, bound, undecided, taken)
    taken.only({info.path for info in listed})
    found, held, why = list[Info](), 0, ""
    for info in listed:
        if not _is_old_leftover(info, keep, bound):
            continue
        unknown = is_shared and info.path not in keep.expired and undecided.is_unknown(info.name)
        if not (unknown or undecided.holds(info.name)):
            found.append(info)
        elif unknown:
            held, why = held + 1, _UNKNOWN
        elif told := undecided.why_unreached(info.name):
            held, why = held + 1, told
    there = {info.path for info in listed} - {info.path for info in found}
    found += [info for info in listed if _are_sums_of_nothing(info, there, bound)]
    gone = {info.path for info in found}
    filled = {"", _FEED, *(info.path.rpartition("/")[0] for info in listed if info.path not in gone)}
    return Leftovers(found, held, why, [one for one in reversed(folders) if one not in filled])


def _folders(place: Files, depth: int, folder: str = "") -> Iterator[str]:
    """A table's folder, and those in it that are called as a value of a column is, as deep as there are columns."""
    yield folder
    if not depth:
        return
    for name in place.folders(folder):
        if "=" in name:
            yield from _folders(place, depth - 1, f"{folder}/{name}".lstrip("/"))


def delete(place: Files, gone: Leftovers) -> None:
    """Delete these files, some at a time: who is killed amid it leaves the rest for the next time. Raises OSError."""
    if gone.files and not place.remote:
        # A version that takes others' place may be in memory alone until now, and with the power it would be lost together with them.
        place.sync_folders([""])
    paths = [info.path for info in gone.files]
    for first in range(0, len(paths), _DELETED_AT_ONCE):
        place.delete(paths[first : first + _DELETED_AT_ONCE])
    for folder in gone.folders:
        # One that others have put a file into meanwhile stays, and who wants it again makes it.
        place.remove_folder(folder)


def _named(place: Files, bound: Bound, undecided: Undecided, taken: TakenAway) -> Named:
    for attempt in range(_ATTEMPTS):
        version = newest_version(place)
        if version is None:
            break
        try:
            live = live_files.read(place, version)
            return named(place, live, bound.since, undecided.is_of, taken)
        except FileNotFoundError:
            if attempt + 1 == _ATTEMPTS:
                raise
    raise FileNotFoundError(f"the log of {place} is gone")


def _is_old_leftover(info: Info, keep: Named, bound: Bound) -> bool:
    name = info.name
    if info.path in keep.kept:
        return False
    if info.path in keep.expired:
        return info.modified < bound.since
    # Of a change feed nothing is ours.
    ours = made_by(name) is not None and not info.path.startswith(f"{_FEED}/")
    is_of_a_table = ours or _OF_OTHERS.fullmatch(name) is not None
    return is_of_a_table and info.modified < min(bound.since, bound.now - _LEAST_MILLISECONDS)


def _are_sums_of_nothing(info: Info, there: set[str], bound: Bound) -> bool:
    found = _SUMS.fullmatch(info.name)
    if found is None or info.modified >= bound.since:
        return False
    if info.path.removesuffix(info.name) + found["of"] in there:
        return False
    return made_by(found["of"]) is not None or _OF_OTHERS.fullmatch(found["of"]) is not None
