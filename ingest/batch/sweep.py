"""Deleting what a crash left behind: files written for a batch that never came to its manifest.

What stays behind costs space and nothing else: readers see the files that a table's log names, and no commit of ours names a
file that its manifest does not. So nothing is deleted where a log cannot be read, as by delta-rs that of a table with
the feature `typeWidening`: Delta's own `VACUUM` clears such a table.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterator
from itertools import takewhile
from urllib.parse import unquote

from deltalake.exceptions import DeltaError, TableNotFoundError

from distributary.ingest.parquet.data_file import generation_mark, owner
from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.opening import files_at
from distributary.ingest.tables.handle import opened


def sweep(root: str | os.PathLike[str], generation: str, decided: Container[int]) -> list[str]:
    """Deletes this generation's files of batches that are not in `decided` (those with a manifest); returns their paths.

    Only while no batch is under way. Files with other names, of other generations, or named by their table's Delta log
    stay, and so does everything in a table whose log cannot be read.
    """
    files, gone = files_at(root), []
    for folder in files.folders():
        made_for = _made_for(files, folder, generation)
        found = _unnamed(files, folder, [name for name, batch_id in made_for if batch_id not in decided])
        files.delete(found)
        gone += found
    return gone


def sweep_batch(
    root: str | os.PathLike[str], generation: str, batch_id: int, named: Container[str]
) -> list[str]:
    """Deletes a decided batch's files that neither its manifest nor their table's Delta log names; returns their paths.

    Everything in a table whose log cannot be read stays.
    """
    files, gone = files_at(root), []
    for folder in files.folders():
        made_for = _made_for(files, folder, generation)
        mine = [name for name, its in made_for if its == batch_id and name not in named]
        gone += _unnamed(files, folder, mine)
    files.delete(gone)
    return gone


def _made_for(files: Files, folder: str, generation: str) -> Iterator[tuple[str, int]]:
    """The names of this generation's files in a folder, and the batch that each was made for."""
    mark = generation_mark(generation)
    names = (info.name for info in files.list(folder, after=mark))
    for name in takewhile(lambda name: name.startswith(mark), names):
        made_for = owner(name)
        if made_for is not None:
            yield name, made_for[1]


def _unnamed(files: Files, folder: str, candidates: list[str]) -> list[str]:
    """The paths of those that no version of the table names, old versions included: time travel must go on working."""
    if not candidates:
        return []
    try:
        uris = opened(f"{files.url}/{folder}").file_uris()
        current = {unquote(uri).rpartition("/")[2] for uri in uris}
    except TableNotFoundError:
        current = set()
    except DeltaError:
        return []
    log = [info.path for info in files.list(f"{folder}/_delta_log") if info.name.endswith(".json")]
    past = b"".join(files.read(path) for path in log)
    return [f"{folder}/{name}" for name in candidates if name not in current and name.encode() not in past]
