"""What one worker's task works with: its codec, the tables that it fills, the file of rows that wait, and its account at the end."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from itertools import accumulate
from typing import TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from distributary.codecs.base import Codec, RecordReader, load_codec, validating
from distributary.codecs.types.masks import Rows
from distributary.ingest.bronze import rows as bronze
from distributary.ingest.columns.layout import Layout
from distributary.ingest.kafka.offset_spans import place_of
from distributary.ingest.merge.rule import memory_folder
from distributary.ingest.parquet.buffers import Chunk, TableBuffers
from distributary.ingest.parquet.uploads import give_up
from distributary.ingest.partitioned import partitions_of
from distributary.ingest.pins import Pins
from distributary.ingest.storage.clients import sent
from distributary.ingest.storage.opening import At, files_at
from distributary.ingest.storage.stream import Upload
from distributary.ingest.worker.entities import EntityBook
from distributary.ingest.worker.gathering import (
    Buffers,
    Row,
    Shipping,
    indexed,
    most_rows,
    nobodys,
    row_of,
    sync_elsewhere,
)
from distributary.ingest.worker.keyed import remembered, table_of, whole_layout
from distributary.ingest.worker.quarantine import Quarantine
from distributary.ingest.worker.report import TaskReport, WrittenFile

# Kept beyond the number that will be asked, so that the most frequent ones are among them; a hostile million is not.
_MOST_QUESTIONS_KEPT = 10_000

# Of the names among them, which data may make as long as they like, and of schemas that records ask for: the driver holds those of all
# tasks at once, and Spark gives up where they come to more than a gibibyte. What is not told of is asked for in the next pass.
_MOST_LETTERS = 2**22

T = TypeVar("T")


class Task:
    """The places where records can go, and the report that counts them."""

    def __init__(self, pins: Pins, *, ships: bool = False) -> None:
        """`ships`: rows go to tasks that bring each table's together, and not into files of this one's."""
        self.pins = pins
        self.codec = codec_of(pins)
        self.report = TaskReport()
        self._sent_before = sent()
        self.book = EntityBook(pins)
        self._own = own = TableBuffers(
            pins.batch.root,
            pins.batch.generation,
            pins.batch.made_for,
            pins.rules.worker_bytes,
            self._columns_of,
            lambda folder: most_rows(pins, self._of(folder)[0]),
            lambda folder: partitions_of(pins, folder, *self._of(folder)),
            lambda folder: indexed(pins, folder, self._of(folder)[0]),
        )
        self._shipping = Shipping(own, pins.rules.worker_bytes) if ships else None
        self._buffers: Buffers = self._shipping or own
        self.chunk = Chunk(self._buffers, self.book.folders, pins.rules.worker_bytes // 4)
        self.quarantine = Quarantine(pins, self._buffers, self.report)
        self._aside = AsideFiles(pins.batch.aside)
        self._readers: dict[int, RecordReader] = {}
        self._met: dict[int, set[int]] = {}
        self._proposed = 0
        # With Kafka's columns, by the payload's: a thousand tables share a few, and each of what remembers deletes has its own.
        self._whole: dict[tuple[str, Layout], Layout] = {}

    def reader(self, number: int) -> RecordReader:
        """What decodes the pinned record type of this number."""
        if number not in self._readers:
            pinned = self.pins.schemas.records[number]
            self._readers[number] = self.codec.reader(pinned.schema, pinned.key[1])
        return self._readers[number]

    def has_met(self, number: int, codes: Collection[int]) -> bool:
        """Whether it was noted of all these entities that their tables have met a record type."""
        return self._met.setdefault(number, set()).issuperset(codes)

    def meet(self, number: int, code: int, row: int, raw: pa.RecordBatch) -> None:
        """Note where this entity's table meets a record type for the first time, which is at this row."""
        known = self._met.setdefault(number, set())
        if code in known:
            return
        known.add(code)
        folder, key = self.book.folders[code], self.pins.schemas.records[number].key
        if key not in self.pins.tables.met.get(folder, ()):
            self.report.sightings.met.setdefault(key, {}).setdefault(folder, place_of(raw, row))

    def remember(self, code: int, rows: pa.RecordBatch, *, deletes: bool = True) -> None:
        """Hold deletes for what remembers those of an entity's table; or what is remembered of its rows, which are counted where they land."""
        folder = memory_folder(self.book.folders[code])
        kept = remembered(rows, self._columns_of(folder), deletes=deletes)
        self.report.counts.rows[self.book.folders[code]] += kept.num_rows if deletes else 0
        self._buffers.add(folder, kept)
        self._buffers.grew(kept.nbytes)

    def keep(self, folder: str, raw: pa.RecordBatch) -> None:
        """Hold these records as they came, for the table that keeps them: a task has so many that it writes them itself."""
        rows = bronze.as_rows(raw)
        self.report.files.kept[folder] += rows.num_rows
        self._own.add(folder, rows)
        self._own.grew(rows.nbytes)

    def set_aside(self, raw: pa.RecordBatch, rows: Rows) -> None:
        """Keep these rows of `raw` as they are, until the driver has answered what they wait for."""
        if len(rows):
            self._aside.add(raw.take(pa.array(rows)))
            self.report.questions.waiting += len(rows)

    @property
    def has_room(self) -> bool:
        """Whether more may be proposed."""
        return self._proposed < _MOST_LETTERS

    def propose(self, texts: set[str], text: str) -> None:
        """Tell the driver, among these texts, of a schema that would take what rows set aside bring, as long as there is room."""
        if text in texts:
            return
        if self.has_room:
            self._proposed += len(text)
            texts.add(text)
        else:
            self.report.questions.untold = True

    def finish(self) -> TaskReport:
        """Write what is still in memory and give the account."""
        self.chunk.flush()
        self._buffers.close()
        sync_elsewhere(self.pins, self._buffers.files)
        for file in self._buffers.files:
            entity, layout = self._of(file.table)
            remembers = table_of(self.pins, file.table) != file.table
            self.report.files.written.append(WrittenFile(entity, file, layout, remembers))
        self.report.questions.aside += self._aside.close()
        self.report.files.requests = sent() - self._sent_before
        most = self.pins.rules.decoding.max_questions
        self.report.questions.records = Counter(dict(self.report.questions.records.most_common(most)))
        self.report.questions.keys = Counter(dict(self.report.questions.keys.most_common(most)))
        return self.report

    def shipped(self) -> Iterator[Row]:
        """What is ready to go to who writes it, once."""
        ready = iter(()) if self._shipping is None else self._shipping.shipped()
        return (row_of(self.pins, folder, *self._of(folder), parts) for folder, parts in ready)

    def abandon(self) -> None:
        """Give up: nothing of this task is wanted any more."""
        self._buffers.abandon()
        self._aside.abandon()

    def _of(self, folder: str) -> tuple[str | None, Layout]:
        """The entity of a table's file, None for one that is nobody's, and the payload columns of its table."""
        if (columns := nobodys(self.pins, folder)) is not None:
            return None, columns
        table = table_of(self.pins, folder)
        return self.book.entity_of(table), self.book.layout_of(table)

    def _columns_of(self, folder: str) -> Layout:
        """All columns of this table's file as of now."""
        entity, layout = self._of(folder)
        if entity is None:
            return layout
        key = ("" if table_of(self.pins, folder) == folder else folder, layout)
        if key not in self._whole:
            self._whole[key] = whole_layout(self.pins, folder, entity, layout)
        return self._whole[key]


def codec_of(pins: Pins) -> Codec:
    """The codec of the pins, told the types of the schemas that are pinned."""
    types = {one.key[0]: one.schema.type for one in pins.schemas.records}
    codec = load_codec(pins.rules.decoding.codec).knowing(types)
    return validating(codec) if pins.rules.decoding.check == "schema" else codec


def tally(counts: Counter[T], names: Sequence[T], found: Sequence[int]) -> None:
    """Count names, and forget the rarest when there are too many, or too long ones: they come from data."""
    for name, count in zip(names, found, strict=True):
        counts[name] += count
    if len(counts) > 2 * _MOST_QUESTIONS_KEPT or sum(map(_letters, counts)) > 2 * _MOST_LETTERS:
        kept = counts.most_common(_MOST_QUESTIONS_KEPT)
        ends = accumulate(_letters(name) for name, _ in kept)
        counts.clear()
        counts.update(dict(one for one, end in zip(kept, ends, strict=True) if end <= _MOST_LETTERS))


def _letters(name: object) -> int:
    return len(name) if isinstance(name, str) else 0


# Where a file of records set aside ends and the next begins, as they came: who takes them up again may have to hold all of one, and
# payloads that are alike take a hundredth of that on a disk.
_ASIDE_BYTES = 64 * 2**20


class AsideFiles:
    """Parquet files of raw records in the batch's own place, made only if there is something to set aside."""

    def __init__(self, place: At) -> None:
        self._place, self._names = files_at(place), list[str]()
        self._stream: Upload | None = None
        self._writer: pq.ParquetWriter | None = None
        self._held = 0

    def add(self, records: pa.RecordBatch) -> None:
        """Set these records aside."""
        if self._stream is None or self._writer is None:
            name = f"{uuid.uuid4().hex}.parquet"
            self._stream = self._place.writer(name, named_later=True)
            self._writer = pq.ParquetWriter(self._stream.sink, records.schema, compression="zstd")
            self._names.append(name)
        self._writer.write_batch(records)
        self._held += records.nbytes
        if self._held >= _ASIDE_BYTES:
            self._finish()

    def close(self) -> list[str]:
        """The names of the files, all there now; none where nothing was set aside."""
        self._finish()
        return self._names

    def abandon(self) -> None:
        """Give up: an open file is not to be."""
        if self._stream is not None:
            give_up(self._writer, self._stream)

    def _finish(self) -> None:
        if self._stream is not None and self._writer is not None:
            self._writer.close()
            self._stream.close()
            self._stream = self._writer = None
            self._held = 0
