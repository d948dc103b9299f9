"""Which implementation answers for a place."""

from __future__ import annotations

import os
from importlib import import_module
from typing import TypeAlias, cast

from distributary.errors import ConfigError
from distributary.ingest.storage.authorities import trust
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

At: TypeAlias = Files | str | os.PathLike[str]

"""A place that is open, or where it is: then it is reached with what the environment has."""

_NO_OPTIONS = StorageOptions()


def open_files(place: Place, given: StorageOptions = _NO_OPTIONS) -> Files:
    """The files of a place, by connections that all places of the same store and options share in one process.

    Raises ConfigError for options that cannot work, or where a library is missing.
    """
    if place.kind == "posix":
        return PosixFiles(str(place))
    given.tell(place, os.environ)
    if given.http.ca_file is not None:
        trust(given.http.ca_file)
    return _open(place, given)


def tables_at(place: Place, given: StorageOptions = _NO_OPTIONS) -> Files:
    """The same of a place of tables, which delta-rs opens.

    Raises ConfigError as well where it would be another one there: told of each table by itself it would be taken for something that is wrong with that one.
    """
    files = open_files(place, given)
    given.require_delta_alike(place, os.environ)
    return files


def files_at(place: At, given: StorageOptions = _NO_OPTIONS) -> Files:
    """The files of a place that is a text, or is open already. Raises ValueError for a text that is none."""
    if isinstance(place, str | os.PathLike):
        return open_files(Place.parse(os.fspath(place)), given)
    return place


def _open(place: Place, given: StorageOptions) -> Files:
    module, name = _STORES[place.kind]
    try:
        implementation = getattr(import_module(f"distributary.ingest.storage.{module}"), name)
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"{place}: the package {error.name} is missing; install distributary[{place.kind}], here and on the executors"
        ) from None
    return cast("Files", implementation(place, given))
