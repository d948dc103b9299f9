"""Deleting what a crash left behind: files that no entry of the log names, and none will name any more.

A file's name carries the number of the entry that was to name it. Once a later one is there, and by that its own for good, what
that does not name is garbage. No table's log is read for it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from deltalake.exceptions import DeltaError

from distributary.ingest.merge import live_files
from distributary.ingest.parquet.data_file import batch_mark, generation_mark, owner
from distributary.ingest.storage.contract import DRAFT_SECONDS, Files
from distributary.ingest.storage.opening import At, files_at
from distributary.ingest.tables.log import newest_version

_log = logging.getLogger(__name__)

# Where records of owners, registers of files and the like are.
_OURS = ".distributary"

# Of a store one waits for each folder's answer, of a file system for none.
_THREADS, _THREADS_IN_STORES = 2, 64


def sweep(  # noqa: PLR0913
    root: At,
    generation: str,
    numbers: Iterable[range],
    named: Container[str],
    check: Callable[[Sequence[str]], object] | None = None,
    *,
    within: Collection[str] | None = None,
    many: bool = False,
) -> list[str]:
    """Deletes this generation's files that were made for these numbers, but for those `named`; returns their paths.

    Only for numbers that are decided. Files with other names and of other generations stay. What is asked of a folder does not
    grow with the files of other numbers. `check` is told the folders with files to delete, before any is. `within` are the folders
    that may have any, where somebody knows. `many` says that there may have been so many generations of this kind that two share what
    names carry of them: what a table's own log names stays then.
    """
    files, spans = files_at(root), tuple(numbers)

    def found(folder: str) -> list[str]:
        with _passed_by(files, folder):
            made_for = (name for span in spans for name in _made_for(files, folder, generation, span))
            return [f"{folder}/{name}" for name in made_for if name not in named]
        return []

    folders = files.folders() if within is None else sorted(within)
    with ThreadPoolExecutor(_THREADS_IN_STORES if files.remote else _THREADS) as pool:
        doomed = {
            folder: paths for folder, paths in zip(folders, pool.map(found, folders), strict=True) if paths
        }
    if many:
        doomed = {
            folder: left for folder, paths in doomed.items() if (left := _unnamed(files, folder, paths))
        }
    if check is not None:
        check(list(doomed))
    for folder, paths in doomed.items():
        with _passed_by(files, folder):
            files.delete(paths)
    return [path for paths in doomed.values() for path in paths]


def _unnamed(files: Files, folder: str, paths: Sequence[str]) -> list[str]:
    """Those of some of a folder's files that its log does not name; none where nobody can tell."""
    place = files.below(folder)
    try:
        version = newest_version(place)
        live = set() if version is None else {name for name, _ in live_files.read(place, version)}
    except (DeltaError, ValueError, KeyError, TypeError) as error:
        _log.warning("%s is not swept, since its log cannot be read (%s)", place, error)
        return []
    return [path for path in paths if path.rpartition("/")[2] not in live]


def sweep_drafts(root: At) -> int:
    """How many files were removed that somebody began in tables' folders and logs, or in our own beside them, and was killed before they were whole.

    Only those that nobody has written to for an hour: another pipeline may be writing one.
    """
    files, gone = files_at(root), 0
    for folder in files.folders():
        with _passed_by(files, folder):
            gone += sum(files.sweep(place, DRAFT_SECONDS) for place in (folder, f"{folder}/_delta_log"))
    # Each of these folders is a request.
    if files.drafts:
        with _passed_by(files, _OURS):
            gone += sum(files.sweep(place, DRAFT_SECONDS) for place in _all_in(files, _OURS))
    return gone


def _all_in(files: Files, folder: str) -> Iterator[str]:
    """A folder, and all that are in it at any depth."""
    yield folder
    for name in files.folders(folder):
        yield from _all_in(files, f"{folder}/{name}")


@contextmanager
def _passed_by(files: Files, folder: str) -> Iterator[None]:
    """Inside, a folder that cannot be read, as somebody else's `lost+found` or one on bad blocks, keeps nothing else from being swept."""
    try:
        yield
    except ConnectionError:
        raise
    except OSError as error:
        _log.warning("%s/%s is not swept, since it may not be read or changed (%s)", files.url, folder, error)


def _made_for(files: Files, folder: str, generation: str, span: range) -> Iterator[str]:
    """The names of this generation's files in a folder that were made for these numbers."""
    for name in files.names(folder, after=batch_mark(generation, span.start)):
        if not name.startswith(generation_mark(generation)):
            return
        made_for = owner(name)
        if made_for is not None and made_for[1] >= span.stop:
            return
        if made_for is not None:
            yield name
