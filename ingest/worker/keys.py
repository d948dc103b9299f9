"""Keys as text, in a worker: decoded by their schema where they name one, beside the bytes that they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from distributary.codecs.mixed.keys import KeyCodec, KeyReader, has_header
from distributary.codecs.types.masks import Rows
from distributary.codecs.wire.header import Frames, bodies
from distributary.ingest.kafka.records import ENTITY, TEXT
from distributary.ingest.pins import PinnedKeys, RecordKey, numbers_of_records
from distributary.ingest.worker.child_process import pieces


@dataclass(frozen=True, slots=True)
class LookedAt:
    """A batch's keys.

    text    each key's text, null where there is no key or nothing can make it a text
    scalar  whether that is one value, not a record
    asks    per row an index into `kinds` of a schema that is not known yet; -1 where nothing is to be asked
    """

    text: pa.StringArray
    scalar: pa.BooleanArray
    asks: npt.NDArray[np.int64]
    kinds: list[RecordKey]

    def beside(self, raw: pa.RecordBatch) -> pa.RecordBatch:
        """The records with the columns of their keys' texts."""
        entity = pc.if_else(self.scalar, self.text, pa.scalar(None, pa.string()))
        return raw.append_column(TEXT, self.text).append_column(ENTITY, entity)


class Keys:
    """Makes text of keys, each distinct one once."""

    def __init__(self, pinned: PinnedKeys, *, guarded: bool = False) -> None:
        """With `guarded` they are decoded in a child process first, because a worker died."""
        self._pinned, self._guarded = pinned, guarded
        self._codec = KeyCodec({one.key[0]: one.schema.type for one in pinned.records})
        self._numbers = numbers_of_records(pinned.records)
        self._readers = [self._codec.reader(one.schema, one.key[1]) for one in pinned.records]

    def look(self, keys: pa.BinaryArray) -> LookedAt:
        """What there is to say of these keys."""
        encoded = keys.dictionary_encode()
        distinct = self._distinct(encoded.dictionary)
        places = encoded.indices
        asks = pa.array(distinct.asks).take(places).fill_null(-1).to_numpy(zero_copy_only=False)
        scalar = distinct.scalar.take(places).fill_null(False)
        return LookedAt(distinct.text.take(places), scalar, asks, distinct.kinds)

    def _distinct(self, keys: pa.BinaryArray) -> LookedAt:
        texts = [_utf8(key) for key in keys.to_pylist()]
        scalar, asks = np.ones(len(keys), np.bool_), np.full(len(keys), -1, np.int64)
        kinds: list[RecordKey] = []
        if self._pinned.decoded and len(keys):
            kinds = self._decode(keys, texts, scalar, asks)
        return LookedAt(pa.array(texts, pa.string()), pa.array(scalar), asks, kinds)

    def _decode(
        self,
        keys: pa.BinaryArray,
        texts: list[str | None],
        scalar: npt.NDArray[np.bool_],
        asks: npt.NDArray[np.int64],
    ) -> list[RecordKey]:
        frames, headed = self._codec.split(keys, None), has_header(keys)
        for number, kind in enumerate(frames.kinds):
            rows = np.flatnonzero((frames.kind == number) & headed)
            known = self._numbers.get(kind)
            for row in rows.tolist():
                texts[row] = None
            if known is None:
                if kind not in self._pinned.refused and not self._pinned.final:
                    asks[rows] = number
                continue
            reader = self._readers[known]
            for piece in _survived(reader, keys, frames, rows) if self._guarded else [rows]:
                decoded = reader.decode(bodies(keys, frames, piece))
                for place, found in zip(decoded.source.tolist(), decoded.rows.to_pylist(), strict=True):
                    texts[piece[place]], scalar[piece[place]] = found["text"], found["scalar"]
        return list(frames.kinds)


def _survived(reader: KeyReader, keys: pa.BinaryArray, frames: Frames, rows: Rows) -> Sequence[Rows]:
    """The rows without those whose key ends the process that decodes it, in pieces that it survives."""
    return pieces(rows, lambda some: reader.decode(bodies(keys, frames, some)))[0]


def _utf8(key: bytes) -> str | None:
    try:
        return key.decode()
    except UnicodeDecodeError:
        return None
