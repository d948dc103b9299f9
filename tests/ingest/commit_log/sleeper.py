"""A process that runs a log and stops itself (SIGSTOP) at one call to the store; woken, it goes on as if nothing had been.

    sleeper.py FOLDER BATCHES CALL PATH before|after

It decides so many batches, then stops at its next call of this name on a path that begins so. What it came to is its last line.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.ingest.commit_log.logs import begun, data_file, decided
from typing_extensions import Buffer

from distributary.errors import Fenced
from distributary.ingest.commit_log import writing
from distributary.ingest.commit_log.writing import Writer
from distributary.ingest.storage.posix import PosixFiles


class Sleeper(PosixFiles):
    """A folder; `stop_at` is the call at which the process stops, once."""

    stop_at: tuple[str, str, str] | None = None

    def put_new(self, path: str, data: Buffer, *, durable: bool = True) -> bool:
        self._reach("put_new", path, "before")
        done = super().put_new(path, data, durable=durable)
        self._reach("put_new", path, "after")
        return done

    def names(self, folder: str = "", after: str = "") -> Iterator[str]:
        self._reach("names", folder, "before")
        found = super().names(folder, after)
        self._reach("names", folder, "after")
        return found

    def delete(self, paths: Iterable[str]) -> None:
        for path in paths:
            super().delete([path])
            self._reach("delete", path, "after")

    def _reach(self, call: str, path: str, when: str) -> None:
        wanted = self.stop_at
        if wanted is not None and (call, when) == (wanted[0], wanted[2]) and path.startswith(wanted[1]):
            self.stop_at = None
            os.kill(os.getpid(), signal.SIGSTOP)


def go_on(files: Sleeper, writer: Writer, batches: int) -> None:
    """So many batches, each closed behind."""
    for _ in range(batches):
        writer.settle(decided(writer, data_file(files, writer)).number)
        writer.close()


def main(folder: str, batches: str, call: str, path: str, when: str) -> None:
    """Run the process."""
    writing.KEPT, writing.AT_ONCE = 3, 2
    files = Sleeper(Path(folder))
    try:
        writer = begun(files)
        go_on(files, writer, int(batches))
        files.stop_at = (call, path, when)
        go_on(files, writer, 8)
    except Fenced:
        print("fenced")
    else:
        print("went on")


if __name__ == "__main__":
    main(*sys.argv[1:])
