"""A folder that everybody sees: a local disk, NFS, or whatever else is mounted and has hard links."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISREG
from typing import BinaryIO

from typing_extensions import Buffer

from distributary import files
from distributary.ingest.storage.contract import Info
from distributary.ingest.storage.lost_answers import put_or_compare
from distributary.ingest.storage.place import checked_path
from distributary.ingest.storage.stream import Upload


class PosixFiles:
    """The files of a folder, which need not be there yet. See `contract.Files`."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        """`root` is absolute."""
        self._root = os.fspath(root)

    def __reduce__(self) -> tuple[type[PosixFiles], tuple[str]]:
        return PosixFiles, (self._root,)

    @property
    def url(self) -> str:
        """The folder's path."""
        return self._root

    @property
    def options(self) -> Mapping[str, str]:
        """None."""
        return {}

    def read(self, path: str) -> bytes:
        """The file's content."""
        return Path(self._at(path)).read_bytes()

    def put(self, path: str, data: Buffer) -> None:
        """Put a file here, in the place of what may be there."""
        files.replace(Path(self._at(path)), _bytes(data))

    def put_new(self, path: str, data: Buffer, *, durable: bool = True) -> bool:
        """Whether the file that is here now is this one. Raises SetupError on a file system without hard links."""
        file, content = Path(self._at(path)), _bytes(data)

        def create() -> None:
            if not files.write_once(file, content, durable=durable):
                raise FileExistsError(str(file))

        return put_or_compare(create, lambda: self.read(path), content)

    def info(self, path: str) -> Info | None:
        """The file's size, tag and time."""
        try:
            status = os.stat(self._at(path))
        except (FileNotFoundError, NotADirectoryError):
            return None
        return _info(path, status) if S_ISREG(status.st_mode) else None

    def list(self, folder: str = "", after: str = "") -> Iterator[Info]:
        """The files right in a folder, in order."""
        first = os.fsencode(after)
        found = [
            entry
            for entry in _entries(self._at(folder))
            if os.fsencode(entry.name) > first and not files.is_temporary(entry.name)
        ]
        for entry in sorted(found, key=lambda entry: os.fsencode(entry.name)):
            # Gone since it was listed, or something else than a file.
            with suppress(FileNotFoundError):
                if entry.is_file():
                    yield _info(f"{folder}/{entry.name}".lstrip("/"), entry.stat())

    def folders(self, folder: str = "") -> Sequence[str]:
        """The names of the folders right in a folder."""
        return sorted((entry.name for entry in _entries(self._at(folder)) if entry.is_dir()), key=os.fsencode)

    def delete(self, paths: Iterable[str]) -> None:
        """Delete files; nothing happens to those that are not there."""
        for path in paths:
            with suppress(FileNotFoundError, NotADirectoryError):
                os.unlink(self._at(path))

    def writer(self, path: str) -> Upload:
        """A stream into a file that is there once it is closed. It is not synced: a loss of power may take it."""
        target = Path(self._at(path))
        os.makedirs(target.parent, exist_ok=True)
        return Upload(_Draft.begun(target))

    def sweep(self, folder: str = "") -> int:
        """How many leftovers of killed writers were removed from a folder."""
        return files.sweep(Path(self._at(folder)), older_than_seconds=0.0)

    def _at(self, path: str) -> str:
        return f"{self._root}/{checked_path(path)}" if path else self._root


@dataclass(slots=True)
class _Draft:
    """A file under another name until it is whole."""

    file: BinaryIO
    temporary: Path
    target: Path

    @classmethod
    def begun(cls, target: Path) -> _Draft:
        temporary = target.with_name(files.temporary_name())
        return cls(temporary.open("xb"), temporary, target)

    def write(self, data: memoryview) -> None:
        self.file.write(data)

    def finish(self) -> None:
        self.file.close()
        os.rename(self.temporary, self.target)

    def abandon(self) -> None:
        self.file.close()
        self.temporary.unlink(missing_ok=True)


def _bytes(data: Buffer) -> bytes:
    return data if isinstance(data, bytes) else bytes(memoryview(data).cast("B"))


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _info(path: str, status: os.stat_result) -> Info:
    # An inode is given again to another file, but then not with the same time.
    tag = f"{status.st_ino}-{status.st_mtime_ns}"
    return Info(path, status.st_size, tag, status.st_mtime_ns // 1_000_000)
