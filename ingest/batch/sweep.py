"""Deleting what a crash left behind: files written for a batch that never came to its manifest.

What stays behind costs space and nothing else: readers see the files that a table's log names, and no commit of ours names a
file that its manifest does not. So nothing is deleted where a log cannot be read, as by delta-rs that of a table with
the feature `typeWidening`: Delta's own `VACUUM` clears such a table.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterator
from pathlib import Path
from urllib.parse import unquote

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from distributary.ingest.parquet.data_file import generation_mark, owner


def sweep(root: str | os.PathLike[str], generation: str, decided: Container[int]) -> list[Path]:
    """Deletes this generation's files of batches that are not in `decided` (those with a manifest); returns them.

    Only while no batch is under way. Files with other names, of other generations, or named by their table's Delta log
    stay, and so does everything in a table whose log cannot be read.
    """
    gone = []
    for folder in sorted(entry for entry in Path(root).iterdir() if entry.is_dir()):
        for file in _unnamed(folder, list(_left_behind(folder, generation, decided))):
            file.unlink(missing_ok=True)
            gone.append(file)
    return gone


def sweep_batch(
    root: str | os.PathLike[str], generation: str, batch_id: int, named: Container[str]
) -> list[Path]:
    """Deletes a decided batch's files that neither its manifest nor their table's Delta log names; returns them.

    Everything in a table whose log cannot be read stays.
    """
    mine = (generation_mark(generation), batch_id)
    gone = []
    for folder in sorted(entry for entry in Path(root).iterdir() if entry.is_dir()):
        with os.scandir(folder) as entries:
            names = [entry.name for entry in entries if entry.name not in named]
        gone += _unnamed(folder, [folder / name for name in names if owner(name) == mine])
    for file in gone:
        file.unlink(missing_ok=True)
    return gone


def _left_behind(folder: Path, generation: str, decided: Container[int]) -> Iterator[Path]:
    mark = generation_mark(generation)
    with os.scandir(folder) as entries:
        for entry in entries:
            made_for = owner(entry.name)
            if made_for is not None and made_for[0] == mark and made_for[1] not in decided:
                yield folder / entry.name


def _unnamed(folder: Path, candidates: list[Path]) -> list[Path]:
    """Those that no version of the table names, old versions included: time travel must go on working."""
    if not candidates:
        return []
    try:
        current = {unquote(uri).rpartition("/")[2] for uri in DeltaTable(folder).file_uris()}
    except TableNotFoundError:
        current = set()
    except DeltaError:
        return []
    past = "".join(commit.read_text() for commit in sorted((folder / "_delta_log").glob("*.json")))
    return [file for file in candidates if file.name not in current and file.name not in past]
