"""A folder that answers as a store does which is far away: what is asked for one after another takes for ever."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from threading import Barrier

from distributary.ingest.storage.posix import PosixFiles

_SECONDS = 10


class FarAway(PosixFiles):
    """Once `only_together` is said it answers reads, and lists folders, only where so many are asked for at once; `reads` counts the former."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.reads = 0
        self.together: Barrier | None = None

    def only_together(self, parties: int) -> None:
        """From now on; whoever asks one by one gets a BrokenBarrierError."""
        self.reads, self.together = 0, Barrier(parties, timeout=_SECONDS)

    def read(self, path: str) -> bytes:
        self._wait()
        self.reads += 1
        return super().read(path)

    def names(self, folder: str = "", after: str = "") -> Iterator[str]:
        self._wait()
        return super().names(folder, after)

    def _wait(self) -> None:
        if self.together is not None:
            self.together.wait()
