"""The log of changes to tables, written before they are made so that they are recorded even if the run dies."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime, timezone
from typing import NamedTuple

from distributary.ingest.checkpoint.damage import undamaged
from distributary.ingest.checkpoint.folder import CHANGES, Checkpoint
from distributary.ingest.columns.growth import ChangeKind
from distributary.ingest.commit_log.entries import NONE
from distributary.ingest.commit_log.formats import require_readable
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


_FIELDS = tuple(one.name for one in fields(TableChange))


@dataclass(frozen=True, slots=True)
class LoggedChange:
    """A change with the number of the attempt that asked for it and when that was first written down."""

    batch_id: int
    at: str
    change: TableChange


class ChangeLog:
    """The changes of a checkpoint: `<number>-<n>.json`, one file for what one attempt at the batch of a number adds.

    An attempt that dies leaves its number to the next start, so the next attempt at the same records has another one: what
    all of them wrote down stands behind the newest batch.
    """

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._files = checkpoint.files
        # What was put here need not be read back: of a thousand new tables those are ten thousands.
        self._own: dict[str, list[LoggedChange]] = {}

    def write(
        self, batch_id: int, changes: Sequence[TableChange], after: int = NONE
    ) -> tuple[TableChange, ...]:
        """Write changes down, and give back those that no attempt behind batch `after` had written down before."""
        while True:
            found = _behind(self._files, after)
            known = {logged.change for name in found for logged in self._read(name)}
            new = tuple(change for change in dict.fromkeys(changes) if change not in known)
            number = 1 + max((name.number for name in found if name.batch_id == batch_id), default=-1)
            if not new or self._append(batch_id, number, new):
                return new

    def read(self, after: int = NONE) -> list[LoggedChange]:
        """What attempts behind a batch wrote down, in this order. What is asked for does not grow with the batches before."""
        return [logged for name in _behind(self._files, after) for logged in self._read(name)]

    def forget(self, through: int) -> None:
        """Delete what attempts up to this number wrote down: a batch that was decided since has it. Raises OSError."""
        self._files.delete(
            f"{CHANGES}/{name.text}" for name in _behind(self._files, NONE) if name.batch_id <= through
        )

    def _append(self, batch_id: int, number: int, changes: Sequence[TableChange]) -> bool:
        now = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
        value = {
            "format": FORMAT,
            "batch_id": batch_id,
            "at": now,
            "changes": [{one: getattr(change, one) for one in _FIELDS} for change in changes],
        }
        name = f"{_first(batch_id)}-{number}.json"
        mine = self._files.put_new(f"{CHANGES}/{name}", json.dumps(value).encode())
        if mine:
            self._own[name] = [LoggedChange(batch_id, now, change) for change in changes]
        return mine

    def _read(self, name: _Name) -> list[LoggedChange]:
        found = self._own.get(name.text)
        return _read(self._files, name) if found is None else found


class _Name(NamedTuple):
    batch_id: int
    number: int
    text: str


def _behind(files: Files, after: int) -> list[_Name]:
    """The files of the numbers behind this one, in order."""
    # Before the log numbers had no leading zeros, and the first one would be passed by.
    names = files.names(CHANGES, after="" if after == NONE else _first(after + 1))
    found = (
        _Name(int(one["batch"]), int(one["number"]), one[0]) for one in map(_NAME.fullmatch, names) if one
    )
    return sorted(name for name in found if name.batch_id > after)


def _first(batch_id: int) -> str:
    # Names are listed in order, so that those behind one can be asked for.
    return f"{batch_id:010d}"


_REMEDY = "restore it, or remove it (the tables keep their columns, the ledger then lacks these lines)"


def _read(files: Files, name: _Name) -> list[LoggedChange]:
    path = f"{CHANGES}/{name.text}"
    where = f"{files.url}/{path}"
    with undamaged(where, _REMEDY):
        value = json.loads(files.read(path))
        require_readable(where, value["format"], FORMAT)
        if value["format"] != FORMAT or value["batch_id"] != name.batch_id:
            raise ValueError(f"it is of batch {value['batch_id']}, format {value['format']}")
        return [LoggedChange(name.batch_id, value["at"], TableChange(**one)) for one in value["changes"]]
