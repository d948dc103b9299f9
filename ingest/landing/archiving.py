"""Files that were read moved to another place: copied there whole, and then deleted where they landed."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from hashlib import blake2b

from distributary.ingest.storage.contract import Files, Info
from distributary.ingest.storage.posix import PosixFiles

_log = logging.getLogger(__name__)

_PIECE = 8 << 20


def move(folder: Files, to: Files, files: Iterable[tuple[int, Info]]) -> int:
    """How many of these files, each with its number, were moved, with their paths; one that was written to since stays.

    Where another file is that was moved before from the same path, the number comes into the name. What fails is done another time.
    """
    moved = 0
    for number, file in files:
        try:
            if not _is_as_it_was(folder, file):
                continue
            _copy(folder, to, number, file)
            moved += _deleted(folder, file)
        except OSError as error:
            _log.warning("%s/%s stays there for now, and is not archived: %s", folder, file.path, error)
    return moved


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


def _copy(folder: Files, to: Files, number: int, file: Info) -> None:
    """Have a file there, under its own path or, where another one has that, one with its number."""
    above, slash, name = file.path.rpartition("/")
    first, dot, rest = name.partition(".")
    for path in (file.path, f"{above}{slash}{first}.{number}{dot}{rest}"):
        there = to.info(path)
        if there is None:
            _put(folder, to, file, path)
            return
        # An earlier attempt has put it there.
        if there.size == file.size and _digest(folder, file) == _digest(to, there):
            to.sync([path])
            return
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
