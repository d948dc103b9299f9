"""`decode.engine: spark` in the workers: what Spark's decoders are given, and what is taken from them.

The native decoder looks at every record first. Spark's functions neither say why a payload is broken nor notice bytes behind
a record or fields that a schema lacks, and some payloads end a task of theirs: they get those records only that the native
decoder has taken whole, and give the values. Of the others the native decoder's word stands, so no record is lost by either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from distributary.codecs.base import Decoded, RecordReader, UnknownField
from distributary.codecs.types.masks import Rows
from distributary.codecs.wire.header import Frames, bodies
from distributary.ingest.kafka.records import RAW_SCHEMA, raw_records
from distributary.ingest.pins import Pins, numbers_of_records
from distributary.ingest.worker.child_process import pieces
from distributary.ingest.worker.task import codec_of

# The columns beside RAW's: which pinned record type it is (null: none), and the body for Spark to decode.
RECORD, BODY = "record", "body"

# What the native decoder has said already: that a record kills it, and which fields a schema lacks, by the number of
# the records looked at that have them; these stand at the first of those.
DEADLY, UNKNOWN = "deadly", "unknown"

_FEW = 64

_BY_PATH = pa.map_(pa.string(), pa.int64())


def natively(number: int) -> str:
    """The column of what the native decoder has taken, but not whole, of a pinned record type."""
    return f"native_{number}"


def decoded(number: int) -> str:
    """The column of a pinned record type as Spark decodes it."""
    return f"decoded_{number}"


def whole(number: int) -> str:
    """The column that says which of `decoded` Spark has decoded."""
    return f"whole_{number}"


def of_columns(readers: Sequence[RecordReader]) -> list[tuple[int, RecordReader]]:
    """The pinned record types that Spark decodes, with their numbers: it has no struct without a field."""
    return [(number, reader) for number, reader in enumerate(readers) if len(reader.schema)]


def framed_schema(readers: Sequence[RecordReader]) -> pa.Schema:
    """The columns of records made ready for Spark."""
    own = [(RECORD, pa.int32()), (BODY, pa.binary()), (DEADLY, pa.bool_()), (UNKNOWN, _BY_PATH)]
    structs = [pa.field(natively(n), pa.struct(list(reader.schema))) for n, reader in of_columns(readers)]
    return pa.schema([*RAW_SCHEMA, *own, *structs])


def framing(pins: Pins) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function that Spark's `mapInArrow` runs before Spark decodes: records in, `framed_schema` out."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        framer = _Framer(pins)
        # What may die together is not made ready together.
        most = _FEW if pins.turn.guarded else None
        for batch in batches:
            for begin in range(0, batch.num_rows, most or batch.num_rows or 1):
                yield framer.framed(batch.slice(begin, most))

    return run


class _Framer:
    """Splits records and has the native decoder look at them."""

    def __init__(self, pins: Pins) -> None:
        self._pins, self._codec = pins, codec_of(pins)
        self._numbers = numbers_of_records(pins.schemas.records)
        self._readers = [self._codec.reader(one.schema, one.key[1]) for one in pins.schemas.records]
        self._schema = framed_schema(self._readers)

    def framed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The records with what Spark needs to decode them."""
        raw = raw_records(batch, self._pins.rules.topics)
        frames = self._codec.split(raw["value"], raw["header_id"])
        found = np.array([self._numbers.get(kind, -1) for kind in frames.kinds] or [-1], np.int64)
        numbers = np.where(frames.kind >= 0, found[np.maximum(frames.kind, 0)], -1)
        looked = [
            self._looked_at(reader, raw, frames, np.flatnonzero(numbers == number))
            for number, reader in of_columns(self._readers)
        ]
        record = pa.array(numbers, pa.int32(), mask=numbers < 0)
        body = _bodies(raw, frames, _joined([one.whole for one in looked]))
        deadly_ones = np.zeros(raw.num_rows, np.bool_)
        deadly_ones[_joined([one.dead for one in looked])] = True
        own = [record, body, pa.array(deadly_ones), _by_row(looked, raw.num_rows)]
        structs = [one.part for one in looked]
        return pa.RecordBatch.from_arrays([*raw.columns, *own, *structs], schema=self._schema)

    def _looked_at(self, reader: RecordReader, raw: pa.RecordBatch, frames: Frames, rows: Rows) -> _Looked:
        dead = self._dead(reader, raw, frames, rows)
        rows = np.setdiff1d(rows, dead, assume_unique=True)
        found = reader.decode(bodies(raw["value"], frames, rows))
        # Where a worker has died Spark's decoders, which nothing guards, get no record: they are routed by the native values.
        lacking = np.isin(found.source, found.beyond) | self._pins.turn.guarded
        if found.rescued is not None:
            lacking |= found.rescued.is_valid().to_numpy(zero_copy_only=False)
        part = found.rows.take(pa.array(np.flatnonzero(lacking)))
        spread = _spread(part, rows[found.source[lacking]], raw.num_rows, reader.schema)
        return _Looked(rows[found.source[~lacking]], spread, dead, rows, found.unknown)

    def _dead(self, reader: RecordReader, raw: pa.RecordBatch, frames: Frames, rows: Rows) -> Rows:
        """The rows that kill the native decoder, looked for where a worker has died."""
        if not self._pins.turn.guarded:
            return np.zeros(0, np.int64)
        _, dead = pieces(rows, lambda some: reader.decode(bodies(raw["value"], frames, some)))
        return np.array(dead, np.int64)


@dataclass(frozen=True, slots=True)
class _Looked:
    """What the native decoder says of the records of one type, by the batch's rows.

    whole    those that it has taken whole
    part     what it has taken of the others, null everywhere else
    dead     those that kill it
    living   all others; `unknown` numbers these
    """

    whole: Rows
    part: pa.StructArray
    dead: Rows
    living: Rows
    unknown: Sequence[UnknownField]


def _joined(rows: Sequence[Rows]) -> Rows:
    return np.sort(np.concatenate([np.zeros(0, np.int64), *rows]))


def _by_row(looked: Sequence[_Looked], count: int) -> pa.MapArray:
    """The fields that schemas lack, at the rows of the first records that have them."""
    if not any(one.unknown for one in looked):
        return pa.nulls(count, _BY_PATH)
    found: list[dict[str, int] | None] = [None] * count
    for one in looked:
        for field in one.unknown:
            row = int(one.living[field.first])
            found[row] = {**(found[row] or {}), field.path: field.records}
    return pa.array([None if one is None else list(one.items()) for one in found], _BY_PATH)


def _spread(part: pa.RecordBatch, rows: Rows, count: int, schema: pa.Schema) -> pa.StructArray:
    """The rows as structs at their places, null everywhere else."""
    if not len(rows):
        return pa.nulls(count, pa.struct(list(schema)))
    at = np.full(count, -1, np.int64)
    at[rows] = np.arange(len(rows))
    return part.to_struct_array().take(pa.array(at, mask=at < 0))


def _bodies(raw: pa.RecordBatch, frames: Frames, rows: Rows) -> pa.Array:
    at = np.full(raw.num_rows, -1, np.int64)
    at[rows] = np.arange(len(rows))
    return bodies(raw["value"], frames, rows).take(pa.array(at, mask=at < 0))


def _mask(flags: pa.BooleanArray) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = flags.fill_null(False).to_numpy(zero_copy_only=False)
    return found


@dataclass(frozen=True, slots=True)
class SparkRows:
    """A pinned record type's rows as Spark has decoded them, for a whole batch; which of them it has, and what was seen before."""

    structs: pa.StructArray
    whole: npt.NDArray[np.bool_]
    deadly: npt.NDArray[np.bool_]
    unknown: pa.MapArray

    @classmethod
    def of(cls, batch: pa.RecordBatch, number: int) -> SparkRows | None:
        """Those of a batch; None where Spark has decoded nothing."""
        if decoded(number) not in batch.schema.names:
            return None
        wholes, killers = (_mask(batch[name]) for name in (whole(number), DEADLY))
        return cls(batch[decoded(number)], wholes, killers, batch[UNKNOWN])

    def decode(self, reader: RecordReader, payloads: pa.BinaryArray, rows: Rows) -> Decoded:
        """What became of these payloads, those of the batch's `rows`: the native decoder says of what Spark has not decoded."""
        mine = self.whole[rows]
        places, others = np.flatnonzero(mine), np.flatnonzero(~mine)
        rest = reader.decode(payloads.take(pa.array(others)))
        source = np.concatenate([places, others[rest.source]])
        order = pa.array(np.argsort(source, kind="stable"))
        both = pa.Table.from_batches([self._rows(reader.schema, rows[places]), rest.rows])
        return replace(
            rest,
            rows=both.take(order).combine_chunks().to_batches()[0] if len(source) else rest.rows,
            source=np.sort(source),
            failures=[replace(failure, row=int(others[failure.row])) for failure in rest.failures],
            rescued=None
            if rest.rescued is None
            else pa.concat_arrays([pa.nulls(len(places), pa.string()), rest.rescued]).take(order),
            beyond=others[rest.beyond],
            # The native decoder has looked for them in all records together.
            unknown=self._unknown(rows),
        )

    def _unknown(self, rows: Rows) -> list[UnknownField]:
        there = np.flatnonzero(self.unknown.is_valid().to_numpy(zero_copy_only=False)[rows])
        return [
            UnknownField(path, records, int(place))
            for place in there
            for path, records in self.unknown[int(rows[place])].as_py()
        ]

    def _rows(self, schema: pa.Schema, rows: Rows) -> pa.RecordBatch:
        structs = self.structs.take(pa.array(rows))
        columns = [pc.struct_field(structs, place).cast(field.type) for place, field in enumerate(schema)]
        return pa.RecordBatch.from_arrays(columns, schema=schema)
