"""Commits that can never succeed, and what the user decided about them.

Both are written down, so that the next run and `distributary resolve` know of them.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path

from distributary.errors import CommitImpossible
from distributary.files import numbered, replace
from distributary.ingest.checkpoint.damage import undamaged
from distributary.ingest.checkpoint.folder import Checkpoint


@dataclass(frozen=True, slots=True)
class StuckBatch:
    """A batch with a manifest, some of whose tables cannot take their files.

    tables   their folders; None where an earlier version wrote it down, which kept only the message
    message  why not, in words
    at       when the run stopped for it
    """

    batch_id: int
    tables: tuple[str, ...] | None
    message: str
    at: str

    def may_wait(self, table: str) -> bool:
        """Whether a table, by its folder, is one of them or may be."""
        return self.tables is None or table in self.tables


class StuckCommits:
    """The stuck batches of a checkpoint; there is at most one, since no batch starts before the last is complete."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._folder = checkpoint.stuck

    def write(self, batch_id: int, error: CommitImpossible) -> None:
        """Note that a batch is stuck."""
        now = datetime.now(timezone.utc).isoformat(timespec="seconds")
        text = json.dumps(asdict(StuckBatch(batch_id, error.tables, str(error), now)), indent=1)
        replace(self._folder / f"{batch_id}.json", text.encode())

    def read(self) -> list[StuckBatch]:
        """Every stuck batch. Raises CheckpointMismatch for a file that was edited."""
        files = (self._folder / f"{number}.json" for number in numbered(self._folder, ".json"))
        return [_read(file) for file in files]

    def clear(self, batch_id: int) -> None:
        """A batch is complete."""
        (self._folder / f"{batch_id}.json").unlink(missing_ok=True)


def _read(path: Path) -> StuckBatch:
    with undamaged(path, "remove it and run again: what cannot be committed is then written down anew"):
        value = json.loads(path.read_bytes())
        tables = tuple(value["tables"]) if "tables" in value else None
        return StuckBatch(value["batch_id"], tables, value["message"], value["at"])


class Resolutions:
    """The tables that are to go without a batch's rows, one file a batch."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._folder = checkpoint.resolutions

    def skipped(self, batch_id: int) -> frozenset[str]:
        """Folders of the tables that do not get this batch's rows. Raises CheckpointMismatch for a file that was edited."""
        path = self._folder / f"{batch_id}.json"
        try:
            with undamaged(path, "restore it, or remove it and decide again with `distributary resolve`"):
                return frozenset(json.loads(path.read_bytes())["skip"])
        except FileNotFoundError:
            return frozenset()

    def skip(self, batch_id: int, table: str) -> None:
        """Let a table go without this batch's rows; their files stay in its folder."""
        tables = sorted({*self.skipped(batch_id), table})
        replace(self._folder / f"{batch_id}.json", json.dumps({"skip": tables}, indent=1).encode())
