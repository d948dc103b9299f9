"""One writer a checkpoint: held by this Python process and by its JVM, freed by the system when both are dead.

Two locks, because either half may outlive the other: after `kill -9` of Python its JVM goes on for about a second and
may still be writing Spark's files. Python's is `flock` on `lease/python.lock`; the JVM's is a `FileLock` on
`lease/jvm.lock`, which is fcntl's and which no child of the JVM inherits. Nobody but the holder ever opens
`jvm.lock`: closing any handle on it would free it.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path
from types import TracebackType
from typing import Any, final

from pyspark.sql import SparkSession

from distributary.errors import LeaseHeld
from distributary.files import make_folder, replace
from distributary.ingest.checkpoint.folder import Checkpoint
from distributary.ingest.checkpoint.jvm_lock import JvmLock

# How long a JVM whose Python is dead is waited for; it takes about a second to notice.
WAIT_SECONDS = 15.0

_ASK_AGAIN_SECONDS = 0.1


@final
class Lease:
    """The right to write into a checkpoint, for as long as the `with` block lasts. Raises LeaseHeld on entering.

    Without Spark (`distributary resolve`) Python holds both locks.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        spark: SparkSession | None,
        pipeline: str = "",
        wait_seconds: float = WAIT_SECONDS,
    ) -> None:
        self._checkpoint, self._spark, self._pipeline = checkpoint, spark, pipeline
        self._wait_seconds = wait_seconds
        self._python = _HandleLock(checkpoint.lease / "python.lock", fcntl.flock)
        second = checkpoint.lease / "jvm.lock"
        self._jvm: _HandleLock | JvmLock = (
            _HandleLock(second, fcntl.lockf) if spark is None else JvmLock(spark, second)
        )

    def __enter__(self) -> Lease:
        make_folder(self._checkpoint.lease)
        if not self._python.acquire():
            raise self._held()
        try:
            self._wait_for_jvm()
            replace(self._holder, json.dumps(self._me()).encode())
        except BaseException:
            self._free()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Before the locks: afterwards it would be the next holder's file.
        with suppress(OSError):
            self._holder.unlink()
        self._free()

    def confirm(self) -> None:
        """Raises LeaseHeld if the lease was lost: its folder removed by hand, or the JVM dead."""
        if not (self._python.is_held() and self._jvm.is_held()):
            raise LeaseHeld(
                f"the lease on checkpoint {self._checkpoint.folder} was lost: {self._checkpoint.lease} was removed or "
                "Spark's JVM died, so another run may have taken over; stop, and start again when no other run is alive"
            )

    @property
    def _holder(self) -> Path:
        return self._checkpoint.lease / "holder.json"

    def _wait_for_jvm(self) -> None:
        # Python's lock was free, so its holder is dead or never was; what is left is a JVM about to notice.
        until = time.monotonic() + self._wait_seconds
        while not self._jvm.acquire():
            if time.monotonic() >= until:
                raise self._held()
            time.sleep(_ASK_AGAIN_SECONDS)

    def _free(self) -> None:
        self._jvm.release()
        self._python.release()

    def _me(self) -> dict[str, Any]:
        since = datetime.now(timezone.utc).isoformat(timespec="seconds")
        return {"pid": os.getpid(), "host": socket.gethostname(), "since": since, "pipeline": self._pipeline}

    def _held(self) -> LeaseHeld:
        return LeaseHeld(
            f"checkpoint {self._checkpoint.folder} is held by {self._who()}; stop it or give this pipeline its own "
            "checkpoint"
        )

    def _who(self) -> str:
        try:
            holder = json.loads(self._holder.read_bytes())
            pipeline = f" (pipeline {holder['pipeline']})" if holder["pipeline"] else ""
            return f"pid {holder['pid']} on {holder['host']} since {holder['since']}{pipeline}"
        except (OSError, ValueError, KeyError, TypeError):
            return "another run that is just starting or ending"


class _HandleLock:
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
        except (BlockingIOError, PermissionError):  # fcntl's lock may answer EACCES for "held"
            os.close(handle)
            self._handle = None
            return False
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


_handles: weakref.WeakSet[_HandleLock] = weakref.WeakSet()


def _forget_in_child() -> None:
    # A forked child shares the handle, and with it the lock, beyond its parent's death.
    for lock in list(_handles):
        lock.release()


os.register_at_fork(after_in_child=_forget_in_child)
