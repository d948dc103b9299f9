"""A place for files in memory, for tests that need a hundred thousand of them, or to stop between any two calls."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from typing_extensions import Buffer

from distributary.ingest.storage.contract import Files, Info
from distributary.ingest.storage.stream import Upload


class MemoryFiles:
    """See `contract.Files`. `asked` counts the calls by their names, `told` the names in the longest listing."""

    remote, drafts = False, False
    patience = None

    def __init__(self) -> None:
        self.there: dict[str, bytes] = {}
        self.asked: Counter[str] = Counter()
        self.told = 0
        self._names: defaultdict[str, list[str]] = defaultdict(list)

    @property
    def url(self) -> str:
        return "memory://tests"

    @property
    def options(self) -> Mapping[str, str]:
        return {}

    def below(self, folder: str) -> Files:
        raise NotImplementedError

    def read(self, path: str) -> bytes:
        self.asked["read"] += 1
        try:
            return self.there[path]
        except KeyError:
            raise FileNotFoundError(path) from None

    def reader(self, path: str, size: int) -> Any:
        raise NotImplementedError

    def ends(self, path: str, count: int) -> tuple[bytes, bytes]:
        content = self.read(path)
        return content[:count], content[-count:]

    def put(self, path: str, data: Buffer, *, named_later: bool = False) -> None:
        self.asked["put"] += 1
        self._set(path, bytes(data))

    def put_new(self, path: str, data: Buffer, *, durable: bool = True) -> bool:
        self.asked["put_new"] += 1
        if path in self.there:
            return self.there[path] == bytes(data)
        self._set(path, bytes(data))
        return True

    def info(self, path: str) -> Info | None:
        self.asked["info"] += 1
        return Info(path, len(self.there[path]), "", 0) if path in self.there else None

    def list(self, folder: str = "", after: str = "") -> Iterator[Info]:
        return (Info(f"{folder}/{name}", 0, "", 0) for name in self.names(folder, after))

    def walk(
        self, folder: str = "", passing: Callable[[PermissionError], None] | None = None
    ) -> Iterator[Info]:
        raise NotImplementedError

    def names(self, folder: str = "", after: str = "") -> Iterator[str]:
        self.asked["names"] += 1
        names = self._names[folder]
        found = names[bisect_right(names, after) :]
        self.told = max(self.told, len(found))
        return iter(found)

    def has_files(self, folder: str = "") -> bool:
        self.asked["has_files"] += 1
        return bool(self._names[folder])

    def folders(self, folder: str = "") -> Sequence[str]:
        self.asked["folders"] += 1
        return sorted(self._names)

    def delete(self, paths: Iterable[str]) -> None:
        self.asked["delete"] += 1
        for path in list(paths):
            if self.there.pop(path, None) is not None:
                folder, _, name = path.rpartition("/")
                self._names[folder].remove(name)

    def clear(self, folder: str = "") -> Sequence[str]:
        raise NotImplementedError

    def make_folder(self, folder: str) -> None:
        """Nothing: folders come with their files."""

    def remove_folder(self, folder: str = "") -> None:
        """Nothing: folders go with their files."""

    def writer(self, path: str, *, named_later: bool = False) -> Upload:
        raise NotImplementedError

    def sync(self, paths: Iterable[str]) -> None:
        """Nothing: it is memory."""

    def sync_folders(self, folders: Iterable[str]) -> None:
        """Nothing: it is memory."""

    def sweep(self, folder: str = "", older_than_seconds: float = 0.0) -> int:
        return 0

    def _set(self, path: str, data: bytes) -> None:
        folder, _, name = path.rpartition("/")
        if path not in self.there:
            insort(self._names[folder], name)
        self.there[path] = data
