"""What is remembered of records whose rows are erased, so that a later record finds no place decided by one that nobody has any more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from distributary.ingest.columns.single_values import comparable, value_at, value_path
from distributary.ingest.erasure.file_anew import Mask
from distributary.ingest.erasure.rewriting import Rows
from distributary.ingest.settings.upserts import Upsert

Path = tuple[str, ...]

Span = tuple[Any, Any]


@dataclass(frozen=True, slots=True)
class Remembered:
    """By what the records of a history's rows are found in the table that remembers them.

    keys    the columns that make a key
    moment  the column that says since when a record is true
    bounds  those of the history's rows: the first moment, and the first one behind
    """

    keys: tuple[Path, ...]
    moment: Path
    bounds: tuple[str, str]

    @classmethod
    def of(cls, upsert: Upsert | None, columns: pa.Schema, record_key: str) -> Remembered | None:
        """Of a table with these columns; None of one that is no history, or not whole. `record_key` is the column of records' own keys."""
        if upsert is None or upsert.history is None:
            return None
        since, until, _ = upsert.history.columns
        by = [value_path(columns, name) for name in upsert.keys] or [(record_key,)]
        moment = value_path(columns, upsert.sequence_by[0])
        keys = tuple(path for path in by if path is not None)
        if moment is None or len(keys) < len(by) or not {since, until, keys[0][0]} <= set(columns.names):
            return None
        return cls(keys, moment, (since, until))

    @property
    def told(self) -> tuple[str, ...]:
        """The columns of a history's rows that have to be known."""
        return tuple(dict.fromkeys((*(path[0] for path in self.keys), *self.bounds)))

    def first_key(self, rows: pa.RecordBatch) -> pa.Array:
        """The values of the first column that names a record: zeros of either sign are one key to a merge, but two to Arrow's look-up."""
        values = value_at(rows, self.keys[0])
        return pc.add(values, pa.scalar(0, values.type)) if kinds.is_floating(values.type) else values

    def rows(self, gone: pa.Table) -> Rows:
        """The records that rows which go were true by, those that said the same meanwhile among them; what came before and behind stays."""
        spans: dict[tuple[Any, ...], list[Span]] = {}
        first = list[pa.Array]()
        for batch in gone.to_batches():
            first.append(self.first_key(batch))
            ends = zip(*(comparable(batch.column(name)) for name in self.bounds), strict=True)
            for key, span in zip(_keys(batch, self.keys), ends, strict=True):
                spans.setdefault(key, []).append(span)
        known = pa.concat_arrays(first).unique() if first else pa.nulls(0)
        read = frozenset(path[0] for path in (*self.keys, self.moment))
        return Rows(read, _Within(self, spans, known).met)


@dataclass(frozen=True, slots=True)
class _Within:
    remembered: Remembered
    spans: Mapping[tuple[Any, ...], Sequence[Span]]
    first: pa.Array

    def met(self, rows: pa.RecordBatch) -> Mask:
        found = np.zeros(rows.num_rows, dtype=bool)
        likely = pc.is_in(self.remembered.first_key(rows), value_set=self.first)
        places = np.flatnonzero(likely.to_numpy(zero_copy_only=False))
        some = rows.take(pa.array(places))
        moments = comparable(value_at(some, self.remembered.moment))
        for place, key, moment in zip(places, _keys(some, self.remembered.keys), moments, strict=True):
            spans = self.spans.get(key, ())
            found[place] = any(
                (since is None or since <= moment) and (until is None or moment < until)
                for since, until in spans
            )
        return found


def _keys(rows: pa.RecordBatch, paths: Sequence[Path]) -> list[tuple[Any, ...]]:
    return list(zip(*(comparable(value_at(rows, path)) for path in paths), strict=True))
