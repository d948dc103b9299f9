"""The records of a batch that are decoded alike, and what is known of each before it is decoded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from distributary.codecs.base import Decoded, Enveloped, Failure, RecordReader
from distributary.codecs.reasons import TRUNCATE
from distributary.codecs.types.masks import Codes, Rows, present
from distributary.codecs.types.row_shape import with_beside
from distributary.errors import ConfigError
from distributary.ingest.expectations.checking import Found, check
from distributary.ingest.kafka.offset_spans import place_of
from distributary.ingest.kafka.records import TEXT
from distributary.ingest.pins import (
    DELETE_CONDITION,
    ERASED,
    EXPECTATION,
    EXPECTATION_DROP,
    PinnedRecord,
    Pins,
    Verdict,
)
from distributary.ingest.reshaping.key import as_landing
from distributary.ingest.reshaping.leftovers import let_land
from distributary.ingest.routing.as_said import AS_IT_WAS, met_as_it_was
from distributary.ingest.routing.conditions import ReadCondition
from distributary.ingest.routing.routes import Records, entities
from distributary.ingest.routing.untaken import Untaken
from distributary.ingest.worker.entities import Reshaping
from distributary.ingest.worker.spark_rows import SparkRows
from distributary.ingest.worker.task import Task

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Named:
    """The entities of a batch's rows: which of `names` each is; below zero for none."""

    codes: Rows
    names: Sequence[str]

    @classmethod
    def of(cls, named: pa.DictionaryArray) -> Named:
        """The same taken apart, once for all the groups that a batch falls into."""
        codes = named.indices.fill_null(-1).to_numpy().astype(np.int64)
        return cls(codes, named.dictionary.to_pylist())

    def some(self, rows: Rows) -> pa.DictionaryArray:
        """The entities of these rows, with no other name among them: there may be a thousand groups of a few."""
        codes = self.codes[rows]
        if len(codes) and codes[0] >= 0 and (codes == codes[0]).all():
            first = np.zeros(len(codes), np.int32)
            return pa.DictionaryArray.from_arrays(first, pa.array([self.names[codes[0]]], pa.string()))
        present, codes = np.unique(codes, return_inverse=True)
        if len(present) and present[0] < 0:
            present, codes = present[1:], codes - 1
        names = pa.array([self.names[code] for code in present.tolist()], pa.string())
        return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32(), mask=codes < 0), names)


@dataclass(frozen=True, slots=True)
class Own:
    """What each row has of its own where entities have schemas of their own, though these rows are decoded alike.

    numbers   its pinned record type
    entities  whose it is
    """

    numbers: Rows
    entities: Named


@dataclass(frozen=True, slots=True)
class Batch:
    """Records that are decoded by one pinned record type.

    raw       the whole batch, of which they are some
    number    the pinned record type
    by_spark  what Spark has decoded of them
    own       what each row has of its own; None where all are of that record type, and routed by what they hold
    reshaped  what their tables' rule makes of their columns; None where it leaves them as they are
    """

    task: Task
    raw: pa.RecordBatch
    number: int
    by_spark: SparkRows | None = None
    own: Own | None = None
    reshaped: Reshaping | None = None

    @property
    def columns(self) -> pa.Schema:
        """Their columns, as tables know them."""
        shape = None if self.reshaped is None else self.reshaped.shape
        return self.reader.schema if shape is None else shape.columns

    @property
    def kind(self) -> Hashable:
        """What tells them from others of the same entity that have other columns."""
        return self.number if self.reshaped is None else (self.number, self.reshaped.place)

    def of_kafka(self, rows: Rows) -> pa.RecordBatch:
        """What their tables have of these rows of the batch beside the payload."""
        texts = [TEXT] if TEXT in self.raw.schema.names else []
        own = picked(self.raw.select(["topic", "partition", "offset", "ts", "key", *texts]), rows)
        return own if self.reshaped is None else as_landing(self.reshaped.rule, own)

    @property
    def pins(self) -> Pins:
        """What the pass is decided by."""
        return self.task.pins

    @property
    def pinned(self) -> PinnedRecord:
        """The record type that they are decoded by."""
        return self.task.pins.schemas.records[self.number]

    @property
    def reader(self) -> RecordReader:
        """What decodes them."""
        return self.task.reader(self.number)

    def number_of(self, row: int) -> int:
        """The pinned record type that a row of the batch is of."""
        return self.number if self.own is None else int(self.own.numbers[row])

    def pinned_of(self, row: int) -> PinnedRecord:
        """The same, as it is pinned."""
        return self.pins.schemas.records[self.number_of(row)]

    def counted(self, rows: Rows) -> Mapping[int, int]:
        """How many of these rows are of each pinned record type."""
        return {self.number: len(rows)} if self.own is None else Counter(self.own.numbers[rows].tolist())

    def by_number(self, rows: Rows) -> Iterable[tuple[int, Rows]]:
        """Per pinned record type the places of its rows among these."""
        if self.own is None:
            return [(self.number, np.arange(len(rows), dtype=np.int64))]
        numbers = self.own.numbers[rows]
        return [(number, np.flatnonzero(numbers == number)) for number in np.unique(numbers).tolist()]

    def named(self, rows: Rows, decoded: Decoded) -> pa.DictionaryArray:
        """The rows' entities. Raises ConfigError."""
        if self.own is not None:
            return self.own.entities.some(rows)
        records = Records(with_beside(decoded.rows, decoded.beside), self.raw, rows, self.reader.name)
        return entities(self.pins.rules.route, records, self.pins.rules.expression)

    def schema_ids(self, rows: Rows) -> pa.Int64Array:
        """The id of the schema that each of these rows is of."""
        if self.own is None:
            return pa.repeat(pa.scalar(self.pinned.schema.id, pa.int64()), len(rows))
        numbers, places = np.unique(self.own.numbers[rows], return_inverse=True)
        ids = [self.pins.schemas.records[number].schema.id for number in numbers.tolist()]
        return pa.array(np.array(ids, np.int64)[places])

    def tabled(self, rows: Rows) -> npt.NDArray[np.bool_]:
        """Which of these have a table to land in, as far as that is known before they are routed.

        Decoded by everybody's inferred schema are also records of an entity that may have no table.
        """
        if self.own is None or self.pinned.schema.entity is not None:
            return np.ones(len(rows), np.bool_)
        if isinstance(self.pins.rules.policies.no_entity, str):
            return np.zeros(len(rows), np.bool_)
        found: npt.NDArray[np.bool_] = self.own.entities.codes[rows] < 0
        return found


def brought_columns(
    batch: Batch, decoded: pa.RecordBatch, codes: Codes
) -> Mapping[int, tuple[int, ...] | None]:
    """Per entity the columns its records bring: all (None) that their schema has, if they name one that they were
    written with; of an inferred one, which is everybody's, those that have a value, and those that no field is for.
    """
    if not batch.pinned.schema.inferred:
        return dict.fromkeys(present(codes[codes >= 0]).tolist())
    shape = None if batch.reshaped is None else batch.reshaped.shape
    added = () if shape is None else range(len(shape.fields), len(shape.columns))
    return {
        code: tuple(sorted({*places, *added})) if added else places
        for code, places in _with_values(decoded, codes).items()
    }


def _with_values(decoded: pa.RecordBatch, codes: Codes) -> Mapping[int, tuple[int, ...]]:
    """Per entity the columns in which its records have any value."""
    met = present(codes[codes >= 0]).tolist()
    if len(met) == 1 and codes.min() >= 0:
        held = [place for place, column in enumerate(decoded.columns) if column.null_count < len(column)]
        return {met[0]: tuple(held)}
    found: dict[int, list[int]] = {code: [] for code in met}
    for place, column in enumerate(decoded.columns):
        there = codes[column.is_valid().to_numpy(zero_copy_only=False)]
        for code in present(there[there >= 0]).tolist():
            found[code].append(place)
    return {code: tuple(places) for code, places in found.items()}


@dataclass(frozen=True, slots=True)
class Columns:
    """Records as columns, what no column took of them, and what is known of them beside.

    own  as they were decoded, where a rule has made other columns of that
    """

    rows: pa.RecordBatch
    untaken: pa.StringArray | None
    beside: pa.RecordBatch | None = None
    own: pa.RecordBatch | None = None

    def some(self, rows: Rows) -> Columns:
        """These rows of them."""
        if len(rows) == self.rows.num_rows:
            return self
        places = pa.array(rows)
        return Columns(
            self.rows.take(places),
            None if self.untaken is None else self.untaken.take(places),
            None if self.beside is None else self.beside.take(places),
            None if self.own is None else self.own.take(places),
        )


@dataclass(frozen=True, slots=True)
class Part:
    """Records of a batch whose tables know them by the same columns.

    rows     of the batch
    codes    their entities; below zero for rows that are placed already
    refused  (place among them, why) of those that cannot have these columns
    """

    batch: Batch
    rows: Rows
    decoded: Columns
    codes: Codes
    refused: Sequence[tuple[int, str]] = ()


def parts(batch: Batch, rows: Rows, decoded: Decoded, codes: Codes) -> Iterator[Part]:
    """The records with the columns that their tables' rules make of what was decoded, which nothing behind this sees."""
    columns = Columns(decoded.rows, decoded.rescued, decoded.beside)
    if not batch.pins.rules.tables.reshapes:
        yield Part(batch, rows, columns, codes)
        return
    book = batch.task.book
    found: dict[int | None, list[int]] = {}
    for code in present(codes[codes >= 0]).tolist():
        found.setdefault(book.reshaping(code), []).append(code)
    for place, alike in found.items():
        mine = np.flatnonzero(np.isin(codes, alike))
        part = Part(batch, rows[mine], columns.some(mine), codes[mine])
        yield part if place is None else _reshaped(part, place)


def _reshaped(part: Part, place: int) -> Part:
    batch, decoded = part.batch, part.decoded
    reshaping = batch.task.book.reshaped(place, batch.number, batch.reader.schema)
    by, shape = replace(batch, reshaped=reshaping), reshaping.shape
    if shape is None:
        everyone = [(row, reshaping.why) for row in range(len(part.rows))]
        return replace(part, batch=by, refused=everyone)
    kafka = picked(batch.raw.select(["topic", "headers", "ts_type"]), part.rows)
    made = shape.apply(decoded.rows, kafka, batch.pins.rules.tables.beside.headers)
    left = let_land(reshaping.rule, batch.reader.schema, decoded.untaken)
    return Part(
        by, part.rows, Columns(made.rows, left, decoded.beside, decoded.rows), part.codes, made.refused
    )


_BESIDE = f"erased: the condition does not go with the row as it was ({AS_IT_WAS}), or with what no column takes of it"


def without_erased(batch: Batch, rows: Rows, decoded: Decoded) -> Decoded:
    """Records that were erased, wherever they land, land nowhere; nor do changes that keep such a row as it was beside it."""
    book = batch.pins.rules.tables
    keeps = isinstance(batch.pins.rules.decoding.codec, Enveloped)
    asked = [
        one for text in book.erased.conditions if isinstance(one := book.conditions[text], ReadCondition)
    ]
    # Once for all of them, of which there may be many.
    untaken, told = Untaken.of(decoded.rescued, asked), with_beside(decoded.rows, decoded.beside)
    gone: Mask = np.zeros(len(decoded.source), np.bool_)
    doubts = list[tuple[Mask, str]]()
    for condition in map(book.conditions.__getitem__, book.erased.conditions):
        try:
            gone |= condition.met(told).fill_null(False).to_numpy(zero_copy_only=False)
        except ConfigError as error:
            doubts.append((np.ones(len(gone), np.bool_), f"erased: {error}"))
            continue
        if isinstance(condition, ReadCondition):
            for also, unknown in _beside(condition, told, untaken, keeps=keeps):
                gone |= also
                doubts.append((unknown, _BESIDE))
    if gone.any():
        batch.task.report.counts.dropped[ERASED] += int(gone.sum())
    # Behind all of them: of whom another one tells there is no doubt.
    out = gone.copy()
    for unknown, why in doubts:
        if (mine := unknown & ~out).any():
            _nobody_knows(batch, rows[decoded.source[mine]], why)
            out |= mine
    return decoded.without(decoded.source[out]) if out.any() else decoded


def _beside(
    condition: ReadCondition, rows: pa.RecordBatch, untaken: Untaken, *, keeps: bool
) -> Iterator[tuple[Mask, Mask]]:
    """For which rows it is true by what their columns do not say, and of which of these nobody can tell; `keeps` says whether they may have been otherwise."""
    yield untaken.met(condition, rows)
    if keeps:
        yield met_as_it_was(condition, rows)
        yield untaken.met_as_it_was(condition, rows)


def _nobody_knows(batch: Batch, rows: Rows, why: str) -> None:
    """Keep in quarantine what may be somebody's who was erased."""
    refs = [batch.pinned_of(row).key[0] for row in rows.tolist()]
    verdict = Verdict(DELETE_CONDITION, why)
    batch.task.quarantine.take(batch.raw, rows, [verdict] * len(rows), refs)


def stops_by(batch: Batch, rows: Rows, failures: Sequence[Failure]) -> list[str]:
    """Why the settings have the run stop, if they do, because of these failures, which are these rows'."""
    codec = batch.pins.rules.decoding.codec
    if not failures or not isinstance(codec, Enveloped) or codec.truncate != "stop":
        return []
    found = (row for row, one in zip(rows.tolist(), failures, strict=True) if one.reason == TRUNCATE)
    what = "says that its table was emptied, and decode.envelope.truncate is `stop`"
    remedy = "Empty it here by hand where that is meant; write quarantine or ignore to leave it as it is"
    return [
        f"the record at {'/'.join(map(str, place_of(batch.raw, row)))} {what}. {remedy}"
        for row in islice(found, 1)
    ]


def as_expected(batch: Batch, rows: Rows, decoded: Columns, codes: Codes, gone: Mask | None) -> Rows:
    """The places of those of these records that may land, by what their tables, which all expect the same, expect of them.

    What takes a row away (`gone`) brings none that could be looked at.
    """
    book = batch.task.book
    everyone = np.arange(len(rows), dtype=np.int64)
    expects = book.expects(int(codes[0]))
    looked_at = everyone if gone is None else np.flatnonzero(~gone)
    if not expects or not len(looked_at):
        return everyone
    found = check(expects, batch.pins.rules.tables.conditions, decoded.some(looked_at).rows)
    for name, met in found.met.items():
        for code in present(codes[looked_at]).tolist():
            mine = met[codes[looked_at] == code]
            good = int(mine.sum())
            batch.task.report.sightings.expected[book.folders[code], name, True] += good
            batch.task.report.sightings.expected[book.folders[code], name, False] += len(mine) - good
    out = [looked_at[one.rows] for one in found.unmet]
    _keep_out(batch, rows[looked_at], codes[looked_at], found)
    return np.setdiff1d(everyone, np.concatenate(out)) if out else everyone


def _keep_out(batch: Batch, rows: Rows, codes: Codes, found: Found) -> None:
    """Have each record that does not meet an expectation that would keep it out end as that says."""
    book, report = batch.task.book, batch.task.report
    for unmet in found.unmet:
        mine, outcome = rows[unmet.rows], unmet.expectation.otherwise
        if outcome == "drop":
            report.counts.dropped[EXPECTATION_DROP] += len(mine)
        elif outcome == "quarantine":
            verdicts = [Verdict(EXPECTATION, unmet.detail(row)) for row in unmet.rows.tolist()]
            refs = [batch.pinned_of(row).key[0] for row in mine.tolist()]
            names = [book.names[code] or None for code in codes[unmet.rows].tolist()]
            batch.task.quarantine.take(batch.raw, mine, verdicts, refs, names)
        else:
            first, folder = int(unmet.rows[0]), book.folders[int(codes[unmet.rows[0]])]
            report.stops.append(
                f"table {folder}: the record at {'/'.join(map(str, place_of(batch.raw, int(mine[0]))))} stops the run, as "
                f"{unmet.detail(first)}. Put right what sends such records, or the condition; to go on without them, have its "
                "`otherwise` say quarantine or drop"
            )


def picked(batch: pa.RecordBatch, rows: Rows) -> pa.RecordBatch:
    """These rows, which ascend; none is copied where they follow each other."""
    in_a_row = len(rows) and rows[-1] - rows[0] + 1 == len(rows)
    return batch.slice(int(rows[0]), len(rows)) if in_a_row else batch.take(pa.array(rows))
