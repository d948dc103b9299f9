"""What is kept of a stream, read in Spark's workers: pieces as records with the columns of Spark's Kafka source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from distributary.errors import CheckpointMismatch
from distributary.ingest.kinesis.kept import Piece
from distributary.ingest.spark.tasks.parts import by_parts
from distributary.ingest.storage.contract import Files

COLUMNS = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int, "
    "headers array<struct<key: string, value: binary>>"
)

# As Kafka has it of a time that who keeps the records gave them.
_LOG_APPEND_TIME = 1


@dataclass(frozen=True, slots=True)
class Part:
    """The records of a piece from an offset to before another."""

    piece: Piece
    begin: int
    end: int


def parts_of(pieces: Iterable[Piece], begin: int, end: int) -> list[Part]:
    """The parts with records of a range of a shard's offsets."""
    found = [
        Part(piece, max(begin, piece.first), min(end, piece.end))
        for piece in pieces
        if piece.kind == "records"
    ]
    return [part for part in found if part.begin < part.end]


def records(spark: SparkSession, kept: Files, topic: str, parts: Sequence[Part]) -> DataFrame:
    """These records, which workers read side by side."""
    shares = _shares(parts, spark.sparkContext.defaultParallelism)
    return by_parts(spark, shares, lambda share: _read(kept, topic, share), COLUMNS)


def _shares(parts: Sequence[Part], workers: int) -> list[list[Part]]:
    """The parts in as many shares as there are workers, about as many records in each."""
    shares: list[list[Part]] = [[] for _ in range(min(workers, len(parts)))]
    counts = [0] * len(shares)
    for part in sorted(parts, key=lambda one: one.begin - one.end):
        least = counts.index(min(counts))
        shares[least].append(part)
        counts[least] += part.end - part.begin
    return [sorted(share, key=lambda one: (one.piece.shard.number, one.begin)) for share in shares]


def _read(kept: Files, topic: str, parts: Sequence[Part]) -> Iterator[pa.RecordBatch]:
    for part in parts:
        yield from rows_of(kept, topic, part)


def rows_of(kept: Files, topic: str, part: Part) -> Iterator[pa.RecordBatch]:
    """The records of a part. Raises CheckpointMismatch where the piece is another one, FileNotFoundError where it is gone."""
    at = part.piece.first
    with pa.ipc.open_stream(kept.read(part.piece.path)) as stream:
        for batch in stream:
            begin, end = max(part.begin, at), min(part.end, at + batch.num_rows)
            if begin < end:
                yield _as_records(batch.slice(begin - at, end - begin), topic, part.piece.shard.number, begin)
            at += batch.num_rows
    if at != part.piece.end:
        raise CheckpointMismatch(
            f"{kept}/{part.piece.path} has {at - part.piece.first:,} records, and had {part.piece.count:,} when it was put there: it was "
            "edited, or put back from another copy; restore it, with the tables"
        )


def first_since(kept: Files, piece: Piece, milliseconds: int) -> int | None:
    """The offset of the first record of a piece that came at this time or later."""
    table = pa.ipc.open_stream(kept.read(piece.path)).read_all()
    came = table["timestamp"].cast(pa.int64()).to_numpy() >= milliseconds * 1000
    return piece.first + int(np.argmax(came)) if came.any() else None


def _as_records(rows: pa.RecordBatch, topic: str, partition: int, first: int) -> pa.RecordBatch:
    count = rows.num_rows
    return pa.RecordBatch.from_arrays(
        [
            rows["key"],
            rows["value"],
            pa.repeat(topic, count),
            pa.repeat(pa.scalar(partition, pa.int32()), count),
            pa.array(np.arange(first, first + count, dtype=np.int64)),
            rows["timestamp"],
            pa.repeat(pa.scalar(_LOG_APPEND_TIME, pa.int32()), count),
            rows["headers"],
        ],
        names=["key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"],
    )
