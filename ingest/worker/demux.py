"""One pass over one batch, in a worker: header, decode, route, check, write; every record ends in exactly one place."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext

from distributary.codecs.types.masks import Rows, is_valid
from distributary.codecs.wire.header import NO_USABLE_HEADER, TOMBSTONE, Frames, bodies, portions
from distributary.ingest import failpoints
from distributary.ingest import pins as reasons
from distributary.ingest.bronze.rule import ALREADY
from distributary.ingest.kafka.offset_spans import committed, count_spans, placed
from distributary.ingest.kafka.portions import any_kept_back
from distributary.ingest.kafka.records import TEXT, raw_records
from distributary.ingest.landing.told import reasons as told_of_files
from distributary.ingest.pins import Pins, RecordKey, Verdict, numbers_of_records
from distributary.ingest.worker.gathering import report_row, shipments
from distributary.ingest.worker.keys import Keys, LookedAt
from distributary.ingest.worker.per_entity import EntityDemux
from distributary.ingest.worker.placement import decode, place_tombstones
from distributary.ingest.worker.record_group import Batch, picked
from distributary.ingest.worker.report import TaskReport, to_batch
from distributary.ingest.worker.spark_rows import SparkRows
from distributary.ingest.worker.task import Task, tally

# Instead of a pinned record's number.
_REFUSED, _UNKNOWN = -1, -2

# What a worker's process ends with, which nobody reads.
_OUT_OF_MEMORY = 137


def demultiplex(
    pins: Pins, *, ships: bool = False
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function that Spark's `mapInArrow` runs in each task: records in, one report out.

    With `ships` the rows come out before it, for `gather` to write: what both yield then has the columns of SHIPPED_DDL.
    """

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task = Demultiplexer(pins, ships=ships)
        try:
            for batch in batches:
                task.take(batch)
                yield from task.shipped()
            report = task.finish()
            yield from task.shipped()
            failpoints.reach(failpoints.BEFORE_REPORT, pins.batch.made_for)
        except BaseException as error:
            task.abandon()
            if isinstance(error, MemoryError) and TaskContext.get() is not None and not pins.turn.guarded:
                # As one that the system ends for want of memory: the next pass decodes in pieces that are survived.
                os._exit(_OUT_OF_MEMORY)
            raise
        context = TaskContext.get()
        report.retried = context is not None and context.attemptNumber() > 0
        yield report_row(report) if ships else to_batch(report)

    return run


class Demultiplexer:
    """Takes Arrow batches of Kafka records and writes their rows to the tables' folders."""

    def __init__(self, pins: Pins, *, ships: bool = False) -> None:
        self._pins, self._task = pins, Task(pins, ships=ships)
        self._numbers = numbers_of_records(pins.schemas.records)
        self._entities = EntityDemux(self._task) if pins.rules.decoding.by_entity else None
        self._large = False
        self._keys = None if pins.keys is None else Keys(pins.keys, guarded=pins.turn.guarded)

    def take(self, batch: pa.RecordBatch) -> None:
        """Send every record of this batch to the place where it belongs."""
        # They all come again.
        self._large = self._large or any_kept_back(batch)
        if self._large:
            return
        raw = raw_records(batch, self._pins.rules.topics)
        if self._pins.turn.count_input:
            count_spans(raw, self._task.report.counts.spans)
            self._keep(raw)
        keys = None if self._keys is None else self._keys.look(raw["key"])
        raw = raw if keys is None else keys.beside(raw)
        rows = self._without_erased(raw, self._not_yet_placed(raw, self._without_rejected(raw)))
        rows = self._of_some_time(raw, rows)
        frames = self._task.codec.split(raw["value"], raw["header_id"])
        self._refuse_headless(raw, frames, rows)
        self._take_tombstones(raw, keys, rows[frames.kind[rows] == TOMBSTONE])
        rows = rows[frames.kind[rows] >= 0]
        rows = rows if keys is None else self._without_unknown_keys(raw, keys, rows)
        rows = rows if self._entities is None else self._entities.take(raw, frames, rows)
        numbers = self._numbers_of(frames.kinds)[frames.kind[rows]]
        self._refuse(raw, frames, rows[numbers == _REFUSED])
        self._ask(raw, frames, rows[numbers == _UNKNOWN])
        for number in np.unique(numbers[numbers >= 0]):
            by_spark = SparkRows.of(batch, int(number))
            for mine in portions(frames, rows[numbers == number]):
                decode(
                    Batch(self._task, raw, int(number), by_spark), mine, bodies(raw["value"], frames, mine)
                )

    def _keep(self, raw: pa.RecordBatch) -> None:
        """Keep each record as it came, whatever becomes of it, where that is wanted. Those that wait come again, and were kept then."""
        kept, already = self._pins.rules.tables.kept, self._pins.tables.already
        if not kept:
            return
        every = np.arange(raw.num_rows, dtype=np.int64)
        for folder in sorted(kept.folders):
            topics = [topic for topic, its in kept.by_topic.items() if its == folder]
            mine = every if len(topics) == len(kept.by_topic) else every[_of_topics(raw, topics)]
            there = (
                committed(raw, mine, already[folder]) if folder in already else np.zeros(len(mine), np.bool_)
            )
            self._task.report.files.kept[ALREADY] += int(there.sum())
            if len(new := mine[~there]):
                self._task.keep(folder, picked(raw, new))

    def shipped(self) -> Iterator[pa.RecordBatch]:
        """What is ready to go to who writes it, once."""
        yield from shipments(self._task.shipped())

    def finish(self) -> TaskReport:
        """Write what is still in memory and give the account."""
        report = self._task.finish()
        report.large = self._large
        return report

    def abandon(self) -> None:
        """Give up: nothing of this task is wanted any more."""
        self._task.abandon()

    def _without_unknown_keys(self, raw: pa.RecordBatch, keys: LookedAt, rows: Rows) -> Rows:
        """Records whose key names a schema that is not known wait for the driver to ask for it."""
        asking = keys.asks[rows] >= 0
        if not asking.any():
            return rows
        kinds, counts = np.unique(keys.asks[rows[asking]], return_counts=True)
        tally(self._task.report.questions.keys, [keys.kinds[kind] for kind in kinds], counts.tolist())
        self._task.set_aside(raw, rows[asking])
        return rows[~asking]

    def _without_rejected(self, raw: pa.RecordBatch) -> Rows:
        rows = np.arange(raw.num_rows, dtype=np.int64)
        if not self._pins.turn.rejected:
            return rows
        places = zip(*(raw[name].to_pylist() for name in ("topic", "partition", "offset")), strict=True)
        found = [self._pins.turn.rejected.get(place) for place in places]
        hit = np.array([verdict is not None for verdict in found], dtype=np.bool_)
        self._task.quarantine.take(raw, rows[hit], [verdict for verdict in found if verdict is not None])
        return rows[np.logical_not(hit)]

    def _not_yet_placed(self, raw: pa.RecordBatch, rows: Rows) -> Rows:
        """The rows without those that an earlier checkpoint has placed, by whatever reading of them."""
        if not self._pins.placed:
            return rows
        there = placed(raw, rows, self._pins.placed)
        self._task.report.counts.already += int(there.sum())
        return rows[~there]

    def _without_erased(self, raw: pa.RecordBatch, rows: Rows) -> Rows:
        """The rows without those whose keys say that they land nowhere, before anything else could be made of them."""
        keys = self._pins.rules.tables.erased.keys
        if not keys:
            return rows
        mine = pc.is_in(raw["key"], pa.array(keys, raw["key"].type))
        if TEXT in raw.schema.names:
            mine = pc.or_(mine, pc.is_in(raw[TEXT].cast(pa.binary()), pa.array(keys, pa.binary())))
        gone: npt.NDArray[np.bool_] = mine.fill_null(False).to_numpy(zero_copy_only=False)[rows]
        if gone.any():
            self._task.report.counts.dropped[reasons.ERASED] += int(gone.sum())
        left: Rows = rows[~gone]
        return left

    def _of_some_time(self, raw: pa.RecordBatch, rows: Rows) -> Rows:
        """The rows without those whose time no table holds, or that have none since they tell of a file; a tombstone has no value to be kept for."""
        times = raw["ts"]
        if not times.null_count:
            return rows
        lost = ~is_valid(times)[rows] & is_valid(raw["value"])[rows]
        told = told_of_files(raw["value"].take(pa.array(rows[lost])))
        self._task.quarantine.take(
            raw, rows[lost], [reasons.TIMESTAMP_OVERFLOW if one is None else Verdict(*one) for one in told]
        )
        return rows[~lost]

    def _refuse_headless(self, raw: pa.RecordBatch, frames: Frames, rows: Rows) -> None:
        alive = set(rows[frames.kind[rows] == NO_USABLE_HEADER].tolist())
        errors = [error for error in frames.errors if error[0] in alive]
        places = np.array([row for row, _, _ in errors], dtype=np.int64)
        self._task.quarantine.take(raw, places, [Verdict(reason, detail) for _, reason, detail in errors])

    def _take_tombstones(self, raw: pa.RecordBatch, keys: LookedAt | None, rows: Rows) -> None:
        """Records without a value, which are deletes where a table says so."""
        if not len(rows):
            return
        if not self._pins.rules.tables.tombstones:
            self._task.report.counts.dropped[reasons.TOMBSTONE] += len(rows)
            return
        place_tombstones(
            self._task, raw, rows if keys is None else self._without_unknown_keys(raw, keys, rows)
        )

    def _numbers_of(self, kinds: Sequence[RecordKey]) -> Rows:
        """Per kind of the batch: the number of the pinned record, or why there is none."""
        missing = _REFUSED if self._pins.turn.schemas_final else _UNKNOWN
        refused, numbers = self._pins.schemas.refused, self._numbers
        return np.array(
            [numbers.get(kind, _REFUSED if kind in refused else missing) for kind in kinds], np.int64
        )

    def _refuse(self, raw: pa.RecordBatch, frames: Frames, rows: Rows) -> None:
        keys = [frames.kinds[kind] for kind in frames.kind[rows]]
        verdicts = [self._pins.schemas.refused.get(key) or reasons.unasked_schema(key[0]) for key in keys]
        self._task.quarantine.take(raw, rows, verdicts, [ref for ref, _ in keys])

    def _ask(self, raw: pa.RecordBatch, frames: Frames, rows: Rows) -> None:
        kinds, counts = np.unique(frames.kind[rows], return_counts=True)
        tally(
            self._task.report.questions.records,
            [frames.kinds[kind] for kind in kinds],
            counts.tolist(),
        )
        self._task.set_aside(raw, rows)


def _of_topics(raw: pa.RecordBatch, topics: Sequence[str]) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = pc.is_in(raw["topic"], pa.array(topics)).to_numpy(zero_copy_only=False)
    return found
