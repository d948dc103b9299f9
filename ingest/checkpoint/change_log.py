"""The log of changes to tables, written before they are made so that they are recorded even if the run dies."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime, timezone

from distributary.ingest.checkpoint.damage import undamaged
from distributary.ingest.checkpoint.folder import CHANGES, Checkpoint
from distributary.ingest.columns.growth import ChangeKind
from distributary.ingest.storage.contract import Files

FORMAT = 1

_NAME = re.compile(r"(?P<batch>[0-9]+)-(?P<number>[0-9]+)\.json")


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
        self._files = checkpoint.files

    def write(self, batch_id: int, changes: Sequence[TableChange]) -> tuple[TableChange, ...]:
        """Write changes down, and give back those this batch had not written down before."""
        while True:
            known = {logged.change for logged in self.read(batch_id)}
            new = tuple(change for change in dict.fromkeys(changes) if change not in known)
            if not new or self._append(batch_id, new):
                return new

    def read(self, batch_id: int) -> list[LoggedChange]:
        """The changes of a batch, in the order in which they were written down."""
        numbers = self._numbers().get(batch_id, ())
        return [logged for number in numbers for logged in _read(self._files, batch_id, number)]

    def all(self) -> list[LoggedChange]:
        """Every change this checkpoint has made, the oldest batch first."""
        return [
            logged
            for batch_id, numbers in sorted(self._numbers().items())
            for number in numbers
            for logged in _read(self._files, batch_id, number)
        ]

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
        number = max(self._numbers().get(batch_id, ()), default=-1) + 1
        return self._files.put_new(_path(batch_id, number), json.dumps(value).encode())

    def _numbers(self) -> dict[int, list[int]]:
        """Per batch the numbers of its files, in order."""
        found: dict[int, list[int]] = {}
        for info in self._files.list(CHANGES):
            if name := _NAME.fullmatch(info.name):
                found.setdefault(int(name["batch"]), []).append(int(name["number"]))
        return {batch_id: sorted(numbers) for batch_id, numbers in found.items()}


def _path(batch_id: int, number: int) -> str:
    return f"{CHANGES}/{batch_id}-{number}.json"


_REMEDY = "restore it, or remove it (the tables keep their columns, the ledger then lacks these lines)"


def _read(files: Files, batch_id: int, number: int) -> list[LoggedChange]:
    path = _path(batch_id, number)
    with undamaged(f"{files.url}/{path}", _REMEDY):
        value = json.loads(files.read(path))
        if value["format"] != FORMAT or value["batch_id"] != batch_id:
            raise ValueError(f"it is of batch {value['batch_id']}, format {value['format']}")
        return [LoggedChange(batch_id, value["at"], TableChange(**one)) for one in value["changes"]]
