"""What this project needs of a place for files: what a folder, an object store and HDFS all can answer.

Everything that the pipeline promises rests on three properties of a store: what was written is read, what was written is
listed, and of all that write one new name exactly one is first (put-if-absent). Nothing here renames, appends,
locks or asks a clock. docs/adr/0014-one-seam-for-files.md has the reasons.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from typing_extensions import Buffer

from distributary.ingest.storage.stream import Upload


@dataclass(frozen=True, slots=True)
class Info:
    """A file as it was when it was asked for.

    path      from the place, such as "manifests/12.json"
    size      bytes
    tag       another one where the content is another; for the same content it may be the same
    modified  milliseconds since the epoch, by the store's clock; some stores say the second alone, in one of two calls
    """

    path: str
    size: int
    tag: str
    modified: int

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]


DRAFT_SECONDS = 3600.0
"""Whoever has not written to a file that was begun for so long was killed."""


class Files(Protocol):
    """The files of one place. Each is there whole or not at all, whoever reads while another writes.

    A path is relative to the place, its parts between single slashes. Folders come and go with the files in them. Errors
    of the store are OSErrors; FileNotFoundError and PermissionError mean just that, and ConnectionError that it did not answer. Pickles as where it is and
    how to get there, so that a worker opens it for itself.
    """

    @property
    def remote(self) -> bool:
        """Whether a call waits for another machine, so that several at once are faster than one after the other."""
        ...

    @property
    def drafts(self) -> bool:
        """Whether a file is begun under another name, so that killed writers leave something to `sweep`."""
        ...

    @property
    def patience(self) -> float | None:
        """For how many seconds a client of somebody else's is waited for that would wait for the place for ever; None where it ends by itself."""
        ...

    @property
    def url(self) -> str:
        """The place as delta-rs takes it: a path or a URL. So is its text, which holds no secret."""
        ...

    @property
    def options(self) -> Mapping[str, str]:
        """What delta-rs needs beside the URL, as its `storage_options`. May hold secrets that are good for minutes only."""
        ...

    def below(self, folder: str) -> Files:
        """The files of a folder here, by the same connections."""
        ...

    def read(self, path: str) -> bytes:
        """The file's content. Raises FileNotFoundError."""
        ...

    def ends(self, path: str, count: int) -> tuple[bytes, bytes]:
        """The first and the last bytes of the file, so many of each where it has as many. Raises FileNotFoundError."""
        ...

    def reader(self, path: str, size: int) -> Any:
        """The file as Arrow reads parts of it, which has so many bytes. Raises FileNotFoundError, then or with the first part."""
        ...

    def put(self, path: str, data: Buffer, *, named_later: bool = False) -> None:
        """Put a file here, in the place of what may be there; for `named_later` see `writer`."""
        ...

    def put_new(self, path: str, data: Buffer, *, durable: bool = True) -> bool:
        """Whether the file that is here now is this one: False where another was first, which then stays as it is.

        `data` should be its writer's own, by a UUID or the like in it: then an answer that was lost is no rival, for what
        is there is compared. Of several who put the same bytes each is told that they are there. Where an error is raised,
        the file may be there all the same, now or later, and whoever relied on it must not be undone. One that is not
        `durable` survives the death of its writer, but in a POSIX folder not a loss of power; it costs no sync
        there, and its folder must be there.
        """
        ...

    def info(self, path: str) -> Info | None:
        """The file's size, tag and time; None where there is none."""
        ...

    def list(self, folder: str = "", after: str = "") -> Iterator[Info]:
        """The files right in a folder, in the order of their names' UTF-8 bytes; with `after`, those whose names come later.

        None where there is no such folder. What is in folders below is not told. A file that goes away meanwhile may be told or not,
        and so may one that comes because of that; who has to know of one of both asks for `names`.
        """
        ...

    def names(self, folder: str = "", after: str = "") -> Iterator[str]:
        """What `list` tells, by the names alone: where files are asked about one by one, a folder of any size costs one look.

        Of a file that makes room for another at least one of both is told.
        """
        ...

    def walk(self, folder: str = "", passing: Callable[[OSError], None] | None = None) -> Iterator[Info]:
        """The files in a folder and in all folders below, in any order, without holding all of them at once.

        None where there is no such folder. A folder behind a link is not gone into: it may lead back. One below that may not be looked into,
        and what of a store's folder is called as its client cannot ask for, is passed by where somebody is told of it, and an error else.
        """
        ...

    def has_files(self, folder: str = "") -> bool:
        """Whether there is a file right in a folder; known at the first one, however many there are."""
        ...

    def folders(self, folder: str = "") -> Sequence[str]:
        """The names of the folders right in a folder, in order. One with no file in it may be told or not."""
        ...

    def delete(self, paths: Iterable[str]) -> None:
        """Delete files; nothing happens to those that are not there."""
        ...

    def clear(self, folder: str = "") -> Sequence[str]:
        """Delete all that is in a folder: files, leftovers of killed writers, and folders with all that is in them.

        What cannot be deleted stays, and is answered with its reason; it keeps nothing else from being deleted. Where a
        link leads to, nothing is deleted.
        """
        ...

    def make_folder(self, folder: str) -> None:
        """Make a folder, where one has to be there before a file that is not durable; not synced either."""
        ...

    def remove_folder(self, folder: str = "") -> None:
        """Remove a folder that has nothing in it, where folders stay without their files. Never an error."""
        ...

    def writer(self, path: str, *, named_later: bool = False) -> Upload:
        """A stream into a file that is there once it is closed, under a name that nobody else has.

        Left by an exception, as a context manager, or forgotten, it leaves nothing that anybody would list or read. With
        `named_later` readers learn its name from another file that comes after it, as from a table's log, and a place
        spares itself a draft: then a part of it may be seen before it is closed, and stays when its writer is killed.
        """
        ...

    def sync(self, paths: Iterable[str]) -> None:
        """Make files that are here, and their names, survive a loss of power, whoever on this machine wrote them.

        Nothing where a put that was answered survives in any case. Raises FileNotFoundError for one that is not there.
        """
        ...

    def sync_folders(self, folders: Iterable[str]) -> None:
        """The same for all that is in these folders, and in those below, whoever wrote it; it may wait for what is elsewhere, too."""
        ...

    def sweep(self, folder: str = "", older_than_seconds: float = 0.0) -> int:
        """How many leftovers of killed writers were removed from a folder.

        With an age only those that were not written to for so long, as this machine's clock says; without one only for who
        knows that nobody writes there.
        """
        ...
