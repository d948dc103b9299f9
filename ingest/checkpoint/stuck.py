"""Commits that can never succeed: written down, so that the next run and `distributary resolve` know of them."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import datetime, timezone

from distributary.files import numbered, replace
from distributary.ingest.checkpoint.folder import Checkpoint


@dataclass(frozen=True, slots=True)
class StuckBatch:
    """A batch with a manifest, some of whose tables cannot take their files; `message` names them."""

    batch_id: int
    message: str
    at: str


class StuckCommits:
    """The stuck batches of a checkpoint; there is at most one, since no batch starts before the last is complete."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._folder = checkpoint.stuck

    def write(self, batch_id: int, error: Exception) -> None:
        """Note that a batch is stuck."""
        now = datetime.now(timezone.utc).isoformat(timespec="seconds")
        text = json.dumps(asdict(StuckBatch(batch_id, str(error), now)), indent=1)
        replace(self._folder / f"{batch_id}.json", text.encode())

    def read(self) -> list[StuckBatch]:
        """Every stuck batch."""
        files = (self._folder / f"{number}.json" for number in numbered(self._folder, ".json"))
        return [StuckBatch(**json.loads(file.read_bytes())) for file in files]

    def clear(self, batch_id: int) -> None:
        """A batch is complete."""
        (self._folder / f"{batch_id}.json").unlink(missing_ok=True)


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
