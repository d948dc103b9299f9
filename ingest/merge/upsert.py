"""A batch's rows against a version of their table: which rows are marked, and what the table's next entry says."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import partial
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from distributary.errors import PipelineError
from distributary.ingest.merge.bounds import Told
from distributary.ingest.merge.chains import Taken, chains
from distributary.ingest.merge.columns import DataColumns
from distributary.ingest.merge.counts import MergeCounts
from distributary.ingest.merge.folding import Folding, Source
from distributary.ingest.merge.found import Found, LiveFile, Numbers, look_up, told_of
from distributary.ingest.merge.live_files import LiveFiles
from distributary.ingest.merge.outcome import Kind, Mask, Outcome, Rows, moved, outcome
from distributary.ingest.merge.ranks import Ranks, ranks
from distributary.ingest.merge.rule import Deletes, MergeRule
from distributary.ingest.merge.staged import Staged, staged
from distributary.ingest.merge.vectors import Positions
from distributary.ingest.parquet.data_file import DataFile
from distributary.ingest.storage.contract import Files

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)

_DAY = 86_400 * 1_000_000

# When Kafka was first released, https://kafka.apache.org/downloads: a record that is older by its own word has it of a clock that nobody set.
_NEVER_BEFORE = int(datetime(2011, 1, 4, tzinfo=timezone.utc).timestamp()) * 1_000_000


class KeyMoved(Exception):
    """A key came in another partition, or topic, than its rows before, so that nothing says which of them is newer."""


@dataclass(frozen=True, slots=True)
class Marks:
    """Rows to be marked, and what becomes of the others.

    live    files in force of which more rows are marked now, with all that are
    staged  for each staged data file the rows of it that never become rows of the table
    counts  what became of each staged row
    made    rows of the table that are made of others, in files that are not to be one
    """

    live: Sequence[tuple[LiveFile, Positions]]
    staged: Sequence[Positions]
    counts: MergeCounts
    made: Sequence[pa.Table]


class Merger(Protocol):
    """A batch's rows, and by which rule they become part of a table."""

    def against(self, live: LiveFiles, memory: LiveFiles | None, columns_now: pa.Schema) -> Marks:
        """What becomes of the rows at a version of the table, which has these columns, and of what remembers its deletes.

        Raises KeyMoved.
        """
        ...


class Upsert:
    """A batch's rows for a table. They are read once, however often the table has to be looked at anew."""

    def __init__(self, place: Files, files: Sequence[DataFile], schema: pa.Schema, rule: MergeRule) -> None:
        """Raises PipelineError where rows cannot be merged."""
        self._place, self._rule, self._data = place, rule, len(files)
        self._staged = staged(place, files, schema, rule)

    def against(self, live: LiveFiles, memory: LiveFiles | None, columns_now: pa.Schema) -> Marks:
        """What becomes of the rows at a version of the table, which has these columns, and of what remembers its deletes.

        Raises KeyMoved.
        """
        mine, wanted = self._staged, self._staged.wanted
        there, gone, horizon = look_up(self._place, live, wanted), Found(), None
        if (deletes := self._rule.deletes) is not None and memory is not None:
            gone = self._remembered(deletes, memory)
            horizon = self._horizon(deletes, live, memory) if deletes.again else None
        columns = pa.concat_tables([mine.columns, *there.columns, *gone.columns])
        kinds = np.concatenate(
            [
                np.where(mine.of < self._data, np.int8(Kind.STAGED), np.int8(Kind.STAGED_DELETE)),
                *(np.full(len(part), Kind.TABLE, dtype=np.int8) for part in there.of),
                *(np.full(len(part), Kind.MEMORY, dtype=np.int8) for part in gone.of),
            ]
        )
        codes = np.concatenate([wanted.index.own, *there.codes, *gone.codes])
        rows = Rows(codes, self._order(columns), kinds, self._beyond(columns, horizon))
        self._require_comparable(rows, columns)
        result = outcome(rows)
        if result.counts.staged != len(mine.of):
            raise PipelineError(
                f"table {self._place}: {len(mine.of)} rows were staged, and {result.counts.staged} were merged ({result.counts})"
            )
        made = list[pa.Table]()
        if self._makes_rows and (folding := self._folding(rows, result, columns, there)) is not None:
            made = [folding.rows(columns_now)]
        return Marks(*marks(mine, there, result.marked), result.counts, made)

    @property
    def _makes_rows(self) -> bool:
        """Whether there may be rows that are made of several."""
        marks = self._rule.deletes is not None and self._rule.deletes.mark is not None
        return marks or any(present is not None for present in self._staged.present)

    def _folding(self, rows: Rows, result: Outcome, columns: pa.Table, there: Found) -> Folding | None:
        """What makes the rows that are made of several; what they are made of is marked."""
        mine, mark = self._staged, None if self._rule.deletes is None else self._rule.deletes.mark
        count, more = len(mine.of), len(rows.codes) - len(mine.of) - sum(map(len, there.of))
        nowhere = np.full(more, -1, dtype=np.int64)
        partly = np.array([*(present is not None for present in mine.present), False])
        empty = rows.kinds == Kind.STAGED_DELETE
        if mark is not None:
            # A delete that is staged has no such column.
            marked = pc.fill_null(columns.column(mark), False).combine_chunks().to_numpy(zero_copy_only=False)
            empty |= marked & (rows.kinds == Kind.TABLE)
        place = self._rule.order.position
        where = [
            self._turns(columns),
            *(ranks(columns.column(name)) for name in (place.topic, place.partition)),
        ]
        of = np.concatenate([mine.of, joined(there.of) + len(mine.files), nowhere])
        places = np.concatenate([mine.places, joined(there.places), nowhere])
        set_partly = np.concatenate([partly[mine.of], np.zeros(len(rows.codes) - count, dtype=bool)])
        taken = Taken(of, places, where, ranks(columns.column(place.offset)), empty, set_partly)
        found, parts = chains(rows, result, taken, marks=mark is not None)
        if not len(found.of):
            return None
        result.marked[parts] = True
        return Folding(self._place, found, self._sources(there, mark))

    def _sources(self, there: Found, mark: str | None) -> Sequence[Source]:
        mine, rule = self._staged, self._rule
        found = [
            Source(
                partial(DataColumns, self._place, file.name, file.bytes, dict(file.partition)),
                file.bytes,
                present,
                {},
            )
            for file, present in zip(mine.files[: self._data], mine.present, strict=False)
        ]
        if rule.deletes is not None:
            fixed = {} if mark is None else {mark: True}
            found += [
                Source(
                    partial(DataColumns, rule.deletes.memory, file.name, file.bytes),
                    file.bytes,
                    frozenset(rule.read),
                    fixed,
                )
                for file in mine.files[self._data :]
            ]
        found += [Source(file.opener(self._place), file.add["size"], None, {}) for file in there.files]
        return found

    def _order(self, columns: pa.Table) -> Sequence[Ranks]:
        order = self._rule.order
        place = order.position
        turn = [self._turns(columns)]
        where = [ranks(columns.column(name)) for name in (place.topic, place.partition)]
        offset = [ranks(columns.column(place.offset))]
        if order.sequence:
            return [*(ranks(columns.column(path)) for path in order.sequence), *turn, *where, *offset]
        if order.moved == "timestamp":
            return [*turn, ranks(columns.column(place.timestamp)), *where, *offset]
        return [*turn, *offset]

    def _turns(self, columns: pa.Table) -> Ranks:
        name = self._rule.order.position.turn
        if name is None or name not in columns.column_names:
            return np.zeros(columns.num_rows, dtype=np.int64)
        return ranks(pc.fill_null(columns.column(name), 0))

    def _require_comparable(self, rows: Rows, columns: pa.Table) -> None:
        order = self._rule.order
        if order.sequence or order.moved != "stop":
            return
        place = order.position
        topics, partitions = ranks(columns.column(place.topic)), ranks(columns.column(place.partition))
        placed = columns.column(place.topic).is_valid().to_numpy()
        if (two := moved(rows, placed, topics, partitions, self._turns(columns))) is not None:
            told = [
                f"{columns.column(place.topic)[row].as_py()}/{columns.column(place.partition)[row].as_py()}"
                f" at offset {columns.column(place.offset)[row].as_py()}"
                for row in two
            ]
            raise KeyMoved(f"a key has rows of {told[0]} and of {told[1]}")

    def _horizon(self, deletes: Deletes, live: LiveFiles, memory: LiveFiles) -> int | None:
        """The oldest timestamp of which all deletes are remembered: so long before the newest record's, or before now. None where nobody knows one."""
        name, columns = self._rule.order.position.timestamp, self._staged.wanted.told
        found = [
            high
            for files in (live, memory)
            for file, add in files
            if (high := newest(told_of(files, file, add, columns), name)) is not None
        ]
        times = self._times
        found += [int(times.max())] if len(times) else []
        if not found:
            return None
        # One that says it is of a time to come, as by a clock that was ahead, would leave out all that is of now.
        return min(max(found), _now()) - int(deletes.days * _DAY)

    def _remembered(self, deletes: Deletes, memory: LiveFiles) -> Found:
        """The deletes of the batch's keys before it, but for those that are older than all of its records by so long."""
        mine, name = self._staged, self._rule.order.position.timestamp
        since = remembered_since(self._times, deletes.days)
        passed = {one.name for one in mine.files}
        passed |= forgotten(memory, mine.wanted.told, name, since)
        found = look_up(deletes.memory, memory, mine.wanted, frozenset(passed))
        for at, columns in enumerate(found.columns):
            kept = np.flatnonzero(~came_before(columns.column(name), since))
            found.columns[at] = columns.take(pa.array(kept))
            found.of[at], found.places[at] = found.of[at][kept], found.places[at][kept]
            found.codes[at] = found.codes[at][kept]
        return found

    @property
    def _times(self) -> Ranks:
        """The timestamps of the batch's records, in microseconds."""
        times = self._staged.columns.column(self._rule.order.position.timestamp)
        return ranks(times.drop_null())

    def _beyond(self, columns: pa.Table, horizon: int | None) -> Mask | None:
        if horizon is None:
            return None
        return came_before(columns.column(self._rule.order.position.timestamp), horizon)


def marks(
    mine: Staged, there: Found, marked: Mask
) -> tuple[list[tuple[LiveFile, Positions]], list[Positions]]:
    """The files in force of which more rows are marked, and for each staged data file its marked rows; first of the mask come the staged."""
    count = len(mine.of)
    own = [
        mine.places[(mine.of == number) & marked[:count]].astype(np.uint32)
        for number in range(len(mine.files) - mine.deletes)
    ]
    of, places = joined(there.of), joined(there.places)
    more = marked[count : count + len(of)]
    return list(_more(there.files, of[more], places[more])), own


def _more(files: Sequence[LiveFile], of: Numbers, places: Numbers) -> Iterator[tuple[LiveFile, Positions]]:
    """The files of which rows are marked, with those that were before."""
    for number in np.unique(of).tolist():
        file = files[number]
        # None of these was marked before.
        yield file, np.sort(np.concatenate([file.marked, places[of == number].astype(np.uint32)]))


def joined(parts: Sequence[Numbers]) -> Numbers:
    """Numbers that were found file by file."""
    return np.concatenate([np.empty(0, dtype=np.int64), *parts])


def remembered_since(times: Ranks, days: float) -> int:
    """The oldest timestamp of what a batch whose records have these is held against, so many days before its oldest, in microseconds.

    Or before now: all its records may say that they are of a time to come, as by a clock that is ahead, and what is of now is no older.
    """
    return min(int(times.min()), _now()) - int(days * _DAY) if len(times) else 0


def came_before(times: pa.ChunkedArray, moment: int) -> Mask:
    """Which records came before a moment. Of one without a time, or with one of a clock that nobody set, nobody knows when it came."""
    numbers = ranks(times)
    found: Mask = (numbers < moment) & (numbers >= _NEVER_BEFORE)
    return found


def forgotten(memory: LiveFiles, columns: pa.Schema, timestamp: str, since: int) -> frozenset[str]:
    """The files of what is remembered all of which came before a moment; `columns` are those of which the log's statistics are asked."""
    told = ((name, told_of(memory, name, add, columns)) for name, add in memory)
    return frozenset(name for name, file in told if _all_came_before(file, timestamp, since))


def _all_came_before(file: Told, timestamp: str, moment: int) -> bool:
    first, last = (_microseconds(one) for one in file.spans[timestamp])
    # What is null has no part in the bounds.
    if first is None or last is None or timestamp not in file.whole:
        return False
    return first >= _NEVER_BEFORE and last < moment


def _now() -> int:
    return time.time_ns() // 1_000


def newest(file: Told, column: str) -> int | None:
    """The newest timestamp that a file may have, in microseconds; None where that is not told."""
    return _microseconds(file.spans[column][1])


def _microseconds(moment: datetime | None) -> int | None:
    return None if moment is None else (moment - _EPOCH) // timedelta(microseconds=1)
