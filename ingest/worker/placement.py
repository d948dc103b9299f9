"""The records of one type in one batch, on their way to the tables: decoded, routed, brought into the table's shape."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import pyarrow as pa

from distributary.codecs.base import Decoded, growing_reader
from distributary.codecs.types.fields import fields_in
from distributary.codecs.types.masks import Codes, Rows
from distributary.codecs.wire.header import Frames, bodies
from distributary.errors import ConfigError, PolicyStopped
from distributary.ingest import pins as reasons
from distributary.ingest.columns.layout import Layout
from distributary.ingest.conform.rescued import joined
from distributary.ingest.kafka.columns import kafka_fields
from distributary.ingest.kafka.places import committed
from distributary.ingest.kafka.records import TEXT
from distributary.ingest.pins import PinnedRecord, Verdict
from distributary.ingest.routing.routes import Records, entities
from distributary.ingest.worker.entities import DENIED, NONE, WAITING
from distributary.ingest.worker.guard import deadly
from distributary.ingest.worker.report import Growth, Wish
from distributary.ingest.worker.sightings import note, note_outgrown
from distributary.ingest.worker.spark_rows import SparkRows
from distributary.ingest.worker.task import Task, tally


class Placement:
    """Gives every record of one pinned type its place."""

    def __init__(
        self, task: Task, raw: pa.RecordBatch, number: int, by_spark: SparkRows | None = None
    ) -> None:
        """`raw` is the whole batch, `number` that of the pinned record type; `by_spark` is what Spark has decoded of it."""
        self._task, self._raw, self._number, self._by_spark = task, raw, number, by_spark
        self._pins, self._book, self._report = task.pins, task.book, task.report
        self._pinned, self._reader = task.pins.schemas.records[number], task.reader(number)

    def run(self, frames: Frames, rows: Rows) -> None:
        """Decode and route these rows of the batch, which ascend."""
        self.decode(rows, bodies(self._raw["value"], frames, rows))

    def decode(self, rows: Rows, payloads: pa.BinaryArray) -> None:
        """Decode and route these rows of the batch, of which these are the bodies."""
        if self._pins.turn.guarded:
            alive = self._not_deadly(rows, payloads)
            rows, payloads = rows[alive], payloads.take(pa.array(alive))
        by_spark = self._by_spark
        decoded = by_spark.decode(self._reader, payloads, rows) if by_spark else self._reader.decode(payloads)
        self.settle(rows, payloads, decoded)

    def settle(self, rows: Rows, payloads: pa.BinaryArray, decoded: Decoded) -> None:
        """Route what was decoded of these rows' bodies."""
        failed = np.array([failure.row for failure in decoded.failures], dtype=np.int64)
        verdicts = [Verdict(failure.reason, failure.detail) for failure in decoded.failures]
        self._refuse(rows[failed], verdicts)
        lacking = (self._pinned.schema.id, self._reader.name)
        note(self._report.sightings.unknown, lacking, decoded.unknown, self._raw, rows)
        decoded = self._without_growth(rows, payloads, decoded)
        self._count(rows[decoded.source])
        self._route(rows[decoded.source], decoded)

    def _refuse(
        self, rows: Rows, verdicts: Sequence[Verdict], entities: Sequence[str | None] | None = None
    ) -> None:
        refs = [self._pinned_of(row).key[0] for row in rows.tolist()]
        self._task.quarantine.take(self._raw, rows, verdicts, refs, entities)

    def _pinned_of(self, row: int) -> PinnedRecord:
        """The record type that a row of the batch is of."""
        return self._pinned

    def _count(self, rows: Rows) -> None:
        self._report.counts.decoded[self._pinned.schema.id] += len(rows)

    def _named(self, rows: Rows, decoded: Decoded) -> pa.DictionaryArray:
        """The rows' entities. Raises ConfigError."""
        records = Records(decoded.rows, self._raw, rows, self._reader.name)
        return entities(self._pins.rules.route, records, self._pins.rules.expression)

    def _meet(self, present: Collection[int], rows: Rows, codes: Codes) -> None:
        self._task.meet(self._number, present, rows, codes, self._raw)

    def _not_deadly(self, rows: Rows, payloads: pa.BinaryArray) -> Rows:
        """The places of those payloads that their decoder survives."""

        def decode(some: Rows) -> Decoded:
            return self._reader.decode(payloads.take(pa.array(some)))

        places = np.arange(len(rows), dtype=np.int64)
        # Where Spark decodes, the records have been tried before it got them.
        tried = self._by_spark
        dead = (
            np.flatnonzero(tried.deadly[rows]) if tried else np.array(deadly(places, decode), dtype=np.int64)
        )
        self._refuse(rows[dead], [reasons.KILLED_WORKER] * len(dead))
        return np.setdiff1d(places, dead, assume_unique=True)

    def _without_growth(self, rows: Rows, payloads: pa.BinaryArray, decoded: Decoded) -> Decoded:
        """Rows with fields that an inferred schema lacks wait for the driver to let it grow, if it may."""
        beyond = decoded.beyond
        if not len(beyond) or not self._pins.tables.grow:
            return decoded
        if not self._proposes(self._pinned, payloads.take(pa.array(beyond)), rows[beyond]):
            return decoded
        self._task.set_aside(self._raw, rows[beyond])
        return decoded.without(beyond)

    def _proposes(self, pinned: PinnedRecord, payloads: pa.BinaryArray, rows: Rows) -> bool:
        """Whether a record type's schema may take anything that these payloads, which are these rows', have beyond it."""
        reader, most = growing_reader(self._reader), self._pins.rules.decoding.max_fields
        # One that is full need not be asked what it would take: that reads each record once more.
        if not self._pins.turn.inferred_final and fields_in(reader.schema) < most:
            proposed = reader.grown(payloads, most)
            if proposed.text != pinned.schema.text:
                self._report.questions.proposals.setdefault(pinned.key, set()).add(proposed.text)
                return True
        note_outgrown(self._report.sightings.outgrown, pinned.schema.entity, self._raw, rows.tolist())
        return False

    def _route(self, rows: Rows, decoded: Decoded) -> None:
        """`rows` are the batch's rows that `decoded.rows` came from, in the same order."""
        try:
            named = self._named(rows, decoded)
        except ConfigError as error:  # for the driver to raise: it gives up the whole attempt
            self._report.stops.append(f"records of {self._reader.name}: {error}")
            return
        codes = self._without_entity(rows, self._book.codes(named))
        denied = np.flatnonzero(codes == DENIED)
        names = named.take(pa.array(denied)).to_pylist()
        self._refuse(rows[denied], [reasons.TABLE_LIMIT] * len(denied), names)
        self._wait_for_table(rows, named, codes)
        codes = self._without_committed(rows, codes)
        live = np.flatnonzero(codes >= 0)
        if len(live):
            brought = self._brought(decoded.rows, codes)
            self._meet(brought.keys(), rows, codes)
            self._grow(rows, codes, brought)
            self._place(rows, decoded, codes, live)

    def _without_entity(self, rows: Rows, codes: Codes) -> Codes:
        none = codes == NONE
        if not none.any():
            return codes
        policy = self._pins.rules.policies.no_entity
        if policy == "drop":
            self._report.counts.dropped[reasons.NO_ENTITY.reason] += int(none.sum())
        elif isinstance(policy, str):
            self._refuse(rows[none], [reasons.NO_ENTITY] * int(none.sum()))
        else:
            codes = np.where(none, np.int32(self._book.named_table(policy.table)), codes)
        return codes

    def _wait_for_table(self, rows: Rows, named: pa.DictionaryArray, codes: Codes) -> None:
        waiting = np.flatnonzero(codes == WAITING)
        if len(waiting):
            counts = named.take(pa.array(waiting)).dictionary_decode().value_counts()
            names, found = counts.field("values").to_pylist(), counts.field("counts").to_pylist()
            tally(self._report.questions.newcomers, names, found)
            self._task.set_aside(self._raw, rows[waiting])

    def _without_committed(self, rows: Rows, codes: Codes) -> Codes:
        """An earlier checkpoint's rows are left out of the tables that have them."""
        if not self._pins.tables.already:
            return codes
        codes = codes.copy()
        for code in _present(codes[codes >= 0]):
            mine = np.flatnonzero(codes == code)
            ends = self._pins.tables.already.get(self._book.folders[code], {})
            done = mine[committed(self._raw, rows[mine], ends)]
            self._report.counts.already += len(done)
            codes[done] = NONE
        return codes

    def _brought(self, decoded: pa.RecordBatch, codes: Codes) -> Mapping[int, tuple[int, ...] | None]:
        """Per entity the columns its records bring: all (None) that their schema has, if they name one that they were
        written with; of an inferred one, which is everybody's, those that have a value.
        """
        present = _present(codes[codes >= 0]).tolist()
        if not self._pinned.schema.inferred:
            return dict.fromkeys(present)
        if len(present) == 1 and codes.min() >= 0:
            held = [place for place, column in enumerate(decoded.columns) if column.null_count < len(column)]
            return {present[0]: tuple(held)}
        found: dict[int, list[int]] = {code: [] for code in present}
        for place, column in enumerate(decoded.columns):
            there = codes[column.is_valid().to_numpy(zero_copy_only=False)]
            for code in _present(there[there >= 0]).tolist():
                found[code].append(place)
        return {code: tuple(places) for code, places in found.items()}

    def _grow(self, rows: Rows, codes: Codes, brought: Mapping[int, tuple[int, ...] | None]) -> None:
        for code, places in brought.items():
            bringing = (code, self._number, self._reader.schema, places)
            grew, wish = self._book.grow(*bringing), self._book.wish(*bringing)
            if wish is not None:
                folder, entity = self._book.folders[code], self._book.names[code]
                self._report.files.wishes.append(Wish(folder, entity, self._pinned.key, wish))
            if grew or wish is not None:
                row = int(rows[np.argmax(codes == code)])
                topic, partition, offset = (
                    self._raw[name][row].as_py() for name in ("topic", "partition", "offset")
                )
                folder, key = self._book.folders[code], self._pinned.key
                first = (topic, partition, offset)
                self._report.files.growths.append(Growth(folder, key, self._pinned.schema.id, first))

    def _place(self, rows: Rows, decoded: Decoded, codes: Codes, live: Rows) -> None:
        """Entities with the same columns go on together; in most batches that is all of them."""
        layouts = {int(code): self._book.layouts[code] for code in _present(codes[live])}
        for layout in dict.fromkeys(layouts.values()):
            of_layout = [code for code, its in layouts.items() if its == layout]
            mine = live if len(of_layout) == len(layouts) else live[np.isin(codes[live], of_layout)]
            self._conform(rows[mine], *_some(decoded, mine), codes[mine], layout)

    def _conform(
        self,
        rows: Rows,
        decoded: pa.RecordBatch,
        untaken: pa.StringArray | None,
        codes: Codes,
        layout: Layout,
    ) -> None:
        """`untaken` is what the decoder found no column for."""
        try:
            conversion = self._book.conversion(self._number, self._reader.schema, layout)
        except PolicyStopped as stop:  # for the driver to raise: it gives up the whole attempt
            self._report.stops.append(f"table {self._book.folders[int(codes[0])]}: {stop}")
            return
        conformed = conversion.apply(decoded)
        own = [field.name for field in kafka_fields(self._pins.rules.columns)]
        arrays = [*self._kafka_arrays(rows), *conformed.rows.columns]
        written = pa.RecordBatch.from_arrays(arrays, names=[*own, *conformed.rows.schema.names])
        rescued = joined(untaken, conformed.rescued)
        kept = self._without_misfits(rows, conformed.rejected, codes)
        if len(kept) < len(rows):
            places = pa.array(kept)
            written, codes = written.take(places), codes[kept]
            rescued = None if rescued is None else rescued.take(places)
        self._hand_on(written, rescued, codes)

    def _hand_on(self, rows: pa.RecordBatch, rescued: pa.StringArray | None, codes: Codes) -> None:
        """Only tables for which something is rescued get the column for it."""
        counts = np.bincount(codes)
        for code in np.flatnonzero(counts):
            self._report.counts.rows[self._book.folders[code]] += int(counts[code])
        if rescued is None:
            self._task.chunk.add(rows, codes)
            return
        concerned = _present(codes[rescued.is_valid().to_numpy(zero_copy_only=False)])
        self._book.rescue(concerned.tolist())
        theirs = np.isin(codes, concerned)
        wider = rows.append_column(pa.field(self._pins.rules.columns.rescued, pa.string()), rescued)
        self._task.chunk.add(wider.filter(pa.array(theirs)), codes[theirs])
        self._task.chunk.add(rows.filter(pa.array(~theirs)), codes[~theirs])

    def _without_misfits(self, rows: Rows, rejected: Sequence[tuple[int, str, str]], codes: Codes) -> Rows:
        if not rejected:
            return np.arange(len(rows), dtype=np.int64)
        places = np.array([row for row, _, _ in rejected], dtype=np.int64)
        names = [self._book.names[code] or None for code in codes[places]]
        self._refuse(rows[places], [Verdict(reason, detail) for _, reason, detail in rejected], names)
        return np.setdiff1d(np.arange(len(rows), dtype=np.int64), places)

    def _kafka_arrays(self, rows: Rows) -> list[pa.Array]:
        texts = [TEXT] if self._pins.rules.columns.key_text else []
        own = self._raw.select(["topic", "partition", "offset", "ts", "key", *texts])
        if len(rows) < own.num_rows:
            own = _picked(own, rows)
        schema_id = pa.repeat(pa.scalar(self._pinned.schema.id, pa.int64()), len(rows))
        return [*own.columns[:5], schema_id, *own.columns[5:]]


def _picked(batch: pa.RecordBatch, rows: Rows) -> pa.RecordBatch:
    """These rows, which ascend; none is copied where they follow each other."""
    in_a_row = len(rows) and rows[-1] - rows[0] + 1 == len(rows)
    return batch.slice(int(rows[0]), len(rows)) if in_a_row else batch.take(pa.array(rows))


def _some(decoded: Decoded, rows: Rows) -> tuple[pa.RecordBatch, pa.StringArray | None]:
    """These rows, and what no column took of them."""
    if len(rows) == decoded.rows.num_rows:
        return decoded.rows, decoded.rescued
    places = pa.array(rows)
    return decoded.rows.take(places), None if decoded.rescued is None else decoded.rescued.take(places)


def _present(codes: Codes) -> Rows:
    """The distinct codes, ascending; they are small numbers, so that counting them beats sorting or hashing."""
    return np.flatnonzero(np.bincount(codes))
