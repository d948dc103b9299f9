"""A folder that counts what it is asked for: what grows with a place's age should not be asked for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from distributary.ingest.storage.contract import Info
from distributary.ingest.storage.posix import PosixFiles


class AskedFiles(PosixFiles):
    """`infos` counts the files that were asked about one by one, `told` the names that listings told."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.infos = self.told = 0

    def info(self, path: str) -> Info | None:
        self.infos += 1
        return super().info(path)

    def list(self, folder: str = "", after: str = "") -> Iterator[Info]:
        for info in super().list(folder, after):
            self.infos += 1
            yield info

    def names(self, folder: str = "", after: str = "") -> Iterator[str]:
        for name in super().names(folder, after):
            self.told += 1
            yield name
