"""A batch's rows against a version of a table that keeps what was: which of its rows end, and which come, in their place in time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date, datetime, timezone
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from distributary.codecs.types.walk import children
from distributary.errors import PipelineError
from distributary.ingest.history.sameness import same_but
from distributary.ingest.history.timeline import (
    FOR_EVER,
    NO_ROW,
    Event,
    Numbers,
    Records,
    Timeline,
    timeline,
)
from distributary.ingest.merge.bounds import Told
from distributary.ingest.merge.columns import DataColumns, value_at
from distributary.ingest.merge.folding import Chains, Folding, Source
from distributary.ingest.merge.found import Found, look_up, told_of
from distributary.ingest.merge.live_files import LiveFiles
from distributary.ingest.merge.outcome import Mask
from distributary.ingest.merge.ranks import Ranks, ranks
from distributary.ingest.merge.rule import IS_DELETE, Deletes, MergeRule, Validity
from distributary.ingest.merge.staged import staged
from distributary.ingest.merge.upsert import Marks, forgotten, joined, marks, remembered_since
from distributary.ingest.parquet.data_file import DataFile
from distributary.ingest.storage.contract import Files

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class History:
    """A batch's rows for a table that keeps what was. They are read once, however often the table has to be looked at anew."""

    def __init__(self, place: Files, files: Sequence[DataFile], schema: pa.Schema, rule: MergeRule) -> None:
        """`rule` says by which columns, and what remembers the records. Raises PipelineError where rows cannot be merged."""
        if rule.history is None or rule.deletes is None or not rule.order.sequence:
            raise PipelineError(f"table {place}: its rule says nothing of when rows are true")
        self._place, self._rule, self._data = place, rule, len(files)
        self._validity: Validity = rule.history
        self._memory: Deletes = rule.deletes
        self._moment = rule.order.sequence[0]
        self._staged = staged(place, files, schema, rule)

    def against(self, live: LiveFiles, memory: LiveFiles | None, columns_now: pa.Schema) -> Marks:
        """What becomes of the rows at a version of the table, which has these columns, and of what remembers its records."""
        mine, wanted = self._staged, self._staged.wanted
        there = look_up(self._place, live, wanted, self._over(live))
        gone = Found() if memory is None else look_up(self._memory.memory, memory, wanted, self._past(memory))
        columns = pa.concat_tables([mine.columns, *there.columns, *gone.columns])
        sources = _Sources(self, there, gone)
        found = Records(
            codes=np.concatenate([wanted.index.own, *there.codes, *gone.codes]),
            order=self._order(columns),
            kinds=self._kinds(columns, there),
            until=_or_for_ever(columns.column(self._validity.until)),
        )
        tracked = self._tracked(columns_now)
        result = timeline(found, lambda left, right: sources.say_the_same(left, right, tracked, columns_now))
        if result.counts.staged != len(mine.of):
            raise PipelineError(
                f"table {self._place}: {len(mine.of)} rows were staged, and {result.counts.staged} were merged ({result.counts})"
            )
        return Marks(*marks(mine, there, result.marked), result.counts, sources.made(result, columns_now))

    @property
    def _first(self) -> int:
        """The first moment that the batch says anything of."""
        moments = ranks(self._staged.columns.column(self._moment))
        return int(moments.min()) if len(moments) else FOR_EVER

    def _over(self, live: LiveFiles) -> frozenset[str]:
        """The files of rows that ended before anything that the batch says."""
        until, told, first = self._validity.until, self._staged.wanted.told, self._first
        files = ((name, told_of(live, name, add, told)) for name, add in live)
        return frozenset(name for name, file in files if until in file.whole and _before(file, until, first))

    def _past(self, memory: LiveFiles) -> frozenset[str]:
        """The files of records that change nothing: the batch's own, those that came before any of it, and those that are forgotten."""
        told, first, name = self._staged.wanted.told, self._first, self._rule.order.position.timestamp
        times = ranks(self._staged.columns.column(name).drop_null())
        since = remembered_since(times, self._memory.days)
        passed = {one.name for one in self._staged.files} | forgotten(memory, told, name, since)
        later = ((file, told_of(memory, file, add, told)) for file, add in memory)
        return frozenset(passed) | {file for file, tells in later if _before(tells, self._moment, first)}

    def _kinds(self, columns: pa.Table, there: Found) -> Any:
        count, known = len(self._staged.of), sum(map(len, there.of))
        deletes = columns.column(IS_DELETE).combine_chunks().fill_null(False).to_numpy(zero_copy_only=False)
        found = np.where(deletes, np.int8(Event.MEMORY_DELETE), np.int8(Event.MEMORY))
        found[:count] = np.where(self._staged.of < self._data, Event.STAGED, Event.STAGED_DELETE)
        found[count : count + known] = Event.TABLE
        return found

    def _order(self, columns: pa.Table) -> Sequence[Ranks]:
        place, others = self._rule.order.position, self._rule.order.sequence[1:]
        where = (place.topic, place.partition, place.offset)
        moments = _or_since(columns.column(self._moment), columns.column(self._validity.since))
        return [ranks(moments), *(ranks(columns.column(path)) for path in (*others, *where))]

    def _tracked(self, columns_now: pa.Schema) -> pa.Schema:
        """The table's columns of which a change makes history."""
        apart = {*self._rule.read, *self._validity.columns}
        return pa.schema(_without(columns_now, apart))


class _Sources:
    """The records of a batch's keys: where each can be read."""

    def __init__(self, history: History, there: Found, gone: Found) -> None:
        mine, memory = history._staged, history._memory.memory
        self._place, self._validity = history._place, history._validity
        self._moment = history._moment
        whole = [
            Source(
                partial(DataColumns, self._place, one.name, one.bytes, dict(one.partition)),
                one.bytes,
                None,
                {},
            )
            for one in mine.files[: history._data]
        ]
        remembered = frozenset(history._rule.read)
        beside = [
            Source(partial(DataColumns, memory, one.name, one.bytes), one.bytes, remembered, {})
            for one in mine.files[history._data :]
        ]
        table = [Source(file.opener(self._place), file.add["size"], None, {}) for file in there.files]
        past = [Source(file.opener(memory), file.add["size"], remembered, {}) for file in gone.files]
        self._sources = [*whole, *beside, *table, *past]
        known = len(mine.files)
        self._of = np.concatenate(
            [mine.of, joined(there.of) + known, joined(gone.of) + known + len(there.files)]
        )
        self._places = np.concatenate([mine.places, joined(there.places), joined(gone.places)])

    def say_the_same(self, left: Numbers, right: Numbers, tracked: pa.Schema, columns_now: pa.Schema) -> Mask:
        """Which of these records have the same in all columns of which a change makes history, of those that the table has."""
        try:
            return self._say_the_same(left, right, tracked, columns_now)
        except pa.ArrowInvalid:
            if len(left) < 2:
                raise
        # They have more text than one array can hold.
        halves = (slice(len(left) // 2), slice(len(left) // 2, None))
        return np.concatenate(
            [self.say_the_same(left[half], right[half], tracked, columns_now) for half in halves]
        )

    def _say_the_same(
        self, left: Numbers, right: Numbers, tracked: pa.Schema, columns_now: pa.Schema
    ) -> Mask:
        asked, both = np.unique(np.concatenate([left, right]), return_inverse=True)
        one, other = pa.array(both[: len(left)]), pa.array(both[len(left) :])
        found = np.ones(len(left), dtype=bool)
        folding = self._folding(np.arange(len(asked)), asked)
        for field, column in zip(tracked, folding.columns(tracked), strict=True):
            found &= same_but(column.take(one), column.take(other), columns_now.field(field.name).type)
        return found

    def made(self, result: Timeline, schema: pa.Schema) -> Sequence[pa.Table]:
        """The rows that are to be made: those that ended, and those that did not, apart, since nobody looks for the former."""
        if not len(result.made):
            return []
        pairs = np.stack([result.made, result.over], axis=1).ravel()
        kept = pairs != NO_ROW
        starts = (np.cumsum(kept) - kept)[::2]
        rows = self._folding(starts, pairs[kept]).rows(schema)
        ended = result.until != FOR_EVER
        since = _or_since(value_at(rows, self._moment), rows.column(self._validity.since))
        bounds = (since, _as_times(result.until, ended, since.type), pa.array(~ended))
        for name, values in zip(self._validity.columns, bounds, strict=True):
            at = rows.schema.get_field_index(name)
            rows = rows.set_column(at, rows.schema.field(at), values.cast(rows.schema.field(at).type))
        parts = (rows.filter(pa.array(ended)), rows.filter(pa.array(~ended)))
        return [part for part in parts if part.num_rows]

    def _folding(self, starts: Numbers, records: Numbers) -> Folding:
        return Folding(self._place, Chains(starts, self._of[records], self._places[records]), self._sources)


def _before(file: Told, column: str, moment: int) -> bool:
    """Whether all that a file has in a column is known to come before a moment."""
    last = _number(file.spans[column][1])
    return last is not None and last < moment


def _number(told: Any) -> int | None:
    """A moment, or a day, as `ranks` have it."""
    if isinstance(told, datetime):
        passed = told - _EPOCH
        return (passed.days * 86_400 + passed.seconds) * 1_000_000 + passed.microseconds
    return (told - _EPOCH.date()).days if isinstance(told, date) else None


def _or_since(moments: pa.ChunkedArray, since: pa.ChunkedArray) -> pa.ChunkedArray:
    """When records are of; a row that none made, as somebody inserts it, may say no more than since when it is true."""
    return pc.coalesce(moments, since.cast(moments.type)) if moments.null_count else moments


def _or_for_ever(column: pa.ChunkedArray) -> Ranks:
    found = ranks(column)
    found = np.array(found)
    found[column.combine_chunks().is_null().to_numpy(zero_copy_only=False)] = FOR_EVER
    return found


def _as_times(numbers: Ranks, there: Mask, dtype: pa.DataType) -> pa.Array:
    whole = pa.array(np.where(there, numbers, 0), pa.int64(), mask=~there)
    return whole.cast(pa.int32()).view(dtype) if dtype.bit_width == 32 else whole.view(dtype)


def _without(fields: Iterable[pa.Field], paths: set[str], above: str = "") -> list[pa.Field]:
    found = []
    for field in fields:
        path = f"{above}{field.name}"
        if path in paths:
            continue
        if kinds.is_struct(field.type):
            inside = _without(children(field.type), paths, f"{path}.")
            if inside:
                found.append(field.with_type(pa.struct(inside)))
        else:
            found.append(field)
    return found
