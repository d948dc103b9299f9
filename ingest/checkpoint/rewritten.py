"""Files of a decided batch that were lost and written again: their names, for the attempts to come."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from distributary.files import replace
from distributary.ingest.checkpoint.damage import undamaged
from distributary.ingest.checkpoint.folder import Checkpoint
from distributary.ingest.parquet.data_file import DataFile

_REMEDY = "restore it, or remove it to have the files written once more"


class RewrittenFiles:
    """By batch and table; they take the place of those that the batch's manifest names, which stays as it was written."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        # Earlier versions kept them beside the user's decisions.
        self._folder, self._earlier = checkpoint.rewritten, checkpoint.resolutions

    def read(self, batch_id: int) -> dict[str, tuple[DataFile, ...]]:
        """Per table what was written again. Raises CheckpointMismatch for a file that was edited."""
        for path in (self._path(batch_id), self._earlier / f"rewritten-{batch_id}.json"):
            with suppress(FileNotFoundError):
                return _read(path)
        return {}

    def add(self, batch_id: int, files: Mapping[str, tuple[DataFile, ...]]) -> None:
        """Keep what was written again for these tables, beside what was for others."""
        known = {**self.read(batch_id), **files}
        value = {folder: [asdict(file) for file in files] for folder, files in known.items()}
        replace(self._path(batch_id), json.dumps(value).encode())

    def _path(self, batch_id: int) -> Path:
        return self._folder / f"{batch_id}.json"


def _read(path: Path) -> dict[str, tuple[DataFile, ...]]:
    with undamaged(path, _REMEDY):
        tables = json.loads(path.read_bytes()).items()
        return {folder: tuple(DataFile(**one) for one in files) for folder, files in tables}
