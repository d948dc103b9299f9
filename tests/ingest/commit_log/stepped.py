"""Runs of one log as threads that stand still before and after each call to the store, until they are told to go on.

One thread runs at a time, so what happens is what the test says, down to the call. What a run does here is what a pipeline
does: start, finish what was decided, sweep, then batch after batch. The tables are a model: transactions and files.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from tests.ingest.commit_log.logs import TOPIC, begun, data_file, following, swept
from tests.ingest.commit_log.memory import MemoryFiles
from typing_extensions import Buffer

from distributary.errors import AnswerLost, Fenced
from distributary.ingest.commit_log.entries import Batch, Rewritten
from distributary.ingest.commit_log.reading import CommitLog
from distributary.ingest.commit_log.writing import Writer
from distributary.ingest.storage.contract import Files, Info
from distributary.ingest.storage.stream import Upload

# What becomes of a put: done and answered with an error; done later, if its name is free then; not done at all.
Fault = Literal["lost", "late", "failed"]

_T = TypeVar("_T")


class Killed(BaseException):
    """The end of a process, wherever it stood."""


@dataclass
class World:
    """What all runs see.

    table      number of a batch -> the offsets of the first partition that were committed with it
    committed  the files that were committed
    decisions  number -> the id of the batch that a run was told is decided
    vanished   files that somebody outside deleted before they were committed
    late       puts that are still on their way
    broken     whether a start finds a table that nobody can open
    """

    files: MemoryFiles = field(default_factory=MemoryFiles)
    table: dict[int, tuple[int, int]] = field(default_factory=dict)
    committed: set[str] = field(default_factory=set)
    decisions: dict[int, str] = field(default_factory=dict)
    vanished: set[str] = field(default_factory=set)
    late: list[tuple[str, bytes]] = field(default_factory=list)
    broken: bool = False

    def is_committed(self, number: int) -> bool:
        """As Delta's transactions say: a newer one of the application says it, too."""
        return max(self.table, default=-1) >= number

    def commit(self, batch: Batch, path: str) -> None:
        """One table's commit: what it names is there, unless somebody outside took it."""
        if self.is_committed(batch.number):
            return
        if path in self.vanished:
            raise Killed
        assert path in self.files.there, f"{path} was swept, and is committed"
        self.table[batch.number] = batch.offsets[TOPIC][0]
        self.committed.add(path)

    def told(self, batch: Batch) -> None:
        """A run was told that this batch is decided."""
        assert self.decisions.setdefault(batch.number, batch.id) == batch.id, "two batches have one number"

    def arrive(self) -> None:
        """The oldest put that is on its way arrives."""
        self.files.put_new(*self.late.pop(0))


class Run:
    """One process, which `step` lets do a call to the store or stand behind one."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.fault: Fault | None = None
        self.error: BaseException | None = None
        self._go, self._stands = threading.Semaphore(0), threading.Semaphore(0)
        self._killed, self._ended = False, False
        self._thread = threading.Thread(target=self._main, daemon=True)
        self._thread.start()
        self._stands.acquire()

    @property
    def alive(self) -> bool:
        """Whether it has not ended."""
        return not self._ended

    def step(self) -> None:
        """Go on to the next place to stand at."""
        if self.alive:
            self._go.release()
            self._stands.acquire()
            if self.error is not None:
                raise self.error

    def kill(self) -> None:
        """End it where it stands."""
        self._killed = True
        self.step()
        self._thread.join()

    def stand(self) -> None:
        """Called by its own thread: wait to be told to go on."""
        self._stands.release()
        self._go.acquire()
        if self._killed:
            raise Killed

    def _main(self) -> None:
        try:
            self.stand()
            with suppress(Killed, Fenced, OSError):
                self._live(Stepped(self))
        except Killed:
            pass
        except BaseException as error:  # noqa: BLE001 it is raised where the run is stepped
            self.error = error
        finally:
            self._ended = True
            self._stands.release()

    def _live(self, files: Stepped) -> None:
        writer = begun(files)
        self._finish(files, writer)
        if self.world.broken and not writer.so_far.parked:
            self._park(files, writer)
        swept(files, writer)
        writer.close()
        if writer.so_far.parked and not self.world.broken:
            writer.park({}, "in")
        while True:
            try:
                if writer.look() is None:
                    self._batch(files, writer)
            except (OSError, AnswerLost):
                continue
            self._finish(files, writer)

    @staticmethod
    def _park(files: Stepped, writer: Writer) -> None:
        """What comes waits behind the oldest batch that the log still names."""
        log = CommitLog(files)
        found = (
            number for number in range(log.closed() + 1, writer.next) if isinstance(log.entry(number), Batch)
        )
        if (number := next(found, None)) is not None:
            writer.park({"t": (number,)}, "broken")

    def _batch(self, files: Stepped, writer: Writer) -> None:
        path = data_file(files, writer)
        batch = writer.append(following(writer), {"files": [path]})
        self.world.told(batch)

    def _finish(self, files: Stepped, writer: Writer) -> None:
        """The newest batch into the table, its file written again where it is gone; what else there is of it stays."""
        batch, again = writer.last()
        if batch is None:
            return
        named: Batch | Rewritten = again[-1] if again else batch
        (path,) = named.decided["files"]
        if not self.world.is_committed(batch.number) and files.info(path) is None:
            path = data_file(files, writer)
            writer.rewrite({"files": [path]})
        self.stand()
        self.world.commit(batch, path)
        self.stand()
        if writer.start.number < batch.number:
            self._settle(files, writer, batch)
        writer.close()

    @staticmethod
    def _settle(files: Stepped, writer: Writer, batch: Batch) -> None:
        """As a pipeline does after each batch: attempts that came to nothing left files for the same number."""
        (kept,) = batch.decided["files"]
        mine = [info.path for info in files.list("data") if int(info.name.partition("-")[0]) == batch.number]
        files.delete(path for path in mine if path != kept)
        writer.settle(batch.number)


class Stepped:
    """The world's files to one run: it stands still before each call and behind it. See `contract.Files`."""

    remote, drafts = False, False
    patience = None

    def __init__(self, run: Run) -> None:
        self._run, self._files = run, run.world.files

    @property
    def url(self) -> str:
        return self._files.url

    @property
    def options(self) -> Mapping[str, str]:
        return {}

    def below(self, folder: str) -> Files:
        return self._files.below(folder)

    def read(self, path: str) -> bytes:
        return self._stepped(lambda: self._files.read(path))

    def reader(self, path: str, size: int) -> Any:
        return self._files.reader(path, size)

    def ends(self, path: str, count: int) -> tuple[bytes, bytes]:
        return self._stepped(lambda: self._files.ends(path, count))

    def put(self, path: str, data: Buffer, *, named_later: bool = False) -> None:
        self._stepped(lambda: self._files.put(path, data))

    def put_new(self, path: str, data: Buffer, *, durable: bool = True) -> bool:
        self._run.stand()
        fault, self._run.fault = self._run.fault, None
        if fault == "late":
            self._run.world.late.append((path, bytes(data)))
        if fault in ("late", "failed"):
            raise OSError(fault)
        done = self._files.put_new(path, data)
        self._run.stand()
        if fault == "lost":
            raise OSError(fault)
        return done

    def info(self, path: str) -> Info | None:
        return self._stepped(lambda: self._files.info(path))

    def list(self, folder: str = "", after: str = "") -> Iterator[Info]:
        return self._stepped(lambda: self._files.list(folder, after))

    def names(self, folder: str = "", after: str = "") -> Iterator[str]:
        return self._stepped(lambda: self._files.names(folder, after))

    def walk(
        self, folder: str = "", passing: Callable[[PermissionError], None] | None = None
    ) -> Iterator[Info]:
        return self._stepped(lambda: self._files.walk(folder, passing))

    def has_files(self, folder: str = "") -> bool:
        return self._stepped(lambda: self._files.has_files(folder))

    def folders(self, folder: str = "") -> Sequence[str]:
        return self._files.folders(folder)

    def delete(self, paths: Iterable[str]) -> None:
        for path in sorted(paths):
            self._stepped(lambda path=path: self._files.delete([path]))  # type: ignore[misc]

    def make_folder(self, folder: str) -> None:
        self._files.make_folder(folder)

    def remove_folder(self, folder: str = "") -> None:
        self._files.remove_folder(folder)

    def clear(self, folder: str = "") -> Sequence[str]:
        raise NotImplementedError

    def writer(self, path: str, *, named_later: bool = False) -> Upload:
        return self._files.writer(path)

    def sync(self, paths: Iterable[str]) -> None:
        self._files.sync(paths)

    def sync_folders(self, folders: Iterable[str]) -> None:
        self._files.sync_folders(folders)

    def sweep(self, folder: str = "", older_than_seconds: float = 0.0) -> int:
        return 0

    def _stepped(self, call: Callable[[], _T]) -> _T:
        self._run.stand()
        done = call()
        self._run.stand()
        return done
