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

from distributary.codecs.base import Decoded, RecordReader
from distributary.codecs.wire_header import Frames, bodies
from distributary.ingest.frames import RAW_SCHEMA, raw_records
from distributary.ingest.guard import deadly
from distributary.ingest.pins import Pins, numbers_of_records
from distributary.ingest.task import Rows, codec_of

# The columns beside RAW's: which pinned record type it is (null: none), and the body for Spark to decode.
RECORD, BODY = "record", "body"


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
    structs = [pa.field(natively(n), pa.struct(list(reader.schema))) for n, reader in of_columns(readers)]
    return pa.schema([*RAW_SCHEMA, (RECORD, pa.int32()), (BODY, pa.binary()), *structs])


def framing(pins: Pins) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function that Spark's `mapInArrow` runs before Spark decodes: records in, `framed_schema` out."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        framer = _Framer(pins)
        for batch in batches:
            yield framer.framed(batch)

    return run


class _Framer:
    """Splits records and has the native decoder look at them."""

    def __init__(self, pins: Pins) -> None:
        self._pins, self._codec = pins, codec_of(pins)
        self._numbers = numbers_of_records(pins.records)
        self._readers = [self._codec.reader(one.schema, one.key[1]) for one in pins.records]
        self._schema = framed_schema(self._readers)

    def framed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The records with what Spark needs to decode them."""
        raw = raw_records(batch, self._pins.topics)
        frames = self._codec.split(raw["value"], raw["header_id"])
        found = np.array([self._numbers.get(kind, -1) for kind in frames.kinds] or [-1], np.int64)
        numbers = np.where(frames.kind >= 0, found[np.maximum(frames.kind, 0)], -1)
        good, structs = [], []
        for number, reader in of_columns(self._readers):
            rows = self._living(reader, raw, frames, np.flatnonzero(numbers == number))
            taken = _looked_at(reader, raw, frames, rows, all_in_part=self._pins.guarded)
            good.append(rows[taken.whole])
            structs.append(_spread(taken.part, rows[taken.in_part], raw.num_rows, reader.schema))
        record = pa.array(numbers, pa.int32(), mask=numbers < 0)
        body = _bodies(raw, frames, np.sort(np.concatenate([np.zeros(0, np.int64), *good])))
        return pa.RecordBatch.from_arrays([*raw.columns, record, body, *structs], schema=self._schema)

    def _living(self, reader: RecordReader, raw: pa.RecordBatch, frames: Frames, rows: Rows) -> Rows:
        """The rows without those that kill the native decoder, where a worker has died."""
        if not self._pins.guarded:
            return rows
        dead = deadly(rows, lambda some: reader.decode(bodies(raw["value"], frames, some)))
        return np.setdiff1d(rows, np.array(dead, np.int64), assume_unique=True)


@dataclass(frozen=True, slots=True)
class _Looked:
    """Which payloads the native decoder has taken whole, and the rows of those it has taken in part."""

    whole: Rows
    in_part: Rows
    part: pa.RecordBatch


def _looked_at(
    reader: RecordReader, raw: pa.RecordBatch, frames: Frames, rows: Rows, *, all_in_part: bool
) -> _Looked:
    # Where a worker has died Spark's decoders, which nothing guards, get no record: they are routed by the native values.
    found = reader.decode(bodies(raw["value"], frames, rows))
    lacking = np.isin(found.source, found.beyond)
    if found.rescued is not None:
        lacking |= found.rescued.is_valid().to_numpy(zero_copy_only=False)
    lacking |= all_in_part
    part = np.flatnonzero(lacking)
    return _Looked(found.source[~lacking], found.source[part], found.rows.take(pa.array(part)))


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


@dataclass(frozen=True, slots=True)
class SparkRows:
    """A pinned record type's rows as Spark has decoded them, for a whole batch; and which of them it has."""

    structs: pa.StructArray
    whole: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, batch: pa.RecordBatch, number: int) -> SparkRows | None:
        """Those of a batch; None where Spark has decoded nothing."""
        if decoded(number) not in batch.schema.names:
            return None
        mask = batch[whole(number)].fill_null(False).to_numpy(zero_copy_only=False)
        return cls(batch[decoded(number)], mask)

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
        )

    def _rows(self, schema: pa.Schema, rows: Rows) -> pa.RecordBatch:
        structs = self.structs.take(pa.array(rows))
        columns = [pc.struct_field(structs, place).cast(field.type) for place, field in enumerate(schema)]
        return pa.RecordBatch.from_arrays(columns, schema=schema)
