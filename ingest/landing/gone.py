"""Files that were registered and went away before they were read: whether that ends a run, and what it says then."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from distributary.errors import PipelineError
from distributary.ingest.landing.archiving import Archive
from distributary.ingest.landing.numbers import Landed
from distributary.ingest.landing.told import shown
from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.posix import is_away


class FilesGone(PipelineError):
    """Files that were registered went away before they were read."""

    fatal = True


def require_told(folder: Files, gone: Sequence[Landed], archive: Archive | None, *, told: bool) -> None:
    """Raises FilesGone where files that went away are not to be `told` in quarantine, and where the folder itself is not there."""
    if is_away(folder):
        raise FilesGone(
            f"{folder} is not there, of which {len(gone)} files are to be read: have it back, as by mounting what it is on; or, if it is gone for good, make "
            "an empty folder of that name"
        )
    if not told:
        raise FilesGone(
            f"{len(gone)} files of {folder} went away before they were read: {shown([file.path for file in gone])}. {_way_back(gone, archive)}; or "
            "write source.on_data_loss: record, then a record in quarantine names each, and what comes next is read"
        )


def _way_back(gone: Sequence[Landed], archive: Archive | None) -> str:
    """What to do about them: those that are read again may have been moved by this very pipeline."""
    moved = -1
    if archive is not None:
        # What it says only helps.
        with suppress(OSError, PipelineError):
            moved = archive.up_to()
    count = sum(file.number <= moved for file in gone)
    if not count or archive is None:
        return "Put them back"
    return f"{count} of them were read before and are in {archive.files}: put them back from there, and the others too"
