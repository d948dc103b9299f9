"""What became of the rows that were staged for a merge, as its commit says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

# What Delta calls them in the metrics of a MERGE, or our own names where it has none.
_METRICS: Mapping[str, str] = {
    "inserted": "numTargetRowsInserted",
    "updated": "numTargetRowsUpdated",
    "deleted": "distributaryRowsDeleted",
    "older": "distributaryRowsOlder",
    "duplicate": "distributaryRowsDuplicate",
    "unchanged": "distributaryRowsUnchanged",
}

_FILES_MADE, _BYTES_MADE = "distributaryFilesMade", "distributaryBytesMade"

# Merges of earlier versions have no such rows, and do not say so.
_LATER = ("unchanged",)


@dataclass(frozen=True, slots=True)
class MergeCounts:
    """Of each staged row, deletes among them, what became of it. Their sum is the number of rows staged.

    inserted   of a key that the table did not have
    updated    in the place of an older row of its key
    deleted    deletes that were the newest of their key, be it in the table or not
    older      the newest of their key in the batch, but no newer than what the table has, or had when that was deleted
    duplicate  of a key that has a newer row in the same batch
    unchanged  of a table that keeps what was: those that say what was true already when they came to be
    """

    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    older: int = 0
    duplicate: int = 0
    unchanged: int = 0

    @property
    def staged(self) -> int:
        """All of them."""
        return sum(getattr(self, one.name) for one in fields(self))

    def metrics(self) -> dict[str, str]:
        """As a commit's `operationMetrics`."""
        return {_METRICS[one.name]: str(getattr(self, one.name)) for one in fields(self)}

    @classmethod
    def told(cls, info: Mapping[str, Any]) -> MergeCounts | None:
        """What the `commitInfo` of a merge says; None of another commit."""
        metrics = info.get("operationMetrics") or {}
        if not all(key in metrics for name, key in _METRICS.items() if name not in _LATER):
            return None
        return cls(**{name: int(metrics.get(key, 0)) for name, key in _METRICS.items()})


@dataclass(frozen=True, slots=True)
class MadeFiles:
    """The data files of rows that a merge made of others, as its commit says; no manifest names them.

    count  how many
    bytes  of all of them
    """

    count: int = 0
    bytes: int = 0

    def metrics(self) -> dict[str, str]:
        """As a commit's `operationMetrics`."""
        return {_FILES_MADE: str(self.count), _BYTES_MADE: str(self.bytes)}

    @classmethod
    def told(cls, info: Mapping[str, Any]) -> MadeFiles:
        """What the `commitInfo` of a merge says; none of one of an earlier version, which does not say so."""
        metrics = info.get("operationMetrics") or {}
        return cls(int(metrics.get(_FILES_MADE, 0)), int(metrics.get(_BYTES_MADE, 0)))
