"""The log of changes to tables, written before they are made so that they are recorded even if the run dies."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime, timezone
from pathlib import Path

from distributary.files import write_once
from distributary.ingest.checkpoint.damage import undamaged
from distributary.ingest.checkpoint.folder import Checkpoint
from distributary.ingest.columns.growth import ChangeKind

FORMAT = 1


@dataclass(frozen=True, slots=True)
class TableChange:
    """One change of one table.

    column  its dotted path; empty for the table as a whole
    type    the column's type as text
    detail  what brought it, such as the schema's reference

    The schema and the first record that was met with it may differ from attempt to attempt; the change is the same.
    """

    table: str
    kind: ChangeKind
    column: str = ""
    type: str = ""
    detail: str = field(default="", compare=False)
    schema_id: int | None = field(default=None, compare=False)
    kafka_topic: str | None = field(default=None, compare=False)
    kafka_partition: int | None = field(default=None, compare=False)
    kafka_offset: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class LoggedChange:
    """A change with the batch that asked for it and when that was first written down."""

    batch_id: int
    at: str
    change: TableChange


class ChangeLog:
    """The changes of a checkpoint: `<batch_id>-<n>.json`, one file for what one attempt at a batch adds."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._folder = checkpoint.changes

    def write(self, batch_id: int, changes: Sequence[TableChange]) -> tuple[TableChange, ...]:
        """Write changes down, and give back those this batch had not written down before."""
        while True:
            known = {logged.change for logged in self.read(batch_id)}
            new = tuple(change for change in dict.fromkeys(changes) if change not in known)
            if not new or self._append(batch_id, new):
                return new

    def read(self, batch_id: int) -> list[LoggedChange]:
        """The changes of a batch, in the order in which they were written down."""
        return [logged for path in self._files(batch_id) for logged in _read(path, batch_id)]

    def all(self) -> list[LoggedChange]:
        """Every change this checkpoint has made, the oldest batch first."""
        batches = {int(path.name.partition("-")[0]) for path in self._folder.glob("[0-9]*-[0-9]*.json")}
        return [logged for batch_id in sorted(batches) for logged in self.read(batch_id)]

    def _append(self, batch_id: int, changes: Sequence[TableChange]) -> bool:
        now = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
        value = {
            "format": FORMAT,
            "batch_id": batch_id,
            "at": now,
            "changes": [
                {one.name: getattr(change, one.name) for one in fields(change)} for change in changes
            ],
        }
        files = self._files(batch_id)
        number = _number(files[-1]) + 1 if files else 0
        return write_once(self._folder / f"{batch_id}-{number}.json", json.dumps(value).encode())

    def _files(self, batch_id: int) -> list[Path]:
        return sorted(self._folder.glob(f"{batch_id}-[0-9]*.json"), key=_number)


def _number(path: Path) -> int:
    return int(path.stem.rpartition("-")[2])


_REMEDY = "restore it, or remove it (the tables keep their columns, the ledger then lacks these lines)"


def _read(path: Path, batch_id: int) -> list[LoggedChange]:
    with undamaged(path, _REMEDY):
        value = json.loads(path.read_bytes())
        if value["format"] != FORMAT or value["batch_id"] != batch_id:
            raise ValueError(f"it is of batch {value['batch_id']}, format {value['format']}")
        return [LoggedChange(batch_id, value["at"], TableChange(**one)) for one in value["changes"]]
