"""A lock on a file, held by the driver's JVM for as long as that lives or until it is let go."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark.sql import SparkSession

_OVERLAPPING = "java.nio.channels.OverlappingFileLockException"

# Everything that talking to a JVM which is gone can raise.
_GONE = (Py4JError, Py4JNetworkError, OSError)


class JvmLock:
    """`java.nio.channels.FileLock` on a file. fcntl's under the hood: a child of the JVM does not inherit it."""

    def __init__(self, spark: SparkSession, path: Path) -> None:
        self._jvm: Any = spark.sparkContext._jvm
        self._gateway: Any = spark.sparkContext._gateway
        self._path = path
        self._name = f"distributary.lease:{path.resolve()}"
        self._channel: Any = None
        self._lock: Any = None
        self._file_key: str = ""

    def acquire(self) -> bool:
        """Whether it is held now; False if another JVM, another process or another lock of this JVM has it."""
        if self._lock is not None:
            return True
        # Asked first, because to open the file and close it again would free the lock this JVM has on it.
        if self._properties().putIfAbsent(self._name, self._jvm.java.lang.Object()) is not None:
            return False
        try:
            return self._lock_new()
        finally:
            if self._lock is None:
                self._properties().remove(self._name)

    def _lock_new(self) -> bool:
        channel = self._open()
        try:
            self._lock = _try_lock(channel)
        finally:
            if self._lock is None:
                channel.close()
        if self._lock is None:
            return False
        self._channel, self._file_key = channel, self._key()
        # Held by the JVM itself: Python lets go of its objects when it exits, before the JVM does, and a channel
        # that nothing refers to is closed by the collector, and the lock with it.
        self._properties().put(self._name, channel)
        return True

    def is_held(self) -> bool:
        """Whether it is held, and on the file that others see."""
        if self._lock is None:
            return False
        try:
            return bool(self._lock.isValid()) and self._key() == self._file_key
        except _GONE:
            return False

    def release(self) -> None:
        """Let go; nothing happens if it is not held or the JVM is gone, and the lock with it."""
        channel, self._channel, self._lock = self._channel, None, None
        if channel is not None:
            with suppress(*_GONE):
                channel.close()
                self._properties().remove(self._name)

    def _open(self) -> Any:
        option = self._jvm.java.nio.file.StandardOpenOption
        wanted = (option.CREATE, option.WRITE)
        options = self._gateway.new_array(self._jvm.java.nio.file.OpenOption, len(wanted))
        for place, one in enumerate(wanted):
            options[place] = one
        return self._jvm.java.nio.channels.FileChannel.open(self._java_path(), options)

    def _java_path(self) -> Any:
        return self._jvm.java.io.File(str(self._path)).toPath()

    def _key(self) -> str:
        """Which file the path leads to: device and inode."""
        with suppress(OSError):
            status = self._path.stat()
            return f"{status.st_dev}:{status.st_ino}"
        return ""

    def _properties(self) -> Any:
        return self._jvm.java.lang.System.getProperties()


def _try_lock(channel: Any) -> Any:
    try:
        return channel.tryLock()
    except Py4JJavaError as error:
        if error.java_exception.getClass().getName() == _OVERLAPPING:
            return None
        raise
