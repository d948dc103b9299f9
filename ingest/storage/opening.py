"""Which implementation answers for a place, and one of each in a process."""

from __future__ import annotations

import os
import pickle
from importlib import import_module
from typing import cast

from distributary.errors import ConfigError
from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.options import StorageOptions
from distributary.ingest.storage.place import Kind, Place
from distributary.ingest.storage.posix import PosixFiles

# Imported where a place asks for it: a folder needs neither library.
_STORES: dict[Kind, tuple[str, str]] = {
    "s3": ("object_store", "ObjectFiles"),
    "azure": ("object_store", "ObjectFiles"),
    "gcs": ("object_store", "ObjectFiles"),
    "hdfs": ("hdfs", "HdfsFiles"),
}

_opened: dict[bytes, Files] = {}

# A client has threads, which a forked child does not get.
os.register_at_fork(after_in_child=_opened.clear)

_NO_OPTIONS = StorageOptions()


def open_files(place: Place, given: StorageOptions = _NO_OPTIONS) -> Files:
    """The files of a place; the same object for the same place and options in one process, and so the same connections.

    Raises ConfigError for options that cannot work, or where a library is missing.
    """
    if place.kind == "posix":
        return PosixFiles(str(place))
    key = pickle.dumps((place, given))
    if key not in _opened:
        _opened[key] = _open(place, given)
    return _opened[key]


def files_at(place: str | os.PathLike[str], given: StorageOptions = _NO_OPTIONS) -> Files:
    """The files of a place that is a text. Raises ValueError for a text that is none."""
    return open_files(Place.parse(os.fspath(place)), given)


def _open(place: Place, given: StorageOptions) -> Files:
    module, name = _STORES[place.kind]
    try:
        implementation = getattr(import_module(f"distributary.ingest.storage.{module}"), name)
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"{place}: the package {error.name} is missing; install distributary[{place.kind}], here and on the executors"
        ) from None
    return cast("Files", implementation(place, given))
