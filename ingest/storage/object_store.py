"""S3, Azure Blob Storage and Google Cloud Storage, through obstore: the Rust crate that delta-rs reaches them with, too.

https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html
https://learn.microsoft.com/en-us/rest/api/storageservices/specifying-conditional-headers-for-blob-service-operations
https://cloud.google.com/storage/docs/request-preconditions
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, PermissionDeniedError, UnauthenticatedError
from obstore.store import AzureStore, GCSStore, S3Store
from typing_extensions import Buffer

from distributary.errors import ConfigError
from distributary.ingest.storage.contract import Info
from distributary.ingest.storage.lost_answers import put_or_compare
from distributary.ingest.storage.options import StorageOptions
from distributary.ingest.storage.place import Kind, Place, checked_path
from distributary.ingest.storage.stream import Upload

if TYPE_CHECKING:
    from obstore import ObjectMeta, WritableFile
    from obstore.store import ObjectStore

_CLASSES: Mapping[Kind, Any] = {"s3": S3Store, "azure": AzureStore, "gcs": GCSStore}

# A multipart upload has at most 10,000 parts, S3's are at least 5 MiB.
_PART = 8 * 2**20

# How many parts of a file wait in memory or are under way.
_PARTS_AT_ONCE = 2


class ObjectFiles:
    """The files below a prefix of a bucket. See `contract.Files`."""

    def __init__(self, place: Place, given: StorageOptions) -> None:
        """Asks nothing of the store yet. Raises ConfigError for options that cannot work."""
        self._place, self._given = place, given
        self._store = _opened(place, given)

    def __reduce__(self) -> tuple[type[ObjectFiles], tuple[Place, StorageOptions]]:
        return ObjectFiles, (self._place, self._given)

    @property
    def url(self) -> str:
        """The place's URL."""
        return str(self._place)

    @property
    def options(self) -> Mapping[str, str]:
        """What delta-rs needs beside the URL."""
        return self._given.for_delta(self._place)

    def read(self, path: str) -> bytes:
        """The file's content."""
        with self._told(path):
            return bytes(obstore.get(self._store, checked_path(path)).bytes())

    def put(self, path: str, data: Buffer) -> None:
        """Put a file here, in the place of what may be there."""
        with self._told(path):
            obstore.put(self._store, checked_path(path), _plain(data), chunk_size=_PART)

    def put_new(self, path: str, data: Buffer, *, durable: bool = True) -> bool:
        """Whether the file that is here now is this one; a store is always durable."""
        content = _plain(data)

        def create() -> None:
            with self._told(path):
                obstore.put(self._store, checked_path(path), content, mode="create")

        return put_or_compare(create, lambda: self.read(path), content)

    def info(self, path: str) -> Info | None:
        """The file's size, tag and time."""
        try:
            with self._told(path):
                return _info(path, obstore.head(self._store, checked_path(path)))
        except FileNotFoundError:
            return None

    def list(self, folder: str = "", after: str = "") -> Iterator[Info]:
        """The files right in a folder, in order."""
        start = f"{checked_path(folder)}/" if folder else ""
        with self._told(folder):
            found = [
                _info(one["path"], one)
                for one in (self._behind(folder, start + after) if after else self._right_in(folder))
                # Some stores keep a mark for a folder: an object of no size that ends in a slash or has its name.
                if one["path"].startswith(start) and "/" not in one["path"][len(start) :]
            ]
        yield from sorted(found, key=lambda info: info.path.encode())

    def folders(self, folder: str = "") -> Sequence[str]:
        """The names of the folders right in a folder."""
        with self._told(folder):
            found = obstore.list_with_delimiter(self._store, checked_path(folder) or None)["common_prefixes"]
        return sorted((prefix.rstrip("/").rpartition("/")[2] for prefix in found), key=str.encode)

    def delete(self, paths: Iterable[str]) -> None:
        """Delete files; nothing happens to those that are not there."""
        wanted = [checked_path(path) for path in paths]
        if not wanted:
            return
        try:
            with self._told(wanted[0]):
                obstore.delete(self._store, wanted)
        except FileNotFoundError:
            # Azure says so of one, and the others may be there yet.
            for path in wanted:
                self._delete(path)

    def writer(self, path: str) -> Upload:
        """A stream into a file that is there once it is closed; in parts if it is large."""
        file = obstore.open_writer(
            self._store, checked_path(path), buffer_size=_PART, max_concurrency=_PARTS_AT_ONCE
        )
        return Upload(_Draft(file, lambda: self._told(path)))

    def sweep(self, folder: str = "") -> int:
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
        except (PermissionDeniedError, UnauthenticatedError) as error:
            raise PermissionError(f"{where}: {self._sentence(error)}") from None
        except BaseError as error:
            raise OSError(f"{where}: {self._sentence(error)}") from None

    def _sentence(self, error: Exception) -> str:
        return self._given.masked(sentence(error))

    def _delete(self, path: str) -> None:
        try:
            with self._told(path):
                obstore.delete(self._store, path)
        except FileNotFoundError:
            pass

    def _right_in(self, folder: str) -> Iterable[ObjectMeta]:
        return obstore.list_with_delimiter(self._store, folder or None)["objects"]

    def _behind(self, folder: str, key: str) -> Iterable[ObjectMeta]:
        for chunk in obstore.list(self._store, folder or None, offset=key, chunk_size=1000):
            yield from chunk


@dataclass(slots=True)
class _Draft:
    """obstore's own stream. It is no file for Arrow (its `closed` is a method) and would finish what an exception left."""

    file: WritableFile | None
    told: Callable[[], AbstractContextManager[None]]

    def write(self, data: memoryview) -> None:
        if self.file is not None:
            with self.told():
                # Copied, for it is read after the call has returned.
                self.file.write(bytes(data))

    def finish(self) -> None:
        if self.file is not None:
            with self.told():
                self.file.close()

    def abandon(self) -> None:
        self.file = None


def _opened(place: Place, given: StorageOptions) -> ObjectStore:
    rendered = given.for_obstore(place)
    try:
        store: ObjectStore = _CLASSES[place.kind](
            place.bucket,
            prefix=place.key or None,
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
        raise ConfigError(f"storage: {place} cannot be opened: {given.masked(sentence(error))}") from None


def _plain(data: Buffer) -> memoryview | bytes:
    # obstore takes one dimension of bytes alone, and no buffer of Arrow's as it is.
    return data if isinstance(data, bytes) else memoryview(data).cast("B")


def _info(path: str, meta: ObjectMeta) -> Info:
    modified = int(meta["last_modified"].timestamp() * 1000)
    # Not the path that obstore gives: before version 0.12 it is that in the bucket, in an answer about one file.
    # Azure puts quotes around it, but not in a listing.
    tag = (meta["e_tag"] or meta["version"] or "").strip('"')
    return Info(path, meta["size"], tag, modified)


# Azure writes a signature into the query of a URL.
_QUERY = re.compile(r"\?[^\s\"')]+")


def sentence(error: BaseException) -> str:
    """What the crate says of an error, without its own debugging text and without what stands behind URLs."""
    return _QUERY.sub("?...", str(error).partition("\n\n")[0].strip())
