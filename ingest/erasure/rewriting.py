"""A table's data files written anew without some rows, those that were only marked as gone among them; one entry puts them in the others' place."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from distributary.errors import PipelineError
from distributary.ingest.erasure.file_anew import Made, Mask, addition, written_anew
from distributary.ingest.merge import live_files, vectors
from distributary.ingest.merge.columns import DataColumns
from distributary.ingest.merge.entry import removal
from distributary.ingest.merge.found import partition_of
from distributary.ingest.merge.live_files import Action
from distributary.ingest.parquet.data_file import rewritten_name
from distributary.ingest.storage.contract import Files
from distributary.ingest.tables.handle import opened
from distributary.ingest.tables.log import ENGINE, is_read, is_still_there, put_entry
from distributary.ingest.tables.state import TableState, state_of
from distributary.ingest.tables.transaction import ERASURE

ATTEMPTS = 20


@dataclass(frozen=True, slots=True)
class Rows:
    """Which rows are to go.

    columns  what is read of a table to tell, by the names of its top-level columns; those that it lacks are passed over
    met      for which of some rows, with these columns, it is true
    told     columns of which it is told what the rows had that a reader saw
    keep     is told it before the rows go: whatever ends the program then, that they did is known
    """

    columns: frozenset[str]
    met: Callable[[pa.RecordBatch], Mask]
    told: tuple[str, ...] = ()
    keep: Callable[[pa.Table], None] | None = None


@dataclass(frozen=True, slots=True)
class Rewritten:
    """What became of a table.

    rows     that went
    hidden   of these how many no reader saw any more
    files    that had any
    version  by which they went; None where none did
    left     why nothing was done; empty where there is no such reason
    """

    rows: int = 0
    hidden: int = 0
    files: int = 0
    version: int | None = None
    left: str = ""


@dataclass(slots=True)
class _File:
    """A data file that has rows which are to go.

    told  what those had that a reader saw
    made  what takes its place; None where no row is left
    """

    add: Action
    rows: int
    hidden: int
    told: pa.Table
    made: Made | None = None


def without_rows(place: Files, rows: Rows, erasure: str, *, dry_run: bool = False) -> Rewritten:
    """Write a table's files anew without these rows.

    A rival that is first in between makes it look again, some times. The new version survives a loss of power when this returns.

    erasure  what the entry says that it is a part of

    Raises TableNotFoundError and other DeltaErrors where delta-rs cannot open the table, ConfigError where the condition does not go with
    its columns, OSError where its place does not answer, and PipelineError where others were first each time.
    """
    known: dict[tuple[str, str], _File | None] = {}
    looking = _Looking(place, rows, dry_run)
    for _ in range(ATTEMPTS):
        handle = opened(place)
        state = state_of(handle, place)
        if why := _why_not(state):
            return Rewritten(left=why)
        live = live_files.read(place, state.version)
        found: dict[str, _File] = {}
        for name, add in live:
            key = (name, json.dumps(add.get("deletionVector"), sort_keys=True))
            if key not in known:
                known[key] = looking.into(name, add, state)
            if (one := known[key]) is not None:
                found[name] = one
        told = Rewritten(
            sum(one.rows for one in found.values()), sum(one.hidden for one in found.values()), len(found)
        )
        if not found or dry_run:
            return told
        place.sync([one.made.name for one in found.values() if one.made is not None])
        if rows.told and rows.keep is not None:
            rows.keep(pa.concat_tables([one.told for one in found.values()]))
        actions = _actions(list(found.values()), erasure)
        put = put_entry(place, state.version + 1, actions)
        # To read large files takes so long that the log may have been cleaned up beyond that number.
        if put and is_read(place, state.version + 1):
            # With what it rests on: were that lost, it would be undone, and a batch that comes again would bring the rows back.
            place.sync_folders([""])
            if is_still_there(place, state.version + 1, actions):
                return replace(told, version=state.version + 1)
    raise PipelineError(
        f"table {place}: {ATTEMPTS} times another writer was first, and its rows are there; say it again when there is less to do"
    )


def _why_not(state: TableState) -> str:
    if not state.native:
        return f"only Spark's writer may rewrite its rows ({state.why_not}): DELETE and REORG TABLE … APPLY (PURGE) there"
    if state.properties.get("delta.appendOnly", "").lower() == "true":
        return "it lets nobody take rows away (delta.appendOnly); take that property away for as long as this takes"
    return ""


@dataclass(frozen=True, slots=True)
class _Looking:
    """Into a table's files."""

    place: Files
    rows: Rows
    dry_run: bool

    def into(self, name: str, add: Action, state: TableState) -> _File | None:
        """A file without the rows that are to go; None where it has none."""
        opened_file = DataColumns(self.place, name, add["size"], partition_of(add))
        # A table of no columns would have no rows, of which what names none may be true.
        wanted = [one for one in state.layout if one.name in self.rows.columns] or [state.layout.field(0)]
        beside = pa.schema([state.layout.field(name) for name in self.rows.told])
        masks = [
            _met(opened_file, number, pa.schema(wanted), self.rows) for number, _, _ in opened_file.groups()
        ]
        if not any(mask.any() for mask in masks):
            return None
        vector: Mapping[str, Any] | None = add.get("deletionVector")
        marked = np.zeros(opened_file.rows, dtype=bool)
        if vector is not None:
            marked[vectors.read(self.place, vector)] = True
        gone = np.concatenate(masks)
        told = pa.concat_tables(_told(opened_file, beside, gone & ~marked))
        found = _File(add, int(gone.sum()), int((gone & marked).sum()), told)
        stays = ~(gone | marked)
        if not self.dry_run and stays.any():
            found.made = written_anew(self.place, rewritten_name(), opened_file, stays, add, state)
        return found


def _told(opened_file: DataColumns, columns: pa.Schema, which: Mask) -> Iterator[pa.Table]:
    """What some rows of a file have in these columns."""
    yield columns.empty_table()
    at = 0
    for number, _, _ in opened_file.groups() if len(columns) else ():
        for rows in opened_file.parts(number, columns):
            yield rows.filter(pa.array(which[at : at + rows.num_rows]))
            at += rows.num_rows


def _met(opened_file: DataColumns, number: int, wanted: pa.Schema, rows: Rows) -> Mask:
    # Of more than 2 GiB of text in structs no one array can be made.
    parts = (part for some in opened_file.parts(number, wanted) for part in some.to_batches())
    return np.concatenate([np.empty(0, bool), *map(rows.met, parts)])


def _actions(files: Sequence[_File], erasure: str) -> list[dict[str, Any]]:
    now = int(time.time() * 1000)
    info = {
        "timestamp": now,
        "operation": "DELETE",
        # The condition may name somebody.
        "operationParameters": {"predicate": "[]"},
        "operationMetrics": {
            # By this and the next one a cut-off entry shows, as that of a merge.
            "numFiles": str(sum(one.made is not None for one in files)),
            "numRemovedFiles": str(len(files)),
            "numAddedFiles": str(sum(one.made is not None for one in files)),
            "numDeletedRows": str(sum(one.rows for one in files)),
        },
        "isBlindAppend": False,
        "engineInfo": ENGINE,
        "txnId": str(uuid.uuid4()),
        ERASURE: erasure,
    }
    removes = [removal(one.add, now) for one in files]
    adds = [addition(one.add, one.made, now) for one in files if one.made is not None]
    return [{"commitInfo": info}, *({"remove": one} for one in removes), *({"add": one} for one in adds)]
