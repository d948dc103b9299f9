"""Files that are there whole or not at all, on a POSIX file system, through a crash at any instant."""

from __future__ import annotations

import ctypes
import fcntl
import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from errno import EINVAL, ELOOP, ENOENT, ENOTDIR, ENOTSUP, EPERM
from functools import cache
from hashlib import sha256
from pathlib import Path
from socket import gethostname
from typing import final

from distributary.errors import PipelineError, SetupError

# What link(2) answers on a file system that has no hard links.
_NO_LINKS = (EPERM, ENOTSUP)

# What scandir(3) answers where there is no folder; a link that leads in a circle is none.
NO_FOLDER = (ENOENT, ENOTDIR, ELOOP)

_TEMPORARY = ".tmp"

_LOOKED_EVERY_SECONDS = 0.05


class NotSafe(OSError):
    """A file is there, and nobody knows whether it survives a loss of power: a disk did not take its name."""


def write_once(path: Path, data: bytes, *, durable: bool = True) -> bool:
    """Whether this call made the file; False when it was there already, which then stays as it is.

    Among any number of threads and processes calling it at once for one path exactly one gets True. A file that is not
    `durable` costs no sync, which is milliseconds: it survives a kill -9, not a loss of power, and its folder must be there.
    Raises SetupError on a file system without hard links, NotSafe where the file is there and its name may not last.
    """
    with _temporary(path, data, durable) as temporary:
        made = _link(temporary, path)
    if durable:
        try:
            # Also when another was first: a caller that goes on because the file is there relies on it staying there.
            sync_folder(path.parent)
        except OSError as error:
            raise NotSafe(*error.args) from error
    return made


def replace(path: Path, data: bytes) -> None:
    """Put a file in the place of `path`; a reader sees the old one or the new one, never a mixture."""
    with _temporary(path, data, durable=True) as temporary:
        os.replace(temporary, path)
    sync_folder(path.parent)


def sweep(folder: Path, older_than_seconds: float = 3600.0) -> int:
    """How many leftovers of killed writers were removed from a folder.

    With 0 seconds only for who knows that nobody is writing there, such as the holder of a lease.
    """
    newest = time.time() - older_than_seconds
    try:
        # Not by a pattern, which costs several times as much where there are a hundred thousand other files.
        with os.scandir(folder) as entries:
            left = [entry.name for entry in entries if is_temporary(entry.name)]
    except OSError as error:
        if error.errno not in NO_FOLDER:
            raise
        return 0
    return sum(_removed(folder / name, newest) for name in left)


def tag_of(path: str | os.PathLike[str]) -> tuple[int, int, int] | None:
    """What tells a file from the one that took its place; None where it cannot be looked at."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def make_folder(path: Path) -> None:
    """Make a folder and what is missing above it, so that it survives a loss of power."""
    if path.is_dir():
        return
    make_folder(path.parent)
    path.mkdir(exist_ok=True)
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Make the names in a folder durable: a file's own fsync does not cover its name."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# From so many on, what is asked of a whole file system takes less than what is asked of each file: 0.02 against 0.2 s for 1,000.
# Below, nobody waits for what others have written there.
MANY = 250

# What fsync(2) answers where there is nothing to sync with.
_NO_SYNC = (EINVAL, ENOTSUP)

# A journal writes what many threads ask for at once.
_AT_ONCE = 16


def sync_all(paths: Iterable[str], folders: Iterable[str] = ()) -> None:
    """Make what is in files, and which names are in folders, survive a loss of power.

    Raises FileNotFoundError for one that is not there, another OSError where a disk did not take what was written.
    """
    wanted, names = list(dict.fromkeys(paths)), list(dict.fromkeys(folders))
    if len(wanted) + len(names) >= MANY and hasattr(_LIBC, "syncfs"):
        sync_file_systems([*wanted, *names])
        return
    # Names last: one that is there without what it names is of no use.
    _sync_each(wanted)
    _sync_each(names)


def _sync_each(paths: Sequence[str]) -> None:
    if len(paths) < _AT_ONCE // 4:
        for path in paths:
            _sync(path)
        return
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(_sync, paths))


@cache
def machine() -> str:
    """What tells this machine, as long as it runs, from others: what one process wrote, another one here can sync."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return gethostname()


def sync_file_systems(paths: Iterable[str]) -> None:
    """Make everything survive a loss of power that anybody wrote to the file systems of these files and folders."""
    # Tables may be on several, by links.
    for path in {os.stat(path).st_dev: path for path in paths}.values():
        _sync_file_system(path)


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some file systems have no such call for folders: what they promise is theirs to say.
        if error.errno not in _NO_SYNC:
            raise
    finally:
        os.close(descriptor)


_LIBC = ctypes.CDLL(None, use_errno=True)


def _sync_file_system(path: str) -> None:
    if not hasattr(_LIBC, "syncfs"):
        os.sync()
        return
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if _LIBC.syncfs(descriptor):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), path)
    finally:
        os.close(descriptor)


def temporary_name() -> str:
    """A name that nobody else has, for what is not whole yet."""
    return f".{uuid.uuid4().hex}{_TEMPORARY}"


def is_temporary(name: str) -> bool:
    """Whether a file is one that is not whole yet, or never will be."""
    return name.startswith(".") and name.endswith(_TEMPORARY)


@contextmanager
def _temporary(path: Path, data: bytes, durable: bool) -> Iterator[Path]:
    """The data under a name in the same folder that is gone afterwards."""
    if durable:
        make_folder(path.parent)
    temporary = path.with_name(temporary_name())
    try:
        with temporary.open("xb") as file:
            file.write(data)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)


def _link(temporary: Path, path: Path) -> bool:
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        raise SetupError(
            f"the file system under {path.parent} has no hard links ({error.strerror}); "
            "put this folder on a POSIX file system, such as a local disk or NFS"
        ) from error
    return True


def _removed(file: Path, newest: float) -> bool:
    with suppress(FileNotFoundError):
        if file.stat().st_mtime <= newest:
            file.unlink()
            return True
    return False


@contextmanager
def file_lock(path: Path) -> Iterator[None]:
    """Wait until nobody else holds `path`, and hold it inside the `with` block.

    The file stays behind: deleting it would let two holders lock two files of one name.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


@contextmanager
def folder_lock(path: Path, seconds: float) -> Iterator[None]:
    """The same with a folder that is there, in which nothing stays behind; where it has no locks, as over some networks, nobody waits.

    Raises PipelineError where somebody holds it for longer than so many seconds, as one that stands still does.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with suppress(OSError):
            if not _is_locked(descriptor, seconds):
                raise PipelineError(
                    f"{path}: another process has held this folder's lock for {seconds:.0f} seconds, and may be standing still. "
                    "Look for it (`fuser` names it), end it or let it go on, and run again"
                )
        yield
    finally:
        os.close(descriptor)


def _is_locked(descriptor: int, seconds: float) -> bool:
    """Whether a lock was had within this time. Raises OSError where there are no locks."""
    until = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                return False
            time.sleep(_LOOKED_EVERY_SECONDS)
        else:
            return True


@final
class TemporaryFolder:
    """A folder of this machine, for nobody else to look into, of a process that may be killed.

    It is locked for as long as that lives: whoever makes the next one of its kind removes what dead ones left, and a program that tidies up
    passes by what is in use (systemd-tmpfiles does). Where a file system has no locks, what dead ones left stays.
    """

    def __init__(self, kind: str) -> None:
        """`kind` is what its name begins with; behind it stands which machine it is of."""
        sweep_temporary(kind)
        self.path, self._lock = _made(kind)
        self._made_by = os.getpid()

    def close(self) -> None:
        """Remove it with all that is in it. Nothing happens in a forked child, which ends with what its parent has registered."""
        if os.getpid() == self._made_by:
            shutil.rmtree(self.path, ignore_errors=True)
            lock, self._lock = self._lock, None
            if lock is not None:
                os.close(lock)


@contextmanager
def temporary_folder(kind: str) -> Iterator[Path]:
    """The same for as long as the block lasts."""
    folder = TemporaryFolder(kind)
    try:
        yield folder.path
    finally:
        folder.close()


def sweep_temporary(kind: str) -> int:
    """How many such folders were removed of processes of this machine that are dead."""
    return sum(_cleared_away(folder) for folder in Path(tempfile.gettempdir()).glob(f"{_beginning(kind)}*"))


def _beginning(kind: str) -> str:
    # Several machines may share the place, and see no locks of each other on folders.
    return f"{kind}{sha256(gethostname().encode()).hexdigest()[:8]}-"


class _NoLocks(OSError):
    """A file system has none."""


def _made(kind: str) -> tuple[Path, int | None]:
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_beginning(kind)))
        try:
            lock = _locked(folder)
        except _NoLocks:
            return folder, None
        except OSError:
            os.rmdir(folder)
            raise
        # A sweep may have been at it before it was locked: then it is gone, or about to go.
        if lock is not None:
            if folder.exists():
                return folder, lock
            os.close(lock)


def _cleared_away(folder: Path) -> bool:
    lock = None
    # Another user's, or where there are no locks.
    with suppress(OSError):
        lock = _locked(folder)
    if lock is None:
        return False
    # Under its lock: somebody may just be about to use it.
    shutil.rmtree(folder, ignore_errors=True)
    os.close(lock)
    return True


def _locked(folder: Path) -> int | None:
    """A handle that holds the folder's lock; None where another holds it, or it is gone."""
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(handle)
        if isinstance(error, BlockingIOError):
            return None
        raise _NoLocks(*error.args) from error
    return handle
