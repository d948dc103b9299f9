"""A lease in a folder: locks that the system frees when their holder is dead.

`flock` on `python.lock`, and fcntl's lock on `jvm.lock`, which earlier versions had their JVM hold. Nobody but the
holder ever opens `jvm.lock`: closing any handle on it would free it. Where a file system has no locks, a sign of life is given there as in a store.
"""

from __future__ import annotations

import fcntl
import os
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from errno import ENOLCK, ENOSYS, ENOTSUP
from pathlib import Path
from typing import final

from distributary.files import make_folder, replace
from distributary.ingest.lease.heartbeat import Heartbeat
from distributary.ingest.lease.keeper import HOLDER
from distributary.ingest.storage.posix import PosixFiles

# How long an earlier version's JVM is waited for whose Python is dead; it takes about a second to notice.
WAIT_SECONDS = 15.0

_ASK_AGAIN_SECONDS = 0.1

# What flock(2) answers on a file system without locks, as some are that are shared over a network.
_NO_LOCKS = (ENOLCK, ENOSYS, ENOTSUP)


@final
class FolderLock:
    """The locks in a folder, held by this process or not."""

    def __init__(self, folder: Path, wait_seconds: float = WAIT_SECONDS) -> None:
        self._folder, self._wait_seconds = folder, wait_seconds
        self._python = HandleLock(folder / "python.lock", fcntl.flock)
        self._jvm = HandleLock(folder / "jvm.lock", fcntl.lockf)
        self._sign: Heartbeat | None = None

    def look(self) -> None:
        """Nothing: a lock is asked in no time."""

    def acquire(self, holder: bytes) -> bool:
        """Whether they are held now, with who holds them for others to read."""
        make_folder(self._folder)
        try:
            if not self._python.acquire():
                return False
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
            self._sign = Heartbeat(PosixFiles(self._folder))
            return self._sign.acquire(holder)
        try:
            # Python's lock was free, so its holder is dead or never was; what is left is a JVM about to notice.
            if held := self._wait_for_jvm():
                replace(self._holder, holder)
        except BaseException:
            self._free()
            raise
        if not held:
            self._free()
        return held

    def holder(self) -> bytes:
        """What the holder wrote of himself. Raises FileNotFoundError."""
        return self._holder.read_bytes()

    def release(self) -> None:
        """Let go."""
        if self._sign is not None:
            self._sign.release()
            return
        # Before the locks: afterwards it would be the next holder's file.
        with suppress(OSError):
            self._holder.unlink()
        self._free()

    @property
    def _holder(self) -> Path:
        return self._folder / HOLDER

    def _wait_for_jvm(self) -> bool:
        until = time.monotonic() + self._wait_seconds
        while not self._jvm.acquire():
            if time.monotonic() >= until:
                return False
            time.sleep(_ASK_AGAIN_SECONDS)
        return True

    def _free(self) -> None:
        self._jvm.release()
        self._python.release()


class HandleLock:
    """A lock on a file by an open handle of this process, which no child keeps."""

    def __init__(self, path: Path, lock: Callable[[int, int], None]) -> None:
        self._path, self._lock = path, lock
        self._handle: int | None = None
        _handles.add(self)

    def acquire(self) -> bool:
        """Whether it is held now."""
        handle = self._handle
        if handle is None:
            handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            self._lock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(handle)
            self._handle = None
            if isinstance(
                error, (BlockingIOError, PermissionError)
            ):  # fcntl's lock may answer EACCES for "held"
                return False
            raise
        self._handle = handle
        # Taken on a file that was removed meanwhile, it would keep nobody out.
        if not self.is_held():
            self.release()
            return False
        return True

    def is_held(self) -> bool:
        """Whether it is held, and on the file that others see."""
        if self._handle is None:
            return False
        try:
            return os.path.samestat(os.fstat(self._handle), os.stat(self._path))
        except FileNotFoundError:
            return False

    def release(self) -> None:
        """Let go; nothing happens if it is not held."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


_handles: weakref.WeakSet[HandleLock] = weakref.WeakSet()


def _forget_in_child() -> None:
    # A forked child shares the handle, and with it the lock, beyond its parent's death.
    for lock in list(_handles):
        lock.release()


os.register_at_fork(after_in_child=_forget_in_child)
