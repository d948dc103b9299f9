"""Folders of this machine for the files that Spark keeps of a query. A query that begins anew gets another one.

Each is locked for as long as its query lives, so that the next query removes what a killed process left.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from distributary.ingest.checkpoint.spark_files import SparkFiles

_PREFIX = "distributary-query-"


@contextmanager
def scratch_folder() -> Iterator[SparkFiles]:
    """A folder for one query's files, which goes with it; what killed processes left beside it goes first."""
    sweep()
    folder, lock = _made()
    try:
        yield SparkFiles(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def sweep() -> int:
    """How many folders of processes that are dead were removed."""
    return sum(_removed(folder) for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"))


def _made() -> tuple[Path, int]:
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        # A sweep may have been at it before it was locked: then it is gone, or about to go.
        lock = _locked(folder)
        if lock is not None:
            if folder.exists():
                return folder, lock
            os.close(lock)


def _removed(folder: Path) -> bool:
    lock = _locked(folder)
    if lock is None:
        return False
    # Under its lock: somebody may just be about to use it.
    shutil.rmtree(folder, ignore_errors=True)
    os.close(lock)
    return True


def _locked(folder: Path) -> int | None:
    """A handle that holds the folder's lock; None where another holds it, it is another user's, or gone."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(handle)
            raise
        return handle
    return None
