"""A disk that loses what nobody synced: which of a run's files outlast a loss of power at any moment, by what was synced before it.

What the run writes itself and what delta-rs writes beside it are told apart by nothing: a file is safe if it was synced as it is, a name
if its folder was synced since. Of everything else any part may be gone, as seeds choose.
"""

from __future__ import annotations

import os
import random
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from errno import EIO
from pathlib import Path
from typing import Any

import pytest

from distributary import files
from distributary.ingest.storage.posix import PosixFiles

CALLS = (
    "put_new",
    "put",
    "delete",
    "names",
    "info",
    "read",
    "folders",
    "writer",
    "sync",
    "sync_folders",
    "make_folder",
)


class PowerFailed(BaseException):
    """Nothing of the process goes on."""


@dataclass
class Disk:
    """What is safe of the files under some folders; at its beginning all of it is.

    fails_at    the call, of those to the seam and to the disk, at which the power fails; None: never
    calls       how many there were
    refuses_at  the sync, of those of this process, that is answered with an error: what it was to make safe is never written, though
                each later one says so, until it is put anew
    """

    roots: tuple[Path, ...]
    fails_at: int | None = None
    calls: int = 0
    refuses_at: int | None = None
    syncs: int = 0
    _refused: set[tuple[int, int]] = field(default_factory=set)
    _safe: dict[int, bytes] = field(default_factory=dict)
    _names: dict[str, dict[str, int]] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def __post_init__(self) -> None:
        """Everything that is there outlasted what came before."""
        self._all_synced()

    def call(self) -> None:
        """Another call, by whichever thread."""
        with self._lock:
            self.calls += 1
            if self.fails_at is not None and self.calls >= self.fails_at:
                raise PowerFailed

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Inside, what this process syncs is noted, and the power may fail."""
        real = os.fsync

        def fsync(descriptor: int) -> None:
            path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
            if not self._is_below(path):
                real(descriptor)
                return
            self.call()
            self._refuse(lambda: [path])
            real(descriptor)
            self._synced(path)

        def everything(_: str) -> None:
            self.call()
            self._refuse(self.unsafe)
            self._all_synced()

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "fsync", fsync)
            patch.setattr(files, "_sync_file_system", everything)
            for name in CALLS:
                patch.setattr(PosixFiles, name, self._counted(getattr(PosixFiles, name)))
            yield

    def fail(self, rng: random.Random) -> None:
        """Leave what was safe, and of the rest what the seed says."""
        for root in self.roots:
            self._lose(root, rng)

    def unsafe(self) -> list[Path]:
        """The files and folders that a loss of power might take, or something of them."""
        return [path for root in self.roots for path in sorted(root.rglob("*")) if not self._is_safe(path)]

    def _refuse(self, paths: Callable[[], Iterable[Path]]) -> None:
        """Say, once, that what is not safe of these could not be written."""
        with self._lock:
            self.syncs += 1
            if self.syncs != self.refuses_at:
                return
            self._refused |= {_written(path) for path in paths() if path.is_file()}
            raise OSError(EIO, os.strerror(EIO))

    def _is_below(self, path: Path) -> bool:
        """Whether a path is this disk's; the power of what another thread writes elsewhere does not fail."""
        return any(path.is_relative_to(root) for root in self.roots)

    def _is_safe(self, path: Path) -> bool:
        try:
            status = path.stat()
            named = self._names.get(str(path.parent), {}).get(path.name) == status.st_ino
            return named and (path.is_dir() or self._safe.get(status.st_ino) == path.read_bytes())
        except FileNotFoundError:
            return True  # renamed since it was listed, by who writes aside

    def _counted(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def calling(place: PosixFiles, *given: Any, **named: Any) -> Any:
            if self._is_below(Path(place.url)):
                self.call()
            return call(place, *given, **named)

        return calling

    def _synced(self, path: Path) -> None:
        with self._lock:
            if path.is_dir():
                self._names[str(path)] = {entry.name: entry.inode() for entry in os.scandir(path)}
                return
            # One may be renamed since it was listed, by who writes aside.
            with suppress(FileNotFoundError):
                if _written(path) not in self._refused:
                    with path.open("rb") as file:
                        self._safe[os.fstat(file.fileno()).st_ino] = file.read()

    def _all_synced(self) -> None:
        for root in self.roots:
            for folder, _, names in os.walk(root):
                self._synced(Path(folder))
                for name in names:
                    self._synced(Path(folder, name))

    def _lose(self, folder: Path, rng: random.Random) -> None:
        known = self._names.get(str(folder), {})
        there = {entry.name: entry for entry in os.scandir(folder)}
        # Journals keep the order in which names came.
        new = sorted(
            (name for name in there if known.get(name) != there[name].inode()),
            key=lambda name: there[name].stat().st_ctime_ns,
        )
        gone = set(new[rng.randrange(len(new) + 1) :])
        for name in sorted(there):
            path = folder / name
            if name in gone:
                self._take(path, known.get(name))
            elif path.is_dir():
                self._lose(path, rng)
            elif self._safe.get(there[name].inode()) != path.read_bytes():
                _cut(path, rng)
        for name in sorted(known.keys() - there.keys()):
            # Its deletion is as little safe as anything else.
            if known[name] in self._safe and rng.random() < 0.5:
                (folder / name).write_bytes(self._safe[known[name]])

    def _take(self, path: Path, before: int | None) -> None:
        if path.is_dir():
            shutil.rmtree(path)
        elif before in self._safe:
            path.write_bytes(self._safe[before])
        else:
            path.unlink()


def _written(path: Path) -> tuple[int, int]:
    """Which file it is, as it was written last; the number alone is given away again."""
    status = path.stat()
    return status.st_ino, status.st_mtime_ns


def _cut(path: Path, rng: random.Random) -> None:
    data = path.read_bytes()
    left = rng.choice((0, 0, len(data) // 2, rng.randrange(len(data) + 1), len(data)))
    if rng.random() < 0.2:
        # Blocks were given to the file, and never written.
        path.write_bytes(data[:left] + bytes(len(data) - left))
        return
    lines = data[:left].rfind(b"\n") + 1
    # A file system may leave whole blocks, and a block may end with a line.
    path.write_bytes(data[: lines if rng.random() < 0.3 else left])


def seeds(light: int, of: int) -> list[Any]:
    """So many seeds, of which `make test` has the first ones: the others only throw the same dice more often."""
    return [*range(light), *(pytest.param(seed, marks=pytest.mark.heavy) for seed in range(light, of))]
