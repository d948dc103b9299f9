"""Commits that can never succeed, and what the user decided about them.

Both are written down, so that the next run and `distributary resolve` know of them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from typing import Any

from distributary.errors import CommitImpossible
from distributary.ingest.checkpoint.damage import undamaged
from distributary.ingest.checkpoint.folder import RESOLUTIONS, STUCK, Checkpoint
from distributary.ingest.commit_log.formats import require_readable
from distributary.ingest.storage.numbered import numbered

# Files of both kinds. Earlier versions wrote it down nowhere.
FORMAT = 1

# A start that fails may have other words each time.
_MOST_TOLD = 10_000


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
    """The stuck batches of a checkpoint: the newest one, since no batch starts before the last is complete, and those that tables were parked for."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._files = checkpoint.files

    def write(self, batch_id: int, error: CommitImpossible) -> None:
        """Note that a batch is stuck."""
        now = datetime.now(timezone.utc).isoformat(timespec="seconds")
        found = StuckBatch(batch_id, error.tables, str(error), now)
        self._files.put(f"{STUCK}/{batch_id}.json", _to_bytes(asdict(found)))

    def add(self, batch_id: int, error: CommitImpossible) -> None:
        """Note that it is for these tables, too; said again it changes nothing."""
        for found in self.read():
            others = set(found.tables or ()) - set(error.tables)
            if found.batch_id == batch_id and others:
                told = found.message if str(error) in found.message else f"{found.message}\n{error}"
                told = told if len(told) <= _MOST_TOLD else str(error)
                error = CommitImpossible(told, tuple(sorted({*others, *error.tables})))
        self.write(batch_id, error)

    def read(self) -> list[StuckBatch]:
        """Every stuck batch. Raises CheckpointMismatch for a file that was edited."""
        return [self._read(f"{STUCK}/{number}.json") for number in numbered(self._files, STUCK, ".json")]

    def clear(self, batch_id: int) -> None:
        """A batch is complete."""
        self._files.delete([f"{STUCK}/{batch_id}.json"])

    def _read(self, path: str) -> StuckBatch:
        remedy = "remove it and run again: what cannot be committed is then written down anew"
        where = f"{self._files.url}/{path}"
        with undamaged(where, remedy):
            value = _from_bytes(self._files.read(path), where)
            tables = tuple(value["tables"]) if "tables" in value else None
            return StuckBatch(value["batch_id"], tables, value["message"], value["at"])


class Resolutions:
    """The tables that are to go without a batch's rows, one file a batch."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._files = checkpoint.files

    def skipped(self, batch_id: int) -> frozenset[str]:
        """Folders of the tables that do not get this batch's rows. Raises CheckpointMismatch for a file that was edited."""
        path = f"{RESOLUTIONS}/{batch_id}.json"
        remedy = "restore it, or remove it and decide again with `distributary resolve`"
        try:
            where = f"{self._files.url}/{path}"
            with undamaged(where, remedy):
                return frozenset(_from_bytes(self._files.read(path), where)["skip"])
        except FileNotFoundError:
            return frozenset()

    def skip(self, batch_id: int, table: str) -> None:
        """Let a table go without this batch's rows; their files stay in its folder."""
        tables = sorted({*self.skipped(batch_id), table})
        self._files.put(f"{RESOLUTIONS}/{batch_id}.json", _to_bytes({"skip": tables}))


def _to_bytes(value: Mapping[str, Any]) -> bytes:
    return json.dumps({"format": FORMAT, **value}, indent=1).encode()


def _from_bytes(data: bytes, where: str) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(data)
    require_readable(where, value.get("format", FORMAT), FORMAT)
    return value
