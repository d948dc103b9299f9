"""S3, Azure Blob Storage and Google Cloud Storage, through obstore: the Rust crate that delta-rs reaches them with, too.

https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html
https://learn.microsoft.com/en-us/rest/api/storageservices/specifying-conditional-headers-for-blob-service-operations
https://cloud.google.com/storage/docs/request-preconditions
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import obstore
import pyarrow as pa
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    InvalidPathError,
    PermissionDeniedError,
    UnauthenticatedError,
)
from obstore.store import AzureStore, GCSStore, S3Store
from typing_extensions import Buffer

from distributary.errors import ConfigError
from distributary.ingest.storage.answers.errors import is_denied, is_of_a_name, is_outage, sentence
from distributary.ingest.storage.clients import (
    InStore,
    UnreadableName,
    bad_key,
    count,
    past_bad_names,
)
from distributary.ingest.storage.contract import Info
from distributary.ingest.storage.lost_answers import put_or_compare
from distributary.ingest.storage.options import StorageOptions
from distributary.ingest.storage.place import Kind, Place, checked_path
from distributary.ingest.storage.stream import Parts, Upload, plain

if TYPE_CHECKING:
    from obstore import ListResult, ObjectMeta, WritableFile
    from obstore.store import ObjectStore

_CLASSES: Mapping[Kind, Any] = {"s3": S3Store, "azure": AzureStore, "gcs": GCSStore}

# A multipart upload has at most 10,000 parts, S3's are at least 5 MiB.
_PART = 8 * 2**20

# Up to this a request takes as long whatever it brings.
_SMALL_BYTES = 2**20

# A store tells so many names at once.
_PAGE = 1000

# Behind the names of all that tables and logs have in them.
_LAST = "zzzz"

# How many parts of a file wait in memory or are under way.
_PARTS_AT_ONCE = 2


class ObjectFiles(InStore["ObjectStore"]):
    """The files below a prefix of a bucket. See `contract.Files`."""

    drafts = False

    @staticmethod
    def connected(place: Place, given: StorageOptions) -> ObjectStore:
        """A new client for a bucket."""
        rendered = given.for_obstore(place)
        try:
            store: ObjectStore = _CLASSES[place.kind](
                place.bucket,
                config=rendered.config,
                client_options=rendered.client,
                retry_config=rendered.retry,
                credential_provider=rendered.credentials,
            )
            return store
        except (KeyboardInterrupt, SystemExit):
            raise
        # The crate may panic, as over options that it did not expect, and a panic is no Exception.
        except BaseException as error:  # noqa: BLE001
            raise ConfigError(
                f"storage: {place} cannot be opened: {given.masked(sentence(error, place.kind))}"
            ) from None

    def read(self, path: str) -> bytes:
        """The file's content."""
        count()
        with self._told(path):
            return bytes(obstore.get(self._client, self._key(path)).bytes())

    def ends(self, path: str, count: int) -> tuple[bytes, bytes]:
        """The first and the last bytes of the file, which is read whole: what asks for them is about folders."""
        content = self.read(path)
        return content[:count], content[-count:]

    def reader(self, path: str, size: int) -> Any:
        """The file as Arrow reads parts of it; a small one comes whole, by one request."""
        if size <= _SMALL_BYTES:
            return pa.BufferReader(self.read(path))

        def part(begin: int, length: int) -> bytes:
            count()
            with self._told(path):
                return bytes(obstore.get_range(self._client, self._key(path), start=begin, length=length))

        return Parts(part, size)

    def put(self, path: str, data: Buffer, *, named_later: bool = False) -> None:
        """Put a file here, in the place of what may be there."""
        content = plain(data)
        count(_requests(len(content)))
        try:
            with self._told(path):
                obstore.put(self._client, self._key(path), content, chunk_size=_PART)
        except (ConnectionError, PermissionError):
            raise
        except OSError:
            # As in `_Draft`.
            if len(content) <= _PART or self.read(path) != content:
                raise

    def put_new(self, path: str, data: Buffer, *, durable: bool = True) -> bool:
        """Whether the file that is here now is this one; a store is always durable."""
        content = plain(data)

        def create() -> None:
            count()
            with self._told(path):
                obstore.put(self._client, self._key(path), content, mode="create")

        return put_or_compare(create, lambda: self.read(path), content)

    def info(self, path: str) -> Info | None:
        """The file's size, tag and time."""
        count()
        try:
            with self._told(path):
                return _info(path, obstore.head(self._client, self._key(path)))
        except FileNotFoundError:
            return None

    def list(self, folder: str = "", after: str = "") -> Iterator[Info]:
        """The files right in a folder, in order."""
        above = self._key(folder)
        with self._told(folder):
            listed = self._behind(above, _start(above) + after) if after else self._listed(above)["objects"]
            found = [self._info(one) for one in listed if _is_in(above, one)]
        yield from sorted(found, key=lambda info: info.path.encode())

    def names(self, folder: str = "", after: str = "") -> Iterator[str]:
        """The names of the files right in a folder, in order; behind `after` a page is asked for when the one before is read."""
        if not after:
            yield from super().names(folder)
            return
        above, last = self._key(folder), b""
        pages = self._behind(above, _start(above) + after)
        while page := self._page(folder, pages):
            found = (one["path"].rpartition("/")[2] for one in page if _is_in(above, one))
            for name in sorted(found, key=str.encode):
                if name.encode() < last:
                    raise OSError(f"{self.url}/{folder} is not listed in order; use a store that does so")
                last = name.encode()
                yield name

    def walk(self, folder: str = "", passing: Callable[[OSError], None] | None = None) -> Iterator[Info]:
        """The files in a folder and in all folders below, by one listing, a page at a time: who may list a bucket sees all of it."""
        above, last = self._key(folder), ""
        with self._told(folder):
            pages = iter(obstore.list(self._client, above or None, chunk_size=_PAGE))
        try:
            while page := self._next_page(folder, pages):
                yield from (self._info(one) for one in page if one["path"].startswith(_start(above)))
                last = page[-1]["path"]
        except UnreadableName:
            if passing is None:
                raise
            yield from (one for one in self._by_levels(folder, passing) if self._key(one.path) > last)

    def _by_levels(self, folder: str, passing: Callable[[OSError], None]) -> Iterator[Info]:
        """The files in a folder and in all below, where a key among them is such as no listing is read that has it."""
        above = self._key(folder)
        try:
            with self._told(folder):
                listed = self._listed(above)
        except UnreadableName:
            below = yield from past_bad_names(
                _start(folder), lambda first: self._below(folder, first), passing
            )
        else:
            yield from (self._info(one) for one in listed["objects"] if _is_in(above, one))
            below = [prefix.rstrip("/").rpartition("/")[2] for prefix in listed["common_prefixes"]]
        for name in below:
            yield from self.walk(f"{_start(folder)}{name}", passing)

    def _below(self, folder: str, first: str) -> Iterator[Info]:
        above = self._key(folder)
        if first and (found := self.info(f"{_start(folder)}{first}")) is not None:
            yield found
        with self._told(folder):
            yield from map(self._info, self._behind(above, _start(above) + first))

    def _next_page(self, folder: str, pages: Iterator[Sequence[ObjectMeta]]) -> Sequence[ObjectMeta]:
        count()
        with self._told(folder):
            return next(pages, ())

    def _page(self, folder: str, listed: Iterator[ObjectMeta]) -> Sequence[ObjectMeta]:
        with self._told(folder):
            return tuple(islice(listed, _PAGE))

    def _info(self, one: ObjectMeta) -> Info:
        return _info(one["path"][len(self._prefix) :], one)

    def has_files(self, folder: str = "") -> bool:
        """Whether there is a file right in a folder; one request, unless a thousand come first that are further below."""
        above = self._key(folder)
        with self._told(folder):
            return any(_is_in(above, one) for one in self._behind(above, _start(above)))

    def folders(self, folder: str = "") -> Sequence[str]:
        """The names of the folders right in a folder."""
        above = self._key(folder)
        with self._told(folder):
            try:
                found = self._listed(above)["common_prefixes"]
            except InvalidPathError:
                return self._behind_bad_names(above)
        return sorted((prefix.rstrip("/").rpartition("/")[2] for prefix in found), key=str.encode)

    def _behind_bad_names(self, above: str) -> Sequence[str]:
        """The folders whose names begin with a digit, a letter or an underscore, such as those of tables, each by a request.

        obstore reads no answer that has a key with an empty part in it, or one that is a dot or two, as a program makes them that puts two
        slashes into a URL. All of these come before.
        """
        start, found = _start(above), list[str]()
        # What follows a slash.
        after = f"{start}0"
        while True:
            count()
            page = next(iter(obstore.list(self._client, above or None, offset=after, chunk_size=1)), None)
            if not page:
                return sorted(found, key=str.encode)
            name, slash, _ = page[0]["path"][len(start) :].partition("/")
            found += [name] if slash else []
            after = f"{start}{name}0" if slash else page[0]["path"]

    def delete(self, paths: Iterable[str]) -> None:
        """Delete files; nothing happens to those that are not there."""
        wanted = [self._key(path) for path in paths]
        if not wanted:
            return
        # S3 alone takes a thousand names at once.
        count(-(-len(wanted) // _PAGE) if self._place.kind == "s3" else len(wanted))
        try:
            with self._told(""):
                obstore.delete(self._client, wanted)
        except FileNotFoundError:
            # Azure says so of one, and the others may be there yet.
            for key in wanted:
                with suppress(FileNotFoundError), self._told(key.removeprefix(self._prefix)):
                    obstore.delete(self._client, key)

    def clear(self, folder: str = "") -> Sequence[str]:
        """Delete all that is in a folder, found by one listing: what is further below is no other thing here."""
        above, found = self._key(folder), list[str]()
        try:
            with self._told(folder):
                count()
                for page in obstore.list(self._client, above or None, chunk_size=_PAGE):
                    if len(page) == _PAGE:
                        count()
                    found += [self._info(one).path for one in page if one["path"].startswith(_start(above))]
            self.delete(found)
        except OSError as error:
            return [str(error)]
        return []

    def remove_folder(self, folder: str = "") -> None:
        """Nothing: a folder is no thing of its own."""

    def writer(self, path: str, *, named_later: bool = False) -> Upload:
        """A stream into a file that is there once it is closed; in parts if it is large."""
        file = obstore.open_writer(
            self._client, self._key(path), buffer_size=_PART, max_concurrency=_PARTS_AT_ONCE
        )
        return Upload(_Draft(file, lambda: self._told(path), lambda: self.info(path)))

    def sweep(self, folder: str = "", older_than_seconds: float = 0.0) -> int:
        """None: parts of files that were never finished go by a rule of the bucket's, which no client can see to."""
        return 0

    @contextmanager
    def _told(self, path: str) -> Iterator[None]:
        """Inside, the store is asked: its errors are OSErrors that say where, and hold no secret."""
        where = f"{self.url}/{path}".rstrip("/")
        try:
            yield
        except FileNotFoundError:
            raise FileNotFoundError(f"there is no {where}") from None
        except AlreadyExistsError:
            raise FileExistsError(f"{where} is there already") from None
        except (PermissionDeniedError, UnauthenticatedError, PermissionError) as error:
            away = isinstance(error, UnauthenticatedError) and self._given.keys_are_away(self._place)
            raise (ConnectionError if away else PermissionError)(
                f"{where}: {self._sentence(error)}"
            ) from None
        # A stream tells by Python's own what all else tells by obstore's.
        except (BaseError, OSError) as error:
            told = f"{where}: {self._sentence(error)}"
            if is_of_a_name(error):
                path = bad_key(str(error)).removeprefix(self._prefix)
                raise UnreadableName(f"{told}; take it away", path) from None
            kind = PermissionError if is_denied(error) else OSError
            raise (ConnectionError if is_outage(error) else kind)(told) from None

    def _sentence(self, error: Exception) -> str:
        return self._given.masked(sentence(error, self._place.kind))

    @property
    def _prefix(self) -> str:
        return f"{self._place.key}/" if self._place.key else ""

    def _key(self, path: str) -> str:
        """The file's or folder's name in its bucket, or container."""
        return f"{self._prefix}{checked_path(path)}" if path else self._place.key

    def _listed(self, above: str) -> ListResult[Sequence[ObjectMeta]]:
        found = obstore.list_with_delimiter(self._client, above or None)
        count(1 + (len(found["objects"]) + len(found["common_prefixes"])) // _PAGE)
        return found

    def _behind(self, above: str, key: str) -> Iterator[ObjectMeta]:
        """What comes behind a key, right in a folder or below. Of a folder below that goes on beyond a page the rest is leapt over."""
        beyond: str | None = key
        while beyond is not None:
            pages = obstore.list(self._client, above or None, offset=beyond or None, chunk_size=_PAGE)
            beyond = None
            count()
            for page in pages:
                if len(page) == _PAGE:
                    count()
                yield from page
                beyond = self._leap(above, page)
                if beyond is not None:
                    break

    def _leap(self, above: str, page: Sequence[ObjectMeta]) -> str | None:
        """Where to go on behind a page, if not right there: a table's log has more entries than anybody wants to page through."""
        start, last = _start(above), page[-1]["path"]
        below, slash, _ = last[len(start) :].partition("/")
        beyond = f"{start}{below}/{_LAST}"
        # Azure is asked for all names in any case, and what comes before the key is left out here.
        leaps = slash and len(page) == _PAGE and last < beyond and self._place.kind != "azure"
        return beyond if leaps else None


@dataclass(slots=True)
class _Draft:
    """obstore's own stream. It is no file for Arrow (its `closed` is a method) and would finish what an exception left."""

    file: WritableFile | None
    told: Callable[[], AbstractContextManager[None]]
    info: Callable[[], Info | None]
    written: int = 0

    def write(self, data: memoryview) -> None:
        if self.file is not None:
            with self.told():
                # Copied, for it is read after the call has returned.
                self.file.write(bytes(data))
            self.written += len(data)

    def finish(self) -> None:
        if self.file is not None:
            count(_requests(self.written))
            try:
                with self.told():
                    self.file.close()
            except (ConnectionError, PermissionError):
                raise
            except OSError:
                # Asked again for the end of an upload, since the first answer was lost, S3 knows of none, and Azure of no such
                # parts. Nobody else has this name.
                found = self.info()
                if found is None or found.size != self.written:
                    raise

    def abandon(self) -> None:
        self.file = None


def _requests(size: int) -> int:
    """With how many a file of so many bytes is put: a large one is begun, goes in parts and is completed."""
    parts = -(-size // _PART)
    return 1 if parts <= 1 else parts + 2


def _start(above: str) -> str:
    return f"{above}/" if above else ""


def _is_in(above: str, one: ObjectMeta) -> bool:
    """Whether an object is right in a folder. Some stores keep a mark for one: of no size, ending in a slash or with its name."""
    start = _start(above)
    return one["path"].startswith(start) and "/" not in one["path"][len(start) :]


def _info(path: str, meta: ObjectMeta) -> Info:
    modified = int(meta["last_modified"].timestamp() * 1000)
    # Not the path that obstore gives: before version 0.12 it is that in the bucket, in an answer about one file.
    # Azure puts quotes around it, but not in a listing.
    tag = (meta["e_tag"] or meta["version"] or "").strip('"')
    return Info(path, meta["size"], tag, modified)
