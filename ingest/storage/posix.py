"""A folder that everybody sees: a local disk, NFS, or whatever else is mounted and has hard links."""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from errno import ENAMETOOLONG, ENOTEMPTY
from pathlib import Path
from stat import S_ISREG
from typing import Any, BinaryIO, TypeVar

import pyarrow as pa
from typing_extensions import Buffer

from distributary import files
from distributary.ingest.storage.contract import Files, Info
from distributary.ingest.storage.lost_answers import put_or_compare
from distributary.ingest.storage.place import checked_path
from distributary.ingest.storage.stream import Upload

_Begun = TypeVar("_Begun")

# What a folder is called in which a file stands between being looked at and being deleted: by a name that nobody else gives.
_ASIDE = re.compile(r"\.distributary-[0-9a-f]{32}\.aside")


class PosixFiles:
    """The files of a folder, which need not be there yet. See `contract.Files`."""

    remote, drafts = False, True
    patience = None

    def __init__(self, root: str | os.PathLike[str]) -> None:
        """`root` is absolute."""
        self._root = os.fspath(root)

    def __reduce__(self) -> tuple[type[PosixFiles], tuple[str]]:
        return PosixFiles, (self._root,)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PosixFiles) and other._root == self._root

    def __hash__(self) -> int:
        return hash(self._root)

    def __str__(self) -> str:
        return self._root

    def below(self, folder: str) -> PosixFiles:
        """The files of a folder here."""
        return PosixFiles(self._at(folder))

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

    def ends(self, path: str, count: int) -> tuple[bytes, bytes]:
        """The first and the last bytes of the file."""
        with Path(self._at(path)).open("rb") as file:
            first = file.read(count)
            file.seek(max(file.seek(0, os.SEEK_END) - count, 0))
            return first, file.read(count)

    def reader(self, path: str, size: int) -> Any:
        """The file as Arrow reads parts of it."""
        # Names may be no UTF-8, and Arrow takes those as bytes alone.
        return pa.OSFile(os.fsencode(self._at(path)), "rb")

    def put(self, path: str, data: Buffer, *, named_later: bool = False) -> None:
        """Put a file here, in the place of what may be there."""
        if named_later:
            _put_in_place(self._at(path), data)
            return
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
        for entry in self._files_in(folder, after):
            with suppress(FileNotFoundError):
                yield _info(f"{folder}/{entry.name}".lstrip("/"), entry.stat())

    def names(self, folder: str = "", after: str = "") -> Iterator[str]:
        """The names of the files right in a folder, in order, by one look at the folder."""
        return (entry.name for entry in self._files_in(folder, after))

    def walk(self, folder: str = "", passing: Callable[[OSError], None] | None = None) -> Iterator[Info]:
        """The files in a folder and in all folders below."""
        left = [folder]
        while left:
            here, below = left.pop(), list[str]()
            try:
                with _scanned(self._at(here)) as entries:
                    for entry in entries:
                        path = f"{here}/{entry.name}".lstrip("/")
                        if entry.is_dir(follow_symlinks=False):
                            below.append(path)
                        elif _is_file(entry):
                            with suppress(FileNotFoundError):
                                yield _info(path, entry.stat())
            except OSError as error:
                # One that is nested deeper than a path may name is as one that may not be looked into.
                is_shut = isinstance(error, PermissionError) or error.errno == ENAMETOOLONG
                if passing is None or not here or not is_shut:
                    raise
                passing(error)
            left += reversed(below)

    def has_files(self, folder: str = "") -> bool:
        """Whether there is a file right in a folder."""
        with _scanned(self._at(folder)) as entries:
            return any(map(_is_file, entries))

    def folders(self, folder: str = "") -> Sequence[str]:
        """The names of the folders right in a folder."""
        return sorted(
            (entry.name for entry in _entries(self._at(folder)) if _is_folder(entry)), key=os.fsencode
        )

    def delete(self, paths: Iterable[str]) -> None:
        """Delete files; nothing happens to those that are not there."""
        for path in paths:
            with suppress(FileNotFoundError, NotADirectoryError):
                os.unlink(self._at(path))

    def clear(self, folder: str = "") -> Sequence[str]:
        """Delete all that is in a folder; what stays, and why."""
        try:
            return list(_cleared(self._at(folder)))
        except OSError as error:
            return [str(error)]

    def make_folder(self, folder: str) -> None:
        """Make a folder and what is missing above it."""
        os.makedirs(self._at(folder), exist_ok=True)

    def remove_folder(self, folder: str = "") -> None:
        """Remove a folder that is empty; nothing happens to one that is not, or is not there."""
        with suppress(OSError):
            os.rmdir(self._at(folder))

    def writer(self, path: str, *, named_later: bool = False) -> Upload:
        """A stream into a file that is there once it is closed. It survives a loss of power once `sync` was asked for it."""
        target = self._at(path)
        if not named_later:
            return Upload(_in_folder(lambda path: _Draft.begun(Path(path)), target))
        file = _in_folder(_opened, target)
        return Upload(_InPlace(file, target), file)

    def sync(self, paths: Iterable[str]) -> None:
        """Make files and their names survive a loss of power, and those of the folders that they are in."""
        found = {checked_path(path) for path in paths}
        parts = [path.split("/") for path in found]
        folders = {"/".join(names[:depth]) for names in parts for depth in range(len(names))}
        files.sync_all(map(self._at, found), map(self._at, folders))

    def sync_folders(self, folders: Iterable[str]) -> None:
        """Make all that is in these folders survive a loss of power, with the file systems that they are on."""
        files.sync_file_systems(map(self._at, folders))

    def sweep(self, folder: str = "", older_than_seconds: float = 0.0) -> int:
        """How many leftovers of killed writers were removed from a folder."""
        return files.sweep(Path(self._at(folder)), older_than_seconds)

    def rename(self, before: str, after: str) -> bool:
        """Whether a file or folder was here to be renamed. No part of the contract, since stores cannot."""
        try:
            os.rename(self._at(before), self._at(after))
        except FileNotFoundError:
            return False
        return True

    def delete_as(self, info: Info) -> bool:
        """Whether a file was deleted that was here as it is told. No part of the contract, since stores cannot rename.

        What is put in its place at any moment stays: it is taken aside, looked at there, and brought back if it is another one. Who dies in
        between leaves it where `put_back` finds it. A writer that has the file open, and writes once more behind that look, writes into what is deleted.
        """
        if os.path.islink(self._at(info.path)):
            # Taken aside it may lead nowhere; what it leads to stays in any case.
            same = self._is(info.path, info)
            self.delete([info.path] if same else ())
            return same
        above, slash, name = info.path.rpartition("/")
        folder = f"{above}{slash}.distributary-{uuid.uuid4().hex}.aside"
        os.mkdir(self._at(folder))
        try:
            if not self.rename(info.path, aside := f"{folder}/{name}"):
                return False
            if same := self._is(aside, info):
                self.delete([aside])
            else:
                self.put_back(aside)
            return same
        finally:
            self.remove_folder(folder)

    def put_back(self, path: str) -> bool:
        """Whether this is a file that somebody left aside, which is where it was again; unless another one is there by now, which is newer."""
        folder, _, name = path.rpartition("/")
        above, slash, aside = folder.rpartition("/")
        if not _ASIDE.fullmatch(aside):
            return False
        with suppress(OSError):
            _take_back(self._at(path), self._at(f"{above}{slash}{name}"))
            self.remove_folder(folder)
        return True

    @contextmanager
    def locked(self, folder: str, seconds: float) -> Iterator[None]:
        """Inside, nobody else is in such a block for this folder, which is there. No part of the contract, since stores have no locks.

        Raises PipelineError where somebody is for longer than so many seconds.
        """
        with files.folder_lock(Path(self._at(folder)), seconds):
            yield

    def _files_in(self, folder: str, after: str) -> Sequence[os.DirEntry[str]]:
        first = os.fsencode(after)
        found = (entry for entry in _entries(self._at(folder)) if os.fsencode(entry.name) > first)
        return sorted(filter(_is_file, found), key=lambda entry: os.fsencode(entry.name))

    def _is(self, path: str, info: Info) -> bool:
        now = self.info(path)
        return now is not None and (now.size, now.tag) == (info.size, info.tag)

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


@dataclass(slots=True)
class _InPlace:
    """A file in the making under its own name, which nobody has heard of."""

    file: pa.NativeFile
    target: str

    def write(self, data: memoryview) -> None:
        self.file.write(data)

    def finish(self) -> None:
        self.file.close()

    def abandon(self) -> None:
        self.file.close()
        with suppress(FileNotFoundError):
            os.unlink(self.target)


def _put_in_place(target: str, data: Buffer) -> None:
    try:
        with _in_folder(_opened, target) as file:
            file.write(data)
    except OSError:
        with suppress(FileNotFoundError):
            os.unlink(target)
        raise


def _cleared(folder: str) -> Iterator[str]:
    """Deletes all that is in a folder; what stays, and why."""
    for entry in _entries(folder):
        try:
            if entry.is_dir(follow_symlinks=False):
                yield from _cleared(entry.path)
                os.rmdir(entry.path)
            else:
                os.unlink(entry.path)
        except FileNotFoundError:
            continue
        except OSError as error:
            # What is in there has been told.
            if error.errno != ENOTEMPTY:
                yield str(error)


def _opened(target: str) -> pa.NativeFile:
    return pa.OSFile(os.fsencode(target), "wb")


def _in_folder(begin: Callable[[str], _Begun], target: str) -> _Begun:
    """A file begun in a folder that is made where it is missing, which is seldom: to look first takes as long as to write."""
    try:
        return begin(target)
    except FileNotFoundError:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        return begin(target)


def _take_back(aside: str, target: str) -> None:
    """Have a file under the name that it had, unless that is another one's by now."""
    with suppress(FileExistsError):
        try:
            os.link(aside, target)
        except FileExistsError:
            raise
        except OSError:
            # Some file systems, such as those of other machines, have no hard links.
            if not os.path.lexists(target):
                os.rename(aside, target)
                return
    os.unlink(aside)


def _bytes(data: Buffer) -> bytes:
    return data if isinstance(data, bytes) else bytes(memoryview(data).cast("B"))


def _entries(folder: str) -> list[os.DirEntry[str]]:
    with _scanned(folder) as entries:
        return list(entries)


@contextmanager
def _scanned(folder: str) -> Iterator[Iterator[os.DirEntry[str]]]:
    try:
        entries = os.scandir(folder)
    except OSError as error:
        if error.errno not in files.NO_FOLDER:
            raise
        yield iter(())
        return
    with entries:
        yield entries


def _is_file(entry: os.DirEntry[str]) -> bool:
    return not files.is_temporary(entry.name) and _leads_to(entry, entry.is_file)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    return _leads_to(entry, entry.is_dir)


def _leads_to(entry: os.DirEntry[str], kind: Callable[[], bool]) -> bool:
    """Whether an entry is of a kind; a link that leads in a circle, or where this user may not look, is of none."""
    try:
        return kind()
    except OSError:
        if not entry.is_symlink():
            raise
        return False


def _info(path: str, status: os.stat_result) -> Info:
    # An inode is given again to another file, but then not with the same time.
    tag = f"{status.st_ino}-{status.st_mtime_ns}"
    return Info(path, status.st_size, tag, status.st_mtime_ns // 1_000_000)


@contextmanager
def temporary_files(kind: str) -> Iterator[PosixFiles]:
    """A folder of this machine for as long as the block lasts; nothing of it stays, and what is left of one whose process was killed goes with the next of its kind."""
    with files.temporary_folder(kind) as folder:
        yield PosixFiles(folder)


def is_away(folder: Files) -> bool:
    """Whether a folder of this machine is not there itself, as where what it is on is not mounted: that says nothing of its files."""
    return isinstance(folder, PosixFiles) and not os.path.isdir(folder.url)
