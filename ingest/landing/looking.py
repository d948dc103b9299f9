"""Looking for files that landed: by one listing, held against the register, and what is new in it registered.

A million files that are known cost a listing and two digests each; nothing of them is held.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import blake2b
from itertools import islice
from typing import Any

from distributary.errors import PipelineError
from distributary.ingest.landing.archiving import put_back
from distributary.ingest.landing.known import digest, state_of
from distributary.ingest.landing.numbers import Landed, is_as_registered
from distributary.ingest.landing.refused import Refused
from distributary.ingest.landing.register import Register
from distributary.ingest.landing.told import shown
from distributary.ingest.landing.wanted import Wanted
from distributary.ingest.settings.source.landing import FilesSource
from distributary.ingest.storage.contract import Files, Info

_log = logging.getLogger(__name__)

# Files of a listing that are held against the register together.
_AT_ONCE = 10_000

# Files that one entry of the register has at most; and bytes, where they are known by them: to read these takes long, and who ends meanwhile
# has done it for nothing.
_AN_ENTRY, _HASHED_BYTES = 10_000, 4 << 30

_READ_BYTES = 1 << 20

_THREADS_IN_STORES = 16


class Rewritten(PipelineError):
    """A file that was read has other content now, and the settings say `fail`."""

    fatal = True


@dataclass
class Looking:
    """Looks for files in a folder, on behalf of one run.

    folder    where they land
    chosen    what the settings say of them
    register  where they are registered
    now       the time, in seconds since the epoch
    stop      ends a look, of which as much is registered then as was looked at
    """

    folder: Files
    chosen: FilesSource
    register: Register
    now: Callable[[], float] = time.time
    stop: threading.Event = field(default_factory=threading.Event)
    # Those that are known and old enough to be archived, each with its number, as the newest look found them, and how many there were.
    old: list[tuple[int, Info]] = field(default_factory=list, init=False)
    _met_old: int = field(default=0, init=False)
    _changed: Collection[int] = field(default=(), init=False)

    def look(self, read: int | None, changed: Collection[int] = ()) -> None:
        """Register what is new. `read` is the number before which all files were given to batches; where nobody knows, what changed is left.

        changed  the numbers of files that are not where they were: one that has such a one's content is read in its place

        One that cannot be read is told, left for the next look, and keeps no other from being registered. Raises Rewritten where one of
        them has other content and that is to fail, OSError where the folder cannot be listed, or nothing at all was ever read of it.
        """
        self.register.refresh()
        self.old, self._met_old, self._changed = [], 0, changed
        self.refused.begin()
        self._wanted.begin()
        listed, there = self.folder.walk(passing=self.refused.pass_by), 0
        while part := list(islice(listed, _AT_ONCE)):
            there += len(part)
            # The next look finds them.
            put_back(self.folder, part)
            new = self._not_known(self._single(filter(self._wanted.takes, part)))
            for some in self._portions(sorted(new, key=lambda one: (one.modified, one.path))):
                if self.stop.is_set():
                    return
                self._register(some, read)
        self.register.bring_together()
        if self.refused.met and not self.register.next_number:
            # What concerns all files is no matter of one of them.
            raise self.refused.met[0]
        self.refused.tell()
        if not self.register.next_number:
            # Who writes as the pages say has a file under a hidden name until it is whole.
            self.refused.tell_of_none(there - self._wanted.unshown, self._wanted.why_none(there))

    def _portions(self, infos: Sequence[Info]) -> Iterator[Sequence[Info]]:
        """Files that are registered together, one behind the other."""
        first, held = 0, 0
        for place, info in enumerate(infos):
            size = info.size if self._by == "content" else 0
            held += size
            if place > first and (place - first >= _AN_ENTRY or held > _HASHED_BYTES):
                yield infos[first:place]
                first, held = place, size
        if infos:
            yield infos[first:]

    def postpone(self, files: Sequence[Landed]) -> bool:
        """Have files that are being written to wait behind all others; not where another run registers something first."""
        first = self.register.next_number
        return self.register.append(
            [replace(one, number=first + place, instead_of=one.number) for place, one in enumerate(files)]
        )

    def lose(self, files: Sequence[Landed]) -> bool:
        """Have files that went away told as gone by their numbers, whatever comes in their places; not where another run registers something first."""
        told = [replace(one, kind="gone") for one in files]
        return all(
            self.register.append(told[first : first + _AN_ENTRY]) for first in range(0, len(told), _AN_ENTRY)
        )

    @cached_property
    def dice(self) -> random.Random:
        """By which files are chosen to be archived where there are more than are held."""
        return random.Random()  # noqa: S311 - it hides nothing

    @cached_property
    def refused(self) -> Refused:
        """What could not be read."""
        return Refused(self.folder)

    @cached_property
    def _by(self) -> str:
        return self.chosen.identity or ("etag" if self.folder.url.startswith("s3") else "content")

    def unreadable(self, files: Sequence[Landed]) -> list[Landed]:
        """Those of some files that are there and cannot be read, which are told. Raises ConnectionError where their place does not answer."""
        with ThreadPoolExecutor(_THREADS_IN_STORES if self.folder.remote else 1) as pool:
            found = zip(files, pool.map(self._can_read, files), strict=True)
            refused = [file for file, readable in found if not readable]
        self.refused.tell()
        return refused

    def _can_read(self, file: Landed) -> bool:
        with suppress(FileNotFoundError):
            return self.refused.tried(file.path, file.size, _first_byte) is not None
        return True

    def is_settling(self, info: Info) -> bool:
        """Whether a file was written to so short a time ago that more may come."""
        return self._wanted.is_settling(info)

    @cached_property
    def _wanted(self) -> Wanted:
        return Wanted(self.chosen, self.now)

    def _single(self, infos: Iterable[Info]) -> list[Info]:
        """Each path once: of two objects whose keys differ by a slash at the end, the one that can be asked for."""
        found = dict[str, Info]()
        for one in infos:
            if found.setdefault(one.path, one) is not one:
                self.refused.beyond_reach(one.path)
        return list(found.values())

    def _not_known(self, infos: Sequence[Info]) -> list[Info]:
        numbers, states = self.register.paths.get_all([digest(one.path) for one in infos])
        oldest = 0.0
        self._note_old(infos, numbers.tolist(), states.tolist())
        if self.chosen.ignore_older_than is not None:
            oldest = (self.now() - self.chosen.ignore_older_than) * 1000
        known = list(zip(infos, numbers.tolist(), states.tolist(), strict=True))
        others = self._of_other_keys(
            [
                (one, state)
                for one, number, state in known
                if number >= 0 and state != state_of(one.size, one.tag)
            ]
        )
        return [
            one
            for one, number, state in known
            if (number < 0 and one.modified >= oldest)
            or (
                number >= 0
                and one not in others
                and (state != state_of(one.size, one.tag) or self._is_nowhere(number))
            )
        ]

    def _of_other_keys(self, changed: Sequence[tuple[Info, int]]) -> Collection[Info]:
        """Those of files that were listed otherwise than they are known, and are as they are known: of two objects whose keys differ by a slash at the end, a listing may tell the other one in a later part."""
        if not self.folder.remote or not changed:
            return frozenset()
        with ThreadPoolExecutor(_THREADS_IN_STORES) as pool:
            found = zip(changed, pool.map(self._is_as_known, changed), strict=True)
            others = frozenset(one for (one, _), is_as_known in found if is_as_known)
        for one in others:
            self.refused.beyond_reach(one.path)
        return others

    def _is_as_known(self, one: tuple[Info, int]) -> bool:
        info, state = one
        with suppress(PermissionError):
            now = self.folder.info(info.path)
            return now is not None and state == state_of(now.size, now.tag)
        return False

    def _is_nowhere(self, number: int) -> bool:
        """Whether what has this number is not read by it: then any file that has the same content is."""
        return self.register.is_nobodys(number) or number in self._changed

    def _note_old(self, infos: Sequence[Info], numbers: Sequence[int], states: Sequence[int]) -> None:
        if self.chosen.archive_to is None:
            return
        before = (self.now() - self.chosen.archive_after) * 1000
        for one, number, state in zip(infos, numbers, states, strict=True):
            if number >= 0 and one.modified <= before and state == state_of(one.size, one.tag):
                self._met_old += 1
                self._keep_old((number, one))

    def _keep_old(self, file: tuple[int, Info]) -> None:
        """Have it among those that may be archived; of more than are held each has the same chance, as those that cannot be moved would be the first of each look."""
        if len(self.old) < _AT_ONCE:
            self.old.append(file)
        elif (place := self.dice.randrange(self._met_old)) < _AT_ONCE:
            self.old[place] = file

    def _register(self, infos: Sequence[Info], read: int | None) -> None:
        """Register these files; those that another run registers meanwhile are none of ours."""
        known = self._identities(infos)
        while infos:
            files = list(self._judged([one for one in infos if one.path in known], known, read))
            if not files or self.register.append(files):
                self._tell(files)
                return
            infos = self._not_known(infos)

    def _judged(self, infos: Sequence[Info], known: dict[str, str], read: int | None) -> Iterator[Landed]:
        number, here = self.register.next_number, dict[str, int]()
        for info in infos:
            file = Landed(number, info.path, info.size, info.modified, info.tag, known[info.path])
            found = None if self._is_beyond_reach(file) else self._judge(file, here, read)
            if found is None:
                continue
            number += found.is_numbered
            if found.kind == "new":
                here[found.identity] = found.number
            yield found

    def _is_beyond_reach(self, file: Landed) -> bool:
        """Whether it is one that was registered, and listed and not there once more: then nobody waits for its number."""
        known = self.register.paths.get(digest(file.path))
        if known is None or not self.register.is_nobodys(known[0]) or self._is_there(file.path):
            return False
        self.refused.beyond_reach(file.path)
        return True

    def _judge(self, file: Landed, here: dict[str, int], read: int | None) -> Landed | None:
        """What becomes of a file; None where that is to be seen later."""
        if file.identity in here:
            return replace(file, number=here[file.identity], kind="same")
        same = self._somebodys(self.register.contents.get(digest(file.identity)))
        before = same or self._somebodys(self.register.paths.get(digest(file.path)))
        if before is None:
            return file
        if read is None:
            return None
        if before[0] >= read:
            return self._unread(file, before[0], is_same=same is not None)
        if same is not None:
            return replace(file, number=same[0], kind="same")
        if self.chosen.on_rewrite == "fail":
            raise Rewritten(
                f"{self.folder}/{file.path} was read as file {before[0]} and has other content now. Put back what it was, move what is new to "
                "another name, or write source.files.on_rewrite: ingest or quarantine"
            )
        return file if self.chosen.on_rewrite == "ingest" else replace(file, kind="rewritten")

    def _somebodys(self, found: tuple[int, int] | None) -> tuple[int, int] | None:
        """What is known, unless it is by a number that nothing is read by: then nobody has read it."""
        return None if found is None or self.register.is_nobodys(found[0]) else found

    def _unread(self, file: Landed, number: int, *, is_same: bool) -> Landed:
        """One that was not read yet is read from where it is now, as it is now; a copy of it is not needed as long as it is there."""
        (earlier,) = self.register.between(number, number + 1)
        if is_same and self._is_still(earlier):
            return replace(file, number=number, kind="same")
        if (
            is_same
            and number in self._changed
            and _is_listed(file, earlier)
            and not self._is_there(file.path)
        ):
            self.refused.beyond_reach(file.path)
            return replace(file, number=number, kind="same", instead_of=number)
        # What is only told of, as it was rewritten, is not read by being written once more.
        return replace(file, kind=earlier.kind, instead_of=number)

    def _is_there(self, path: str) -> bool:
        with suppress(PermissionError):
            return self.folder.info(path) is not None
        return True

    def _is_still(self, earlier: Landed) -> bool:
        try:
            return is_as_registered(earlier, self.folder.info(earlier.path))
        except PermissionError as error:
            # It waits, as others do that cannot be read, and its copies with it.
            self.refused.add(earlier.path, error)
            return True

    def _identities(self, infos: Sequence[Info]) -> dict[str, str]:
        """What each file is known by; none of those that went away meanwhile, or cannot be read."""
        if self._by != "content":
            return {
                one.path: f"{one.size} {one.tag}" + (f" {one.path}" if self._by == "path" else "")
                for one in infos
            }
        with ThreadPoolExecutor(_THREADS_IN_STORES if self.folder.remote else 1) as pool:
            found = zip(infos, pool.map(self._content, infos), strict=True)
            return {one.path: identity for one, identity in found if identity is not None}

    def _content(self, info: Info) -> str | None:
        try:
            return self.refused.tried(info.path, info.size, _digest)
        except FileNotFoundError:
            self.refused.missed(info.path)
            return None

    def _tell(self, files: Sequence[Landed]) -> None:
        for kind, what in (
            (
                "same",
                "files have the content of others that are known, as renamed ones have, and are not read again",
            ),
            (
                "rewritten",
                "files were read and have other content now: they are not read, and quarantine names them",
            ),
        ):
            paths = [one.path for one in files if one.kind == kind]
            if paths:
                _log.warning("%s: %s %s: %s", self.folder, len(paths), what, shown(paths))


def _is_listed(file: Landed, earlier: Landed) -> bool:
    return (file.path, file.size, file.tag) == (earlier.path, earlier.size, earlier.tag)


def _first_byte(file: Any) -> bytes:
    found: bytes = file.read(1)
    return found


def _digest(file: Any) -> str:
    hashed = blake2b(digest_size=16)
    while part := file.read(_READ_BYTES):
        hashed.update(part)
    return hashed.hexdigest()
