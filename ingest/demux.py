"""One pass over one batch, in a worker: header, decode, route, check, write; every record ends in exactly one place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from distributary.codecs.base import Decoded, RecordReader, load_codec
from distributary.codecs.wire_header import Frames, bodies
from distributary.errors import PolicyStopped
from distributary.ingest import reasons
from distributary.ingest.already import committed
from distributary.ingest.aside import AsideFile
from distributary.ingest.chunk import Chunk
from distributary.ingest.entity_book import DENIED, NONE, WAITING, EntityBook
from distributary.ingest.frames import raw_records
from distributary.ingest.guard import deadly
from distributary.ingest.kafka_columns import kafka_fields, table_schema
from distributary.ingest.ledger import QUARANTINE_SCHEMA, QUARANTINE_TABLE
from distributary.ingest.pins import PinnedRecord, Pins, RecordKey, Verdict
from distributary.ingest.quarantine import Quarantine
from distributary.ingest.report import Growth, TaskReport, WrittenFile, to_batch
from distributary.ingest.routing import entities
from distributary.ingest.spans import count_spans
from distributary.ingest.table_buffers import TableBuffers

Rows = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]

# Instead of a pinned record's number.
_REFUSED, _UNKNOWN = -1, -2

# Kept beyond the number that will be asked, so that the most frequent ones are among them; a hostile million is not.
_MOST_QUESTIONS_KEPT = 10_000


def demultiplex(pins: Pins) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function that Spark's `mapInArrow` runs in each task: records in, one report out."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task = Demultiplexer(pins)
        for batch in batches:
            task.take(batch)
        yield to_batch(task.finish())

    return run


class Demultiplexer:
    """Takes Arrow batches of Kafka records and writes their rows to the tables' folders."""

    def __init__(self, pins: Pins) -> None:
        self._pins = pins
        self._codec = load_codec(pins.codec)
        self._numbers = {pinned.key: number for number, pinned in enumerate(pins.records)}
        self._readers: dict[int, RecordReader] = {}
        self._book = EntityBook(pins)
        self._buffers = TableBuffers(
            pins.root, pins.generation, pins.batch_id, pins.worker_bytes, self._schema_of
        )
        self._chunk = Chunk(self._buffers, self._book.folders, pins.worker_bytes // 4)
        self._aside = AsideFile(pins.aside)
        self._report = TaskReport()
        self._quarantine = Quarantine(pins, self._buffers, self._report)
        self._kafka_names = [field.name for field in kafka_fields(pins.columns)]

    def take(self, batch: pa.RecordBatch) -> None:
        """Send every record of this batch to the place where it belongs."""
        raw = raw_records(batch, self._pins.topics)
        if self._pins.count_input:
            count_spans(raw, self._report.spans)
        rows = self._without_rejected(raw)
        frames = self._codec.split(raw["value"], raw["header_id"])
        self._refuse_headless(raw, frames, rows)
        self._drop_tombstones(raw, frames, rows)
        rows = rows[frames.kind[rows] >= 0]
        numbers = self._numbers_of(frames.kinds)[frames.kind[rows]]
        self._refuse(raw, frames, rows[numbers == _REFUSED])
        self._ask(raw, frames, rows[numbers == _UNKNOWN])
        for number in np.unique(numbers[numbers >= 0]):
            _Decoding(self, raw, int(number)).run(frames, rows[numbers == number])

    def finish(self) -> TaskReport:
        """Write what is still in memory and give the account."""
        self._chunk.flush()
        self._buffers.close()
        for file in self._buffers.files:
            mine = file.table == QUARANTINE_TABLE
            entity = None if mine else self._book.entity_of(file.table)
            layout = QUARANTINE_SCHEMA if mine else self._book.layout_of(file.table)
            self._report.files.append(WrittenFile(entity, file, layout))
        self._report.aside += self._aside.close()
        self._report.questions = Counter(dict(self._report.questions.most_common(self._pins.max_questions)))
        return self._report

    def _schema_of(self, folder: str) -> pa.Schema:
        if folder == QUARANTINE_TABLE:
            return QUARANTINE_SCHEMA
        return table_schema(self._pins.columns, self._book.layout_of(folder))

    def _without_rejected(self, raw: pa.RecordBatch) -> Rows:
        rows = np.arange(raw.num_rows, dtype=np.int64)
        if not self._pins.rejected:
            return rows
        places = zip(*(raw[name].to_pylist() for name in ("topic", "partition", "offset")), strict=True)
        found = [self._pins.rejected.get(place) for place in places]
        hit = np.array([verdict is not None for verdict in found])
        self._quarantine.take(raw, rows[hit], [verdict for verdict in found if verdict is not None])
        return rows[~hit]

    def _refuse_headless(self, raw: pa.RecordBatch, frames: Frames, rows: Rows) -> None:
        alive = set(rows[frames.kind[rows] == -1].tolist())
        errors = [error for error in frames.errors if error[0] in alive]
        places = np.array([row for row, _, _ in errors], dtype=np.int64)
        self._quarantine.take(raw, places, [Verdict(reason, detail) for _, reason, detail in errors])

    def _drop_tombstones(self, raw: pa.RecordBatch, frames: Frames, rows: Rows) -> None:
        count = int(np.count_nonzero(frames.kind[rows] == -2))
        if count:
            self._report.dropped[reasons.TOMBSTONE] += count

    def _numbers_of(self, kinds: Sequence[RecordKey]) -> Rows:
        """Per kind of the batch: the number of the pinned record, or why there is none."""
        missing = _REFUSED if self._pins.schemas_final else _UNKNOWN
        refused, numbers = self._pins.refused, self._numbers
        return np.array(
            [numbers.get(kind, _REFUSED if kind in refused else missing) for kind in kinds], np.int64
        )

    def _refuse(self, raw: pa.RecordBatch, frames: Frames, rows: Rows) -> None:
        keys = [frames.kinds[kind] for kind in frames.kind[rows]]
        verdicts = [self._pins.refused.get(key) or reasons.unasked_schema(key[0]) for key in keys]
        self._quarantine.take(
            raw, rows, verdicts, [key[0] if isinstance(key[0], int) else None for key in keys]
        )

    def _ask(self, raw: pa.RecordBatch, frames: Frames, rows: Rows) -> None:
        kinds, counts = np.unique(frames.kind[rows], return_counts=True)
        _tally(self._report.questions, [frames.kinds[kind] for kind in kinds], counts.tolist())
        self._set_aside(raw, rows)

    def _set_aside(self, raw: pa.RecordBatch, rows: Rows) -> None:
        if len(rows):
            self._aside.add(raw.take(pa.array(rows)))
            self._report.aside_rows += len(rows)


class _Decoding:
    """The records of one type in one batch, on their way to the tables."""

    def __init__(self, task: Demultiplexer, raw: pa.RecordBatch, number: int) -> None:
        self._task, self._raw, self._number = task, raw, number
        self._pins, self._book, self._report = task._pins, task._book, task._report
        self._pinned: PinnedRecord = task._pins.records[number]
        if number not in task._readers:
            task._readers[number] = task._codec.reader(self._pinned.schema, self._pinned.key[1])
        self._reader = task._readers[number]

    def run(self, frames: Frames, rows: Rows) -> None:
        """Decode and route these rows of the batch."""
        if self._pins.guarded:
            rows = self._without_deadly(frames, rows)
        decoded = self._reader.decode(bodies(self._raw["value"], frames, rows))
        failed = np.array([failure.row for failure in decoded.failures], dtype=np.int64)
        verdicts = [Verdict(failure.reason, failure.detail) for failure in decoded.failures]
        self._refuse(rows[failed], verdicts)
        self._report.decoded[self._pinned.schema.id] += len(decoded.source)
        self._route(rows[decoded.source], decoded)

    def _refuse(self, rows: Rows, verdicts: Sequence[Verdict]) -> None:
        self._task._quarantine.take(self._raw, rows, verdicts, self._pinned.schema.id)

    def _without_deadly(self, frames: Frames, rows: Rows) -> Rows:
        def decode(some: Rows) -> Decoded:
            return self._reader.decode(bodies(self._raw["value"], frames, some))

        dead = np.array(deadly(rows, decode), dtype=np.int64)
        self._refuse(dead, [reasons.KILLED_WORKER] * len(dead))
        return np.setdiff1d(rows, dead, assume_unique=True)

    def _route(self, rows: Rows, decoded: Decoded) -> None:
        """`rows` are the batch's rows that `decoded.rows` came from, in the same order."""
        named = entities(decoded.rows, self._pins.route.field)
        codes = self._without_entity(rows, self._book.codes(named))
        denied = rows[codes == DENIED]
        self._refuse(denied, [reasons.TABLE_LIMIT] * len(denied))
        self._wait_for_table(rows, named, codes)
        codes = self._without_committed(rows, codes)
        live = np.flatnonzero(codes >= 0)
        if len(live):
            self._grow(rows, codes)
            self._place(rows, decoded.rows, codes, live)

    def _without_entity(self, rows: Rows, codes: Codes) -> Codes:
        none = codes == NONE
        if not none.any():
            return codes
        policy = self._pins.policies.no_entity
        if policy == "drop":
            self._report.dropped[reasons.NO_ENTITY.reason] += int(none.sum())
        elif isinstance(policy, str):
            self._refuse(rows[none], [reasons.NO_ENTITY] * int(none.sum()))
        else:
            codes = np.where(none, np.int32(self._book.named_table(policy.table)), codes)
        return codes

    def _wait_for_table(self, rows: Rows, named: pa.DictionaryArray, codes: Codes) -> None:
        waiting = np.flatnonzero(codes == WAITING)
        if len(waiting):
            counts = named.take(pa.array(waiting)).dictionary_decode().value_counts()
            _tally(
                self._report.newcomers, counts.field("values").to_pylist(), counts.field("counts").to_pylist()
            )
            self._task._set_aside(self._raw, rows[waiting])

    def _without_committed(self, rows: Rows, codes: Codes) -> Codes:
        """An earlier checkpoint's rows are left out of the tables that have them."""
        if not self._pins.already:
            return codes
        codes = codes.copy()
        for code in np.unique(codes[codes >= 0]):
            mine = np.flatnonzero(codes == code)
            ends = self._pins.already.get(self._book.folders[code], {})
            done = mine[committed(self._raw, rows[mine], ends)]
            self._report.already += len(done)
            codes[done] = NONE
        return codes

    def _grow(self, rows: Rows, codes: Codes) -> None:
        for code in np.unique(codes[codes >= 0]):
            if self._book.grow(int(code), self._number, self._reader.schema):
                row = int(rows[np.argmax(codes == code)])
                topic, partition, offset = (
                    self._raw[name][row].as_py() for name in ("topic", "partition", "offset")
                )
                folder, key = self._book.folders[code], self._pinned.key
                first = (topic, partition, offset)
                self._report.growths.append(Growth(folder, key, self._pinned.schema.id, first))

    def _place(self, rows: Rows, decoded: pa.RecordBatch, codes: Codes, live: Rows) -> None:
        """Entities with the same columns go on together; in most batches that is all of them."""
        layouts = {int(code): self._book.layouts[code] for code in np.unique(codes[live])}
        for layout in {id(layout): layout for layout in layouts.values()}.values():
            of_layout = [code for code, its in layouts.items() if its is layout]
            mine = live if len(of_layout) == len(layouts) else live[np.isin(codes[live], of_layout)]
            some = decoded if len(mine) == decoded.num_rows else decoded.take(pa.array(mine))
            self._conform(rows[mine], some, codes[mine], layout)

    def _conform(self, rows: Rows, decoded: pa.RecordBatch, codes: Codes, layout: pa.Schema) -> None:
        try:
            plan = self._book.plan(self._number, self._reader.schema, layout)
        except PolicyStopped as stop:  # for the driver to raise: it gives up the whole attempt
            self._report.stops.append(f"table {self._book.folders[int(codes[0])]}: {stop}")
            return
        conformed = plan.apply(decoded)
        columns, names = list(conformed.rows.columns), list(conformed.rows.schema.names)
        if conformed.rescued is not None:
            columns.append(conformed.rescued)
            names.append(self._pins.columns.rescued)
            rescued = conformed.rescued.is_valid().to_numpy(zero_copy_only=False)
            self._book.rescue(np.unique(codes[rescued]).tolist())
        arrays = [*self._kafka_arrays(rows), *columns]
        written = pa.RecordBatch.from_arrays(arrays, names=[*self._task._kafka_names, *names])
        kept = self._without_misfits(rows, conformed.rejected)
        if len(kept) < len(rows):
            written, codes = written.take(pa.array(kept)), codes[kept]
        for code, count in zip(*np.unique(codes, return_counts=True), strict=True):
            self._report.rows[self._book.folders[code]] += int(count)
        self._task._chunk.add(written, codes)

    def _without_misfits(self, rows: Rows, rejected: Sequence[tuple[int, str, str]]) -> Rows:
        places = np.array([row for row, _, _ in rejected], dtype=np.int64)
        self._refuse(rows[places], [Verdict(reason, detail) for _, reason, detail in rejected])
        return np.setdiff1d(np.arange(len(rows), dtype=np.int64), places)

    def _kafka_arrays(self, rows: Rows) -> list[pa.Array]:
        own = self._raw.select(["topic", "partition", "offset", "ts", "key"])
        if len(rows) < own.num_rows:
            own = own.take(pa.array(rows))
        return [*own.columns, pa.repeat(pa.scalar(self._pinned.schema.id, pa.int64()), len(rows))]


def _tally(counts: Counter[object], names: Sequence[object], found: Sequence[int]) -> None:
    for name, count in zip(names, found, strict=True):
        if name in counts or len(counts) < _MOST_QUESTIONS_KEPT:
            counts[name] += count
