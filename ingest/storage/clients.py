"""A place in a store: one client a process for each store and its options, whose connections a thousand tables share."""

from __future__ import annotations

import logging
import os
import pickle
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from threading import Lock
from typing import Any, Generic, TypeVar, cast

from typing_extensions import Self

from distributary.errors import ConfigError
from distributary.ingest.storage.authorities import authorities_of, bring
from distributary.ingest.storage.contract import Info
from distributary.ingest.storage.options import StorageOptions
from distributary.ingest.storage.place import Place

_log = logging.getLogger(__name__)

C = TypeVar("C")


_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class UnreadableName(OSError):
    """Something is called as no client here can ask for, and hides from a listing what is listed together with it.

    path  from the place, where that is known
    """

    def __init__(self, told: str, path: str = "") -> None:
        """`told` is what is said of it, on one line whatever it is called."""
        super().__init__(_CONTROL.sub(lambda one: repr(one[0])[1:-1], told))
        self.path = path


_BAD_KEY = re.compile(r'path "(.+?)"(?:: encountered illegal| contained empty)', re.DOTALL | re.IGNORECASE)


def bad_key(said: str) -> str:
    """The key that a client says it cannot ask for; nothing where it does not."""
    found = _BAD_KEY.search(said)
    return found[1] if found else ""


# Parts that are empty, a dot or two, and characters that are none.
_BAD = re.compile(r"(?:^|(?<=/))\.{0,2}(?:/|\Z)|[\x00-\x1f\x7f]")


# Of one folder: each takes two requests at each look, and a script may have made a million.
_MOST_BAD_NAMES = 100


def past_bad_names(
    start: str, behind: Callable[[str], Iterator[Info]], passing: Callable[[OSError], None]
) -> Generator[Info, None, Iterable[str]]:
    """The files right in a folder whose paths have this `start`, and then the names of the folders there, but for those that bad names hide.

    behind  what is there and below from a name on, in order
    """
    first: str | None = ""
    below, met = dict[str, None](), dict[str, UnreadableName]()
    while first is not None:
        begun, first = first, None
        try:
            for one in behind(begun):
                name, slash, _ = one.path.removeprefix(start).partition("/")
                if slash:
                    below[name] = None
                else:
                    yield one
        except UnreadableName as error:
            first = _behind_bad_name(start, error.path, begun)
            hidden = (
                "all of its folder" if first is None else "up to 1000 objects whose keys come before its own"
            )
            if first is not None and len(met) + 1 >= _MOST_BAD_NAMES:
                first = None
                hidden += f", and as {len(met) + 1} keys of its folder are such, nobody looks for what comes behind them"
            # Once for one that is met again where a store looks through all for what comes behind it.
            met[error.path] = UnreadableName(f"{error}. It hides {hidden}", error.path)
    for told in met.values():
        passing(told)
    return below


def _behind_bad_name(start: str, path: str, begun: str) -> str | None:
    """A name that comes behind one that cannot be asked for and all that are alike; None where nothing is known that is farther than what was begun at."""
    found = _BAD.search(path, len(start)) if path.startswith(start) else None
    if found is None:
        return None
    at, what = found.start(), found[0]
    name = path[len(start) : at] + ("0" if not what or what[0] in "./" else " " if what < " " else "\x80")
    return name if name > begun else None


# With what each had read of files when it was made.
_clients: dict[bytes, tuple[tuple[object, ...], Any]] = {}

_lock = Lock()

_sent = 0


# Of the process that a child was forked from. Who lets go of one waits for its threads, in the child for ever.
_inherited: list[Any] = []


def _forget() -> None:
    _inherited.extend(_clients.values())
    _clients.clear()
    _lock.release()


# A client has threads, which a forked child does not get.
os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_forget)


def count(requests: int = 1) -> None:
    """Take note of requests to an object store; one that its client repeats by itself is one."""
    global _sent  # noqa: PLW0603 - a process has one connection to its stores, and this is what went through it
    with _lock:
        _sent += requests


def sent() -> int:
    """How many requests this process has sent to object stores, which charge for each; delta-rs' own are not among them."""
    return _sent


class InStore(ABC, Generic[C]):
    """What all stores' implementations of `contract.Files` have in common: where they are, and who asks for them."""

    remote, drafts = True, True

    def __init__(self, place: Place, given: StorageOptions) -> None:
        """Asks nothing of the store yet. Raises ConfigError for options that cannot work."""
        self._place, self._given, self._read = place, given, given.read_once(place)
        self._newest = self._shared(self._read)

    def __reduce__(self) -> tuple[Any, ...]:
        return _arrived, (type(self), self._place, self._given, _authorities(self._given))

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and (other._place, other._given) == (self._place, self._given)

    def __hash__(self) -> int:
        return hash(self._place)

    def __str__(self) -> str:
        return self.url

    @property
    def url(self) -> str:
        """The place's URL."""
        return str(self._place)

    @property
    def patience(self) -> float | None:
        """None: clients that ask by HTTP end by themselves."""
        return None

    @property
    def options(self) -> Mapping[str, str]:
        """What delta-rs needs beside the URL."""
        return self._given.for_delta(self._place)

    def below(self, folder: str) -> Self:
        """The files of a folder here."""
        return type(self)(self._place / folder, self._given)

    @abstractmethod
    def delete(self, paths: Iterable[str]) -> None:
        """Delete files; nothing happens to those that are not there."""

    @abstractmethod
    def folders(self, folder: str = "") -> Sequence[str]:
        """The names of the folders right in a folder, in order."""

    @abstractmethod
    def remove_folder(self, folder: str = "") -> None:
        """Remove a folder that is empty."""

    @abstractmethod
    def sweep(self, folder: str = "", older_than_seconds: float = 0.0) -> int:
        """How many leftovers of killed writers were removed from a folder."""

    def clear(self, folder: str = "") -> Sequence[str]:
        """Delete all that is in a folder; what stays, and why."""
        left: list[str] = []
        try:
            for below in (f"{folder}/{name}".lstrip("/") for name in self.folders(folder)):
                left += self.clear(below)
                self.remove_folder(below)
            self.sweep(folder)
            self.delete([f"{folder}/{name}".lstrip("/") for name in self.names(folder)])
        except OSError as error:
            left.append(str(error))
        return left

    def sync(self, paths: Iterable[str]) -> None:
        """Nothing: what a store has answered for is safe."""

    def sync_folders(self, folders: Iterable[str]) -> None:
        """Nothing, either."""

    @abstractmethod
    def info(self, path: str) -> Info | None:
        """The file's size, tag and time."""

    @abstractmethod
    def list(self, folder: str = "", after: str = "") -> Iterator[Info]:
        """The files right in a folder, in order."""

    def names(self, folder: str = "", after: str = "") -> Iterator[str]:
        """The names of the files right in a folder, in order: what a store lists has all the rest with it."""
        return (info.name for info in self.list(folder, after))

    def walk(self, folder: str = "", passing: Callable[[OSError], None] | None = None) -> Iterator[Info]:
        """The files in a folder and in all folders below."""
        try:
            below = self.folders(folder)
            yield from self.list(folder)
        except PermissionError as error:
            if passing is None or not folder:
                raise
            passing(error)
            return
        for name in below:
            yield from self.walk(f"{folder}/{name}".lstrip("/"), passing)

    def has_files(self, folder: str = "") -> bool:
        """Whether there is a file right in a folder."""
        return any(True for _ in self.names(folder))

    def make_folder(self, folder: str) -> None:
        """Nothing: a folder comes with its first file."""

    @staticmethod
    @abstractmethod
    def connected(place: Place, given: StorageOptions) -> C:
        """A new client for the store that a place is in, which asks nothing of it yet."""

    @property
    def _client(self) -> C:
        """The store's; another one once a file was replaced that it had read when it was made: runs outlive authorities and keys."""
        read = self._given.read_once(self._place)
        if read != self._read:
            self._newest, self._read = self._shared(read), read
        return self._newest

    def _shared(self, read: tuple[object, ...]) -> C:
        key = pickle.dumps((type(self), self._place.scheme, self._place.authority, self._given))
        with _lock:
            before, client = _clients.get(key, (None, None))
            if before != read:
                try:
                    client = self.connected(self._place, self._given)
                except ConfigError as error:
                    # What is being replaced may not be whole yet.
                    if before is None:
                        raise
                    _log.warning("%s is asked with what was read before: %s", self._place, error)
                _clients[key] = read, client
            return cast("C", client)


def _authorities(given: StorageOptions) -> bytes | None:
    return None if given.http.ca_file is None else authorities_of(given.http.ca_file)


def _arrived(
    kind: type[InStore[C]], place: Place, given: StorageOptions, authorities: bytes | None
) -> InStore[C]:
    """A place that was opened on another machine, whose files this one does not have."""
    if given.http.ca_file is not None and authorities is not None:
        bring(given.http.ca_file, authorities)
    return kind(place, given)
