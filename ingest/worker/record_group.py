"""The records of a batch that are decoded alike, and what is known of each before it is decoded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from distributary.codecs.base import Decoded, RecordReader
from distributary.codecs.types.masks import Codes, Rows, present
from distributary.codecs.types.row_shape import with_beside
from distributary.ingest.pins import PinnedRecord, Pins
from distributary.ingest.routing.routes import Records, entities
from distributary.ingest.worker.spark_rows import SparkRows
from distributary.ingest.worker.task import Task


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
    """

    task: Task
    raw: pa.RecordBatch
    number: int
    by_spark: SparkRows | None = None
    own: Own | None = None

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
    pinned: PinnedRecord, decoded: pa.RecordBatch, codes: Codes
) -> Mapping[int, tuple[int, ...] | None]:
    """Per entity the columns its records bring: all (None) that their schema has, if they name one that they were
    written with; of an inferred one, which is everybody's, those that have a value.
    """
    met = present(codes[codes >= 0]).tolist()
    if not pinned.schema.inferred:
        return dict.fromkeys(met)
    if len(met) == 1 and codes.min() >= 0:
        held = [place for place, column in enumerate(decoded.columns) if column.null_count < len(column)]
        return {met[0]: tuple(held)}
    found: dict[int, list[int]] = {code: [] for code in met}
    for place, column in enumerate(decoded.columns):
        there = codes[column.is_valid().to_numpy(zero_copy_only=False)]
        for code in present(there[there >= 0]).tolist():
            found[code].append(place)
    return {code: tuple(places) for code, places in found.items()}
