"""The payloads of one record type decoded, as many at once as survive together and have room in one column."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from distributary.codecs import reasons
from distributary.codecs.base import Decoded
from distributary.codecs.types.masks import Rows
from distributary.codecs.types.walk import held
from distributary.ingest import pins
from distributary.ingest.pins import Verdict
from distributary.ingest.worker.child_process import pieces
from distributary.ingest.worker.record_group import Batch

# Of the texts in one column: Arrow numbers 2 GiB of them, and what is held beside them goes into one with them.
MOST_TEXT = 2**30

_NO_ROOM = Verdict(reasons.TOO_LARGE, "a single column of the record takes more than 1 GiB")


@dataclass(frozen=True, slots=True)
class Piece:
    """Some rows of a batch, which ascend.

    payloads  their bodies
    decoded   what was decoded of them; None where none of them can be
    why       not, then
    """

    rows: Rows
    payloads: pa.BinaryArray
    decoded: Decoded | None
    why: Verdict | None = None


def in_pieces(batch: Batch, rows: Rows, payloads: pa.BinaryArray) -> Iterator[Piece]:
    """These rows of the batch, which ascend and of which these are the bodies, each in one piece."""
    if not batch.pins.turn.guarded:
        yield from _with_room(batch, rows, payloads)
        return
    living, dead = _survived(batch, rows, payloads)
    if len(dead):
        yield Piece(rows[dead], payloads.take(pa.array(dead)), None, pins.KILLED_WORKER)
    for piece in living:
        yield from _with_room(batch, rows[piece], payloads.take(pa.array(piece)))


def _survived(batch: Batch, rows: Rows, payloads: pa.BinaryArray) -> tuple[list[Rows], Rows]:
    """The places of those payloads that their decoder survives, in pieces that it survives at once, and those of the others."""

    def tried(some: Rows) -> Decoded:
        return batch.reader.decode(payloads.take(pa.array(some)))

    # Where Spark decodes, single records have been tried before it got them.
    known = np.zeros(len(rows), np.bool_) if batch.by_spark is None else batch.by_spark.deadly[rows]
    living, found = pieces(np.flatnonzero(~known), tried)
    return living, np.sort(np.concatenate([np.flatnonzero(known), np.array(found, np.int64)]))


def _with_room(batch: Batch, rows: Rows, payloads: pa.BinaryArray) -> Iterator[Piece]:
    decoded = _decoded(batch, rows, payloads)
    if decoded is not None:
        yield Piece(rows, payloads, decoded)
    elif len(rows) == 1:
        yield Piece(rows, payloads, None, _NO_ROOM)
    else:
        # A byte may be an enum's name: some tens of large records are more text then than a column can have.
        for half in np.array_split(np.arange(len(rows)), 2):
            yield from _with_room(batch, rows[half], payloads.take(pa.array(half)))


def _decoded(batch: Batch, rows: Rows, payloads: pa.BinaryArray) -> Decoded | None:
    """What is decoded of all of them; None where a column has no room for it."""
    spark, reader = batch.by_spark, batch.reader
    try:
        decoded = spark.decode(reader, payloads, rows) if spark else reader.decode(payloads)
    except pa.ArrowException as error:
        if not _is_overflow(error):
            raise
        return None
    return decoded if _has_room(decoded.rows) else None


def _is_overflow(error: pa.ArrowException) -> bool:
    return isinstance(error, pa.ArrowCapacityError) or "offset overflow" in str(error)


def _has_room(rows: pa.RecordBatch) -> bool:
    # Of a wide table's nulls there may be as many bytes: only texts are numbered by them.
    return rows.nbytes <= MOST_TEXT or all(_text_bytes(column) <= MOST_TEXT for column in rows.columns)


def _text_bytes(values: pa.Array) -> int:
    """How many bytes the longest column of texts takes, in whatever depth."""
    if not len(values):
        return 0
    if pa.types.is_string(values.type) or pa.types.is_binary(values.type):
        edges = np.frombuffer(values.buffers()[1], np.int32, len(values) + 1, values.offset * 4)
        return int(edges[-1]) - int(edges[0])
    return max(map(_text_bytes, held(values)), default=0)
