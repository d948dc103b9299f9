"""Files of a decided batch that were lost and written again: their names, for the attempts to come."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict

from distributary.ingest.checkpoint.damage import undamaged
from distributary.ingest.checkpoint.folder import RESOLUTIONS, REWRITTEN, Checkpoint
from distributary.ingest.parquet.data_file import DataFile

_REMEDY = "restore it, or remove it to have the files written once more"


class RewrittenFiles:
    """By batch and table; they take the place of those that the batch's manifest names, which stays as it was written."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._files = checkpoint.files

    def read(self, batch_id: int) -> dict[str, tuple[DataFile, ...]]:
        """Per table what was written again. Raises CheckpointMismatch for a file that was edited."""
        # Earlier versions kept them beside the user's decisions.
        for path in (_path(batch_id), f"{RESOLUTIONS}/rewritten-{batch_id}.json"):
            with suppress(FileNotFoundError):
                return self._read(path)
        return {}

    def add(self, batch_id: int, files: Mapping[str, tuple[DataFile, ...]]) -> None:
        """Keep what was written again for these tables, beside what was for others."""
        known = {**self.read(batch_id), **files}
        value = {folder: [asdict(file) for file in files] for folder, files in known.items()}
        self._files.put(_path(batch_id), json.dumps(value).encode())

    def _read(self, path: str) -> dict[str, tuple[DataFile, ...]]:
        with undamaged(f"{self._files.url}/{path}", _REMEDY):
            tables = json.loads(self._files.read(path)).items()
            return {folder: tuple(DataFile(**one) for one in files) for folder, files in tables}


def _path(batch_id: int) -> str:
    return f"{REWRITTEN}/{batch_id}.json"
