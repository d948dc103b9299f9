"""HDFS, through hdfs-native: a client in Rust that needs neither Java nor Hadoop's own library.

A file is written under a name of its own and renamed, which HDFS does as one step and refuses where the new name is taken:
https://hadoop.apache.org/docs/current/hadoop-project-dist/hadoop-common/filesystem/filesystem.html
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from math import inf
from pathlib import Path
from time import monotonic
from typing import Any, TypeVar, cast
from xml.etree import ElementTree as Xml

from hdfs_native import Client, FileStatus, FileWriter, WriteOptions
from typing_extensions import Buffer, Self

from distributary.files import is_temporary, temporary_name
from distributary.ingest.interruptible import aside
from distributary.ingest.storage.clients import InStore
from distributary.ingest.storage.contract import Info
from distributary.ingest.storage.lost_answers import put_or_compare
from distributary.ingest.storage.options import StorageOptions
from distributary.ingest.storage.place import Place, checked_path
from distributary.ingest.storage.stream import Parts, Upload


class HdfsFiles(InStore[Client]):
    """The files of a folder in HDFS, which need not be there yet. See `contract.Files`."""

    @staticmethod
    def connected(place: Place, given: StorageOptions) -> Client:
        """A new client for a name node, or for the one in charge of several, whose calls end."""

        def connect(order: Mapping[str, str]) -> Client:
            return Client(f"hdfs://{place.authority}", {**given.hdfs, **order})

        return cast("Client", ClientInTime(connect, _seconds(given), name_nodes(place, given.hdfs)))

    @property
    def options(self) -> Mapping[str, str]:
        """What delta-rs needs beside the URL: it asks by a client of its own, and is to begin where this one is answered."""
        return {**super().options, **cast("ClientInTime", self._client).order}

    @property
    def patience(self) -> float:
        """As long as for a file's content: others open whole tables, by this client's calls without an end."""
        return _seconds(self._given) * _CONTENT_TIMES

    def read(self, path: str) -> bytes:
        """The file's content."""
        with self._told(path):
            content: bytes = self._client.read(self._at(path)).read()
            return content

    def ends(self, path: str, count: int) -> tuple[bytes, bytes]:
        """The first and the last bytes of the file, which is read whole: what asks for them is about folders."""
        content = self.read(path)
        return content[:count], content[-count:]

    def reader(self, path: str, size: int) -> Any:
        """The file as Arrow reads parts of it."""
        with self._told(path):
            file = self._client.read(self._at(path))

        def part(begin: int, length: int) -> bytes:
            with self._told(path):
                found: bytes = file.read_range(begin, length)
            return found

        return Parts(part, size)

    def put(self, path: str, data: Buffer, *, named_later: bool = False) -> None:
        """Put a file here, in the place of what may be there."""
        if named_later:
            with self.writer(path, named_later=True) as file:
                file.write(data)
            return
        content = bytes(memoryview(data).cast("B"))
        try:
            with self._told(path), self._written(path, content) as temporary:
                self._client.rename(temporary, self._at(path), overwrite=True)
        except FileNotFoundError:
            # The client asks again where an answer is lost, and is told that there is nothing to rename any more.
            if self.read(path) != content:
                raise

    def put_new(self, path: str, data: Buffer, *, durable: bool = True) -> bool:
        """Whether the file that is here now is this one."""
        content = bytes(memoryview(data).cast("B"))

        def create() -> None:
            with self._told(path), self._written(path, content, durable) as temporary:
                self._client.rename(temporary, self._at(path), overwrite=False)

        return put_or_compare(create, lambda: self.read(path), content)

    def info(self, path: str) -> Info | None:
        """The file's size, tag and time."""
        try:
            with self._told(path):
                status = self._client.get_file_info(self._at(path))
        except FileNotFoundError:
            return None
        return None if status.isdir else _info(path, status)

    def list(self, folder: str = "", after: str = "") -> Iterator[Info]:
        """The files right in a folder, in order."""
        first = after.encode()
        found = {
            name: status
            for name, status in self._right_in(folder)
            if not status.isdir and name.encode() > first and not is_temporary(name)
        }
        for name in sorted(found, key=str.encode):
            yield _info(f"{folder}/{name}".lstrip("/"), found[name])

    def folders(self, folder: str = "") -> Sequence[str]:
        """The names of the folders right in a folder."""
        return sorted((name for name, status in self._right_in(folder) if status.isdir), key=str.encode)

    def delete(self, paths: Iterable[str]) -> None:
        """Delete files; nothing happens to those that are not there."""
        for path in paths:
            with suppress(FileNotFoundError), self._told(path):
                self._client.delete(self._at(path))

    def remove_folder(self, folder: str = "") -> None:
        """Remove a folder that is empty; nothing happens to one that is not, or is not there."""
        with suppress(OSError), self._told(folder):
            self._client.delete(self._at(folder), recursive=False)

    def writer(self, path: str, *, named_later: bool = False) -> Upload:
        """A stream into a file that is there once it is closed."""
        temporary = self._at(path) if named_later else self._beside(path)
        with self._told(path):
            file = self._client.create(temporary, WriteOptions(create_parent=True))
        return Upload(_Draft(self._client, file, temporary, self._at(path), lambda: self._told(path)))

    def sweep(self, folder: str = "", older_than_seconds: float = 0.0) -> int:
        """How many leftovers of killed writers were removed from a folder."""
        newest = (time.time() - older_than_seconds) * 1000 if older_than_seconds else inf
        left = [
            name
            for name, status in self._right_in(folder)
            if is_temporary(name) and status.modification_time <= newest
        ]
        self.delete(f"{folder}/{name}".lstrip("/") for name in left)
        return len(left)

    def _right_in(self, folder: str) -> Sequence[tuple[str, FileStatus]]:
        above = self._at(folder)
        try:
            with self._told(folder):
                found = [*self._client.list_status(above)]
        except FileNotFoundError:
            return []
        # Of a file HDFS says that it is in itself.
        return [
            (status.path.rpartition("/")[2], status) for status in found if status.path.rstrip("/") != above
        ]

    @contextmanager
    def _written(self, path: str, data: Buffer, durable: bool = True) -> Iterator[str]:
        """The data under a name in the same folder that is gone afterwards."""
        temporary = self._beside(path)
        try:
            with self._client.create(temporary, WriteOptions(create_parent=True)) as file:
                file.write(data)
                if durable:
                    file.hsync()
            yield temporary
        except BaseException:
            with suppress(OSError, RuntimeError):
                self._client.delete(temporary)
            raise

    def _beside(self, path: str) -> str:
        folder = self._at(path).rpartition("/")[0]
        return f"{folder}/{temporary_name()}"

    def _at(self, path: str) -> str:
        # Of a place at the top there is no key: HDFS knows no name with two slashes.
        return "/" + "/".join(filter(None, (self._place.key, checked_path(path))))

    @contextmanager
    def _told(self, path: str) -> Iterator[None]:
        """Inside, HDFS is asked: its errors are OSErrors that say where."""
        where = f"{self.url}/{path}".rstrip("/")
        try:
            yield
        except FileNotFoundError:
            raise FileNotFoundError(f"there is no {where}") from None
        except (OSError, RuntimeError) as error:
            kind, said = _answered(error)
            raise kind(f"{where}: {said}") from None


# Hadoop's own name for how long an answer is waited for, in milliseconds, and its default. This client takes it for data nodes alone.
_TIMEOUT, _PATIENCE_SECONDS = "dfs.client.socket-timeout", 60.0

# A call about a file's content may bring much of it.
_CONTENT_TIMES = 10

_ENTRIES_AT_ONCE = 1000

# So many calls may be without an answer before nothing else is asked, but for one now and then.
_MOST_UNANSWERED, _ASKED_ALL_THE_SAME_SECONDS = 64, 600.0

T = TypeVar("T")


def _seconds(given: StorageOptions) -> float:
    """How long an answer is waited for. Nothing is for ever, as Hadoop has it by 0."""
    told = given.hdfs.get(_TIMEOUT, "")
    return (int(told) / 1000 if told.isdecimal() else 0) or _PATIENCE_SECONDS


class Unanswered:
    """Calls of one client that nobody has answered in time: each has a thread until somebody does, or its connection breaks.

    A name node may hang for days, and is asked again and again meanwhile.
    """

    def __init__(self, most: int = _MOST_UNANSWERED) -> None:
        self._most, self._lock = most, threading.Lock()
        self._calls = set[Future[Any]]()
        self._asked_all_the_same = monotonic()

    def answer(self, ask: Callable[[], T], seconds: float) -> T:
        """What somebody answers, or what asking raised. Raises NotAnswered where nobody does in time."""
        until = monotonic() + seconds
        if self._may_ask(until):
            asked = aside(ask)
            if wait([asked], until - monotonic()).done:
                return asked.result()
            with self._lock:
                self._calls.add(asked)
        raise NotAnswered(f"timed out, as no answer came within {seconds:g} seconds")

    def _may_ask(self, until: float) -> bool:
        """Whether few enough wait for an answer, now or in time."""
        with self._lock:
            self._calls = {one for one in self._calls if not one.done()}
            waiting = set(self._calls)
            if (
                len(waiting) >= self._most
                and monotonic() > self._asked_all_the_same + _ASKED_ALL_THE_SAME_SECONDS
            ):
                # It may be those alone that are never answered.
                self._asked_all_the_same = monotonic()
                return True
        return len(waiting) < self._most or bool(
            wait(waiting, until - monotonic(), return_when=FIRST_COMPLETED).done
        )


class NotAnswered(OSError):
    """Nobody has answered in time."""


class _InTime:
    """An object of the client, each call of which ends: a name node that hangs takes connections and says nothing."""

    def __init__(self, asked: Any, seconds: float, unanswered: Unanswered) -> None:
        self._asked, self._seconds, self._unanswered = asked, seconds, unanswered

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._asked, name)
        return lambda *given, **named: self._answer(lambda: method(*given, **named))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # What an error left is deleted as it is.
        if kind is None:
            self._answer(self._asked.close)

    def _answer(self, ask: Callable[[], T]) -> T:
        return self._unanswered.answer(ask, self._seconds)


class ClientInTime(_InTime):
    """The client itself. Of several name nodes it begins with another one where nobody answers.

    By itself it goes on to the next one only where one says that it is not in charge, or cannot be reached: one that hangs has it wait though
    another is in charge by now.
    """

    def __init__(
        self, connect: Callable[[Mapping[str, str]], Any], seconds: float, nodes: Sequence[Mapping[str, str]]
    ) -> None:
        """`connect` makes a client that has these properties, of which a call may wait for `seconds`; `nodes` begin each with another name node."""
        self._connect, self._nodes, self._first = connect, nodes, 0
        self._known = {0: (connect(nodes[0]), Unanswered())}
        super().__init__(self._known[0][0], seconds, self._known[0][1])
        # By where they lead, what is called renames that nobody has answered.
        self._under_way: dict[str, str] = {}

    @property
    def order(self) -> Mapping[str, str]:
        """The property by which a client begins with the name node that this one begins with now."""
        return self._nodes[self._first]

    def _answer(self, ask: Callable[[], T]) -> T:
        first = self._first
        try:
            return super()._answer(ask)
        except NotAnswered:
            self._begin_behind(first)
            raise

    def _begin_behind(self, first: int) -> None:
        # Many may have waited for the same one.
        if first != self._first or len(self._nodes) == 1:
            return
        other = (first + 1) % len(self._nodes)
        if other not in self._known:
            # Each has its own calls that nobody has answered yet.
            self._known[other] = self._connect(self._nodes[other]), Unanswered()
        self._first, (self._asked, self._unanswered) = other, self._known[other]

    def rename(self, before: str, after: str, overwrite: bool) -> None:
        """Give a file another name.

        One that nobody answered may be done at any time, and would take the place of what was put there since: what comes behind it takes away
        the file that it would be done with.
        """
        if (late := self._under_way.get(after)) is not None:
            self._answer(lambda: self._asked.delete(late))
            self._under_way.pop(after, None)
        try:
            self._answer(lambda: self._asked.rename(before, after, overwrite=overwrite))
        except OSError:
            if overwrite:
                self._under_way[after] = before
            raise

    def read(self, path: str) -> _InTime:
        """A file to read."""
        return self._file(lambda: self._asked.read(path))

    def create(self, path: str, options: WriteOptions) -> _InTime:
        """A file to write."""
        return self._file(lambda: self._asked.create(path, options))

    def list_status(self, path: str) -> list[FileStatus]:
        """What is in a folder."""
        told, found = self._asked.list_status(path), list[FileStatus]()
        while some := self._answer(lambda: [*islice(told, _ENTRIES_AT_ONCE)]):
            found += some
        return found

    def _file(self, opened: Callable[[], Any]) -> _InTime:
        return _InTime(self._answer(opened), self._seconds * _CONTENT_TIMES, self._unanswered)


def name_nodes(place: Place, given: Mapping[str, str]) -> list[Mapping[str, str]]:
    """The properties by which a client begins with the first name node of a place, with the second one, and so on; one without any where there is one.

    https://hadoop.apache.org/docs/current/hadoop-project-dist/hadoop-hdfs/HDFSHighAvailabilityWithQJM.html
    """
    name = f"dfs.ha.namenodes.{place.authority}"
    told = given.get(name) or _configured(name)
    nodes = [node for one in told.split(",") if (node := one.strip())]
    if not nodes[1:]:
        return [{}]
    return [{name: ",".join((*nodes[first:], *nodes[:first]))} for first in range(len(nodes))]


def _configured(name: str) -> str:
    """What Hadoop's own files say, which the client reads by itself; nothing where they cannot be read, as it then tells."""
    home = os.environ.get("HADOOP_HOME")
    folder = os.environ.get("HADOOP_CONF_DIR") or (f"{home}/etc/hadoop" if home else "")
    for file in ("hdfs-site.xml", "core-site.xml"):
        with suppress(OSError, Xml.ParseError):
            for one in Xml.fromstring(Path(folder, file).read_bytes()).iter("property"):  # noqa: S314 whoever may write it says where all is
                if (one.findtext("name") or "").strip() == name:
                    return one.findtext("value") or ""
    return ""


# How the client quotes what a name node answered: an exception of Java's, its words, and behind them the calls that led to it.
_ANSWER = re.compile(r'RPCError\("[\w.]*?(?P<name>\w+)", "(?P<words>.*?)(?:\\n.*)?"\)\Z', re.DOTALL)

_REFUSED = "AccessControlException"

# What a name node answers that is just starting, or not the one in charge now.
_NOT_NOW = ("SafeModeException", "StandbyException", "RetriableException", "ServerTooBusyException")

# What the system says, and the client of it, where nobody answers: a broken pipe, no network, a connection that was reset, refused or
# never came about, a name that nobody knows.
_NOBODY = re.compile(
    r"\(os error (?:32|10[01]|10[34]|11[0-3])\)|timed out|unexpected end of file|failed to lookup address",
    re.IGNORECASE,
)


def _answered(error: Exception) -> tuple[type[OSError], str]:
    """What an error is, and what it says on one line."""
    kind = type(error) if isinstance(error, OSError) else OSError
    if (found := _ANSWER.search(str(error))) is None:
        return ConnectionError if _NOBODY.search(str(error)) else kind, str(error)
    said = f"{found['name']}: {found['words']}"
    if found["name"] == _REFUSED:
        return PermissionError, said
    return ConnectionError if found["name"] in _NOT_NOW else kind, said


@dataclass(slots=True)
class _Draft:
    """A file under another name until it is whole."""

    client: Client
    file: FileWriter
    temporary: str
    target: str
    told: Callable[[], AbstractContextManager[None]]

    def write(self, data: memoryview) -> None:
        with self.told():
            self.file.write(data)

    def finish(self) -> None:
        with self.told():
            self.file.close()
            if self.temporary != self.target:
                self.client.rename(self.temporary, self.target, overwrite=False)

    def abandon(self) -> None:
        # A file that is being written may be deleted; what cannot be goes with the next sweep.
        with suppress(OSError, RuntimeError):
            self.client.delete(self.temporary)


def _info(path: str, status: FileStatus) -> Info:
    # HDFS does not tell a file's number to this client: two files of one size within one millisecond look alike.
    tag = f"{status.modification_time}-{status.length}"
    return Info(path, status.length, tag, status.modification_time)
