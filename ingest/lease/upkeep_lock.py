"""Upkeep of the tables in a folder: any number at a time, and none while a table there is put aside and made anew.

A compaction that has read the one would commit to the log of the other, beyond its end. In a store no table is put aside.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from distributary.errors import PipelineError
from distributary.files import make_folder
from distributary.ingest.lease.folder_lock import HandleLock
from distributary.ingest.storage.contract import Files

# Beside the owners' records, under the root.
_FOLDER, _FILE = ".distributary", "upkeep.lock"


@contextmanager
def upkeep_under_way(root: Files) -> Iterator[None]:
    """Inside, no table under the root is put aside. Raises PipelineError while one is.

    Where a file system has no locks nobody can put one aside either.
    """
    with _held(root, fcntl.LOCK_SH, "a table is just being put aside there: say it again"):
        yield


@contextmanager
def no_upkeep(root: Files) -> Iterator[None]:
    """Inside, no upkeep is under way. Raises PipelineError while one is."""
    why = "upkeep is under way there (`distributary maintain`, or a run's own): wait until it is done, or end it, and say it again"
    with _held(root, fcntl.LOCK_EX, why):
        yield


@contextmanager
def _held(root: Files, how: int, otherwise: str) -> Iterator[None]:
    # Where there is no folder there is no table either.
    if root.remote or not Path(root.url).is_dir():
        yield
        return
    folder = Path(root.url) / _FOLDER
    lock = HandleLock(folder / _FILE, partial(_flock, how))
    try:
        make_folder(folder)
        mine = lock.acquire()
    except OSError as error:
        if how == fcntl.LOCK_EX:
            raise PipelineError(f"{error}; nothing was changed") from error
        mine = True
    if not mine:
        raise PipelineError(f"{root}: {otherwise}")
    try:
        yield
    finally:
        lock.release()


def _flock(how: int, handle: int, _: int) -> None:
    fcntl.flock(handle, how | fcntl.LOCK_NB)
