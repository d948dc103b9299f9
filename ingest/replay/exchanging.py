"""The entry of a table's log by which rows leave it and others come: those of records that were decoded once more, all at once or not at all."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import takewhile
from typing import Any
from urllib.parse import quote, unquote

import numpy as np
import pyarrow as pa
from deltalake.exceptions import DeltaError, TableNotFoundError

from distributary.errors import PipelineError
from distributary.ingest import failpoints
from distributary.ingest.erasure.file_anew import Made, addition, written_anew
from distributary.ingest.log_paths import entry_path
from distributary.ingest.merge import live_files, vectors
from distributary.ingest.merge.columns import DataColumns, Unreadable
from distributary.ingest.merge.entry import removal
from distributary.ingest.merge.found import partition_of
from distributary.ingest.merge.live_files import Action
from distributary.ingest.parquet.data_file import merged_mark, merged_name
from distributary.ingest.replay.kept import NUMBER
from distributary.ingest.replay.leaving import why_not
from distributary.ingest.replay.places import Places, are_in
from distributary.ingest.replay.raw_records import PLACE_AND_TIME
from distributary.ingest.settings.groups import Columns
from distributary.ingest.tables.handle import opened
from distributary.ingest.tables.log import (
    ENGINE,
    clocks,
    commit_of,
    entry,
    is_read,
    put_entry,
    version_of,
    write_again,
)
from distributary.ingest.tables.state import TableState, state_of
from distributary.ingest.tables.transaction import TableCommit
from distributary.values import without_logins

REPLAY = "distributary.replay"
"""In a commit: the replay that it is a part of. It says nothing of a generation, as no reading of topics goes on with it."""

_ATTEMPTS = 20


@dataclass(frozen=True, slots=True)
class _Left:
    """A data file of which rows leave.

    rows  how many do
    made  what takes its place; None where no row stays
    """

    add: Action
    rows: int
    made: Made | None


@dataclass(frozen=True, slots=True)
class Exchange:
    """One table's part of a replay.

    commit   the files that come, and the transaction by which that is done once
    leaving  where the records are from whose rows go
    columns  what the table calls Kafka's columns
    replay   whose part it is
    """

    commit: TableCommit
    leaving: Places
    columns: Columns
    replay: str
    _known: dict[tuple[str, str], _Left | None] = field(default_factory=dict)

    def made(self) -> bool:
        """Whether it is new: False where it was in already. It survives a loss of power when this returns.

        Files with such a row are written anew without it. A rival that is first in between makes it look again at what he changed. Raises
        CommitImpossible where repeating can never help, PipelineError where others were first each time.
        """
        place, done = self.commit.place, False
        for _ in range(_ATTEMPTS):
            began, (state, newest) = clocks(), self._now()
            version = state.version
            if self._is_in(newest, version) or self.commit.is_forgotten(state.properties, version):
                self._last(version, done)
                return done
            self._require_fit(state)
            left = self._left(state)
            place.sync([one.made.name for one in left if one.made is not None])
            actions = self._actions(left)
            failpoints.reach(failpoints.AMID_MERGE, NUMBER)
            if put_entry(place, version + 1, actions) and is_read(place, version + 1, began):
                place.sync([entry_path(version + 1)])
                # Looked at once more: another writer's entry may take the place of ours on a local file system.
                done = True
        raise PipelineError(
            f"table {place}: {_ATTEMPTS} times another writer was first; say it again, and it is gone on with"
        )

    def _is_in(self, newest: int | None, version: int) -> bool:
        """Raises TableAhead where the table has another replay by this number, or a later one and nobody tells whether it has this."""
        one = self.commit
        if newest is None or newest < one.batch_id:
            return False
        found = commit_of(one.place, version, one.app_id, one.batch_id)
        # One that nobody has any more is not doubted, as long as none came behind it.
        if found is None:
            found = ({}, {}) if newest == one.batch_id else None
        if found is not None and found[0].get(REPLAY, self.replay) == self.replay:
            return True
        raise one.ahead("what a later replay gave it")

    def _now(self) -> tuple[TableState, int | None]:
        place = self.commit.place
        try:
            handle = opened(place)
            return state_of(handle, place), handle.transaction_version(self.commit.app_id)
        except TableNotFoundError:
            raise self.commit.impossible("there is no Delta table any more") from None
        except DeltaError as error:
            raise PipelineError(f"table {place} cannot be opened: {without_logins(str(error))}") from error

    def _require_fit(self, state: TableState) -> None:
        if why := why_not(state):
            raise self.commit.impossible(why)
        if self.commit.files and set(state.partitions) != set(self.commit.partitions):
            raise self.commit.takes_no_files(
                f"it is partitioned by {', '.join(state.partitions) or 'nothing'}"
            )
        self.commit.require_columns(state.layout)

    def _left(self, state: TableState) -> list[_Left]:
        """The files of this version that have any of the rows, each looked into once however often others are first."""
        found = list[_Left]()
        for name, add in live_files.read(self.commit.place, state.version):
            key = (name, json.dumps(add.get("deletionVector"), sort_keys=True))
            if key not in self._known:
                self._known[key] = self._into(name, add, state) if self._may_have(add) else None
            if (one := self._known[key]) is not None:
                found.append(one)
        return found

    def _may_have(self, add: Action) -> bool:
        """By what the log tells of the file's values."""
        told = json.loads(add.get("stats") or "{}")
        low, high = (told.get(which, {}).get(self._names[2]) for which in ("minValues", "maxValues"))
        if low is None or high is None:
            return True
        return any(
            np.searchsorted(offsets, low, "left") < np.searchsorted(offsets, high, "right")
            for offsets in self.leaving.values()
        )

    @property
    def _names(self) -> tuple[str, str, str]:
        by = self.columns
        return by.kafka_topic, by.kafka_partition, by.kafka_offset

    def _into(self, name: str, add: Action, state: TableState) -> _Left | None:
        """A file without the rows that leave; None where it has none."""
        place = self.commit.place
        wanted = pa.schema([(own, of.type) for own, of in zip(self._names, PLACE_AND_TIME, strict=False)])
        try:
            file = DataColumns(place, name, add["size"], partition_of(add))
            gone = np.concatenate([np.empty(0, bool), *self._gone(file, wanted)])
            vector: Mapping[str, Any] | None = add.get("deletionVector")
            stays = np.ones(file.rows, dtype=bool)
            if vector is not None:
                stays[vectors.read(place, vector)] = False
            leave = gone & stays
            if not leave.any():
                return None
            stays &= ~gone
            made = None
            if stays.any():
                anew = merged_name(self.replay, NUMBER)
                made = written_anew(place, anew, file, stays, add, state)
        except (Unreadable, vectors.WrongVector) as error:
            raise self.commit.impossible(str(error)) from None
        return _Left(add, int(leave.sum()), made)

    def _gone(self, file: DataColumns, wanted: pa.Schema) -> Iterator[Any]:
        for number, _, _ in file.groups():
            rows = file.read(number, wanted)
            found = are_in(rows, self._names, self.leaving)
            found = found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found
            yield found.to_numpy(zero_copy_only=False)

    def _actions(self, left: list[_Left]) -> list[dict[str, Any]]:
        now, one = int(time.time() * 1000), self.commit
        files = [(file, one.require_file(file)) for file in one.files]
        adds = [addition(part.add, part.made, now) for part in left if part.made is not None]
        adds += [
            {
                "path": quote(file.name),
                "partitionValues": dict(file.partition),
                "size": file.bytes,
                "modificationTime": info.modified,
                "dataChange": True,
                "stats": file.statistics,
            }
            for file, info in files
        ]
        info = {
            "timestamp": now,
            "operation": "MERGE",
            "operationParameters": {"keys": json.dumps(self._names)},
            "operationMetrics": {
                "numTransactions": "1",
                "numRemovedFiles": str(len(left)),
                "numFiles": str(len(adds)),
                "numTargetRowsDeleted": str(sum(part.rows for part in left)),
                "numTargetRowsInserted": str(sum(file.rows for file, _ in files)),
            },
            "isBlindAppend": False,
            "engineInfo": ENGINE,
            # Its writer's own: who puts the same entry within the same millisecond is told that another was first.
            "txnId": str(uuid.uuid4()),
            **one.metadata,
        }
        return [
            {"commitInfo": info},
            {"txn": {"appId": one.app_id, "version": one.batch_id, "lastUpdated": now}},
            *({"remove": removal(part.add, now)} for part in left),
            *({"add": add} for add in adds),
        ]

    def _last(self, newest: int, done: bool) -> None:
        """What is in made lasting, and what earlier attempts left deleted: nobody can put another entry of this any more."""
        place, number = self.commit.place, self.commit.batch_id
        version, _ = version_of(place, newest, self.commit.app_id, number)
        if version is None:
            return
        if not (done or place.remote):
            # It may be what a sync failed for.
            write_again(place, [entry_path(version)])
            place.sync([entry_path(version)])
        named = {unquote(action["add"]["path"]) for action in entry(place, version) if "add" in action}
        mark = merged_mark(self.replay, NUMBER)
        mine = takewhile(partial(_begins, mark), place.names(after=mark))
        left = [name for name in mine if name not in named]
        # Of many replays two may share what names carry of them.
        live = {name for name, _ in live_files.read(place, newest)} if left else set()
        place.delete([name for name in left if name not in live])


def _begins(mark: str, name: str) -> bool:
    return name.startswith(mark)
