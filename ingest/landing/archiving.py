"""Files that were read moved to another place: copied there whole, and then deleted where they landed.

`.distributary-archived/<register>.json` there says up to which number that has come, before anything of it is deleted. Only what is finished is
moved: a pipeline that goes on before that number was put back from an older copy, and nobody would ever read again what was moved since.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from hashlib import blake2b
from time import monotonic
from typing import TypeAlias

from distributary.errors import CheckpointMismatch, NewerFormat
from distributary.ingest.storage.contract import DRAFT_SECONDS, Files, Info
from distributary.ingest.storage.posix import PosixFiles

_log = logging.getLogger(__name__)

_PIECE = 8 << 20

_THREADS_IN_STORES = 16

# Of those that were copied and cannot be deleted so many are known.
_MOST_STAYING = 100_000

# So long no batch begins because files are moved.
_SECONDS = 10.0

FORMAT = 1

_SAID = ".distributary-archived"


Staying: TypeAlias = dict[tuple[int, Info], str]
"""Files that were copied and cannot be deleted, each with its number, and where their copies are."""


class Archive:
    """Where the files of one register are moved to.

    files  of that place
    """

    def __init__(self, files: Files, register: str) -> None:
        """`register` is the register's id. Nothing is asked yet."""
        self.files, self._path, self._register = files, f"{_SAID}/{register}.json", register
        self._moved: int | None = None
        self._staying: Staying = {}
        self._swept: set[str] = set()

    def require_unread(self, first: int, folder: Files) -> None:
        """Raises CheckpointMismatch where files from this number on were moved, and reading goes on there: what says so was put back from an older copy."""
        if (moved := self.up_to()) >= first:
            raise CheckpointMismatch(
                f"files up to number {moved} were moved to {self.files}, and this pipeline has read none from number {first} on: it was put back from "
                f"an older copy, and what was moved since would never be read again. Put the files of {self.files} back into {folder}: all of them where "
                "source.files.identity is `content`, by which those are known that were read before; otherwise only those that came there since the copy was "
                "made, under their old names and without on_rewrite: ingest. Let ignore_older_than leave none of them out. "
                f"Then delete {self.files}/{self._path}, and run again"
            )

    def move(
        self, folder: Files, files: Sequence[tuple[int, Info]], stop: threading.Event
    ) -> list[tuple[int, Info]]:
        """Move these files, each with its number, with their paths; what fails is done another time. Of one path the newest number counts.

        Answers those that this did not come to: what is left after some seconds, or once the run is to `stop`, as records wait meanwhile.
        """
        if not files:
            return []
        # Two at one path would copy and delete it side by side, and one of them what comes there behind the other.
        single = {file.path: (number, file) for number, file in sorted(files, key=lambda one: one[0])}
        ends, left = monotonic() + _SECONDS, list[tuple[int, Info]]()
        try:
            self._say(max(number for number, _ in files))
        except OSError as error:
            _log.warning("nothing is archived for now: %s", error)
            return list(single.values())

        def comes_to(one: tuple[int, Info]) -> bool:
            if not stop.is_set() and monotonic() < ends:
                return True
            left.append(one)
            return False

        move(folder, self.files, single.values(), comes_to, self._staying)
        # Behind that: to look through all that was ever archived may take as long.
        self._sweep({path.rpartition("/")[0] for path in single}, ends)
        return left

    def _sweep(self, folders: set[str], ends: float) -> None:
        """Delete what runs that died had copied in part into these folders, once in each, while there is time; a store keeps none of that."""
        for folder in sorted(folders - self._swept):
            if monotonic() >= ends:
                return
            self._swept.add(folder)
            # One may be written to, and not be listed. Another pipeline may be copying a file there.
            with suppress(OSError):
                self.files.sweep(folder, DRAFT_SECONDS)

    def _say(self, number: int) -> None:
        """Have it said that files up to this number may be gone from where they landed."""
        if self._moved is None or number > self._moved:
            moved = max(number, self.up_to())
            said = {"format": FORMAT, "register": self._register, "up_to": moved}
            self.files.put(self._path, json.dumps(said).encode())
            self._moved = moved

    def up_to(self) -> int:
        """The largest number that was moved; -1 where none was. Raises CheckpointMismatch, NewerFormat."""
        where = f"{self.files}/{self._path}"
        try:
            said = json.loads(self.files.read(self._path))
            if said["format"] > FORMAT:
                raise NewerFormat(
                    f"{where} has format {said['format']}, and this version of distributary reads up to {FORMAT}: a newer version wrote it. "
                    "Use the version that made it, or a later one"
                )
            return int(said["up_to"])
        except FileNotFoundError:
            return -1
        except (ValueError, TypeError, KeyError):
            raise CheckpointMismatch(
                f"{where} was cut off or edited: it says no more which files were archived; delete it, and see that none of {self.files} is to be read again"
            ) from None


def move(
    folder: Files,
    to: Files,
    files: Iterable[tuple[int, Info]],
    comes_to: Callable[[tuple[int, Info]], bool] = lambda one: True,
    staying: Staying | None = None,
) -> int:
    """How many of these files, each with its number, were moved, with their paths; one that was written to since stays.

    Where another file is that was moved before from the same path, the number comes into the name. What fails is done another time, and so is
    what it `comes_to` no more. What is among those that are `staying` is neither read nor told again.
    """
    known: Staying = {} if staying is None else staying

    def moved(one: tuple[int, Info]) -> bool:
        number, file = one
        before = copy = known.get(one)
        try:
            if not comes_to(one) or not _is_as_it_was(folder, file):
                return False
            copy = before if before and _is_there(to, before, file) else _copy(folder, to, number, file)
            known.pop(one, None)
            return _deleted(folder, file)
        except OSError as error:
            if before is None:
                _log.warning("%s/%s stays there for now, and is not archived: %s", folder, file.path, error)
            if copy is not None and len(known) < _MOST_STAYING:
                known[one] = copy
            return False

    with ThreadPoolExecutor(_THREADS_IN_STORES if folder.remote or to.remote else 1) as pool:
        return sum(pool.map(moved, files))


def put_back(folder: Files, files: Iterable[Info]) -> None:
    """Have those of some files where they were which a run that died had taken aside to delete them: nobody knows what it would have found."""
    if isinstance(folder, PosixFiles):
        for file in files:
            folder.put_back(file.path)


def _deleted(folder: Files, file: Info) -> bool:
    """Whether a file is deleted; what came meanwhile in its place is a file of its own."""
    if isinstance(folder, PosixFiles):
        return folder.delete_as(file)
    # No store that is reached here takes a condition with it: what comes within this moment is lost.
    if not _is_as_it_was(folder, file):
        return False
    folder.delete([file.path])
    return True


def _is_as_it_was(folder: Files, file: Info) -> bool:
    # Stores may tell a time more or less exactly.
    now = folder.info(file.path)
    return now is not None and (now.size, now.tag) == (file.size, file.tag)


def _is_there(to: Files, path: str, file: Info) -> bool:
    there = to.info(path)
    return there is not None and there.size == file.size


def _copy(folder: Files, to: Files, number: int, file: Info) -> str:
    """Have a file there, under its own path or, where another one has that, one with its number: which of both it is."""
    above, slash, name = file.path.rpartition("/")
    first, dot, rest = name.partition(".")
    for path in (file.path, f"{above}{slash}{first}.{number}{dot}{rest}"):
        there = to.info(path)
        if there is None:
            _put(folder, to, file, path)
            return path
        # An earlier attempt has put it there.
        if there.size == file.size and _digest(folder, file) == _digest(to, there):
            to.sync([path])
            return path
    raise FileExistsError(f"{to} has other files of its name, and of its number")


def _digest(files: Files, file: Info) -> bytes:
    hashed = blake2b(digest_size=16)
    with files.reader(file.path, file.size) as source:
        while piece := source.read(_PIECE):
            hashed.update(piece)
    return hashed.digest()


def _put(folder: Files, to: Files, file: Info, path: str) -> None:
    with folder.reader(file.path, file.size) as source, to.writer(path) as target:
        while piece := source.read(_PIECE):
            target.write(piece)
    to.sync([path])
