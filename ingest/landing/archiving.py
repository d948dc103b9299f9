"""Files that were read moved to another place: copied there whole, and then deleted where they landed."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from distributary.ingest.storage.contract import Files, Info

_log = logging.getLogger(__name__)

_PIECE = 8 << 20


def move(folder: Files, to: Files, files: Iterable[Info]) -> int:
    """How many of these files were moved, with their paths; one that was written to since stays. What fails is done another time."""
    moved = 0
    for file in files:
        try:
            if not _is_as_it_was(folder, file):
                continue
            _copy(folder, to, file)
            # What came meanwhile in its place is a file of its own.
            if _is_as_it_was(folder, file):
                folder.delete([file.path])
                moved += 1
        except OSError as error:
            _log.warning("%s/%s stays there for now, and is not archived: %s", folder, file.path, error)
    return moved


def _is_as_it_was(folder: Files, file: Info) -> bool:
    # Stores may tell a time more or less exactly.
    now = folder.info(file.path)
    return now is not None and (now.size, now.tag) == (file.size, file.tag)


def _copy(folder: Files, to: Files, file: Info) -> None:
    with folder.reader(file.path, file.size) as source, to.writer(file.path) as target:
        while piece := source.read(_PIECE):
            target.write(piece)
    to.sync([file.path])
