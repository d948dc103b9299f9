"""What the user decided about commits that can never succeed."""

from __future__ import annotations

import json

from distributary.ingest.atomic_file import replace
from distributary.ingest.checkpoint import Checkpoint


class Resolutions:
    """The tables that are to go without a batch's rows, one file a batch."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._folder = checkpoint.resolutions

    def skipped(self, batch_id: int) -> frozenset[str]:
        """Folders of the tables that do not get this batch's rows."""
        try:
            return frozenset(json.loads((self._folder / f"{batch_id}.json").read_bytes())["skip"])
        except FileNotFoundError:
            return frozenset()

    def skip(self, batch_id: int, table: str) -> None:
        """Let a table go without this batch's rows; their files stay in its folder."""
        tables = sorted({*self.skipped(batch_id), table})
        replace(self._folder / f"{batch_id}.json", json.dumps({"skip": tables}, indent=1).encode())
