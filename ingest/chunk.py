"""Decoded rows of many entities, collected until there are enough to be sorted by entity at once.

Sorting every small batch by itself would give each of a thousand tables slices of a few rows, which cost more to put
together than the rows themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from distributary.ingest.table_buffers import TableBuffers

_Part = tuple[pa.RecordBatch, npt.NDArray[np.int32]]


class Chunk:
    """Rows with their entities' numbers; `folders[number]` is the table they go to."""

    def __init__(self, buffers: TableBuffers, folders: Sequence[str], limit_bytes: int) -> None:
        self._buffers, self._folders, self._limit = buffers, folders, limit_bytes
        self._parts: dict[pa.Schema, list[_Part]] = {}
        self._bytes = 0

    def add(self, rows: pa.RecordBatch, codes: npt.NDArray[np.int32]) -> None:
        """Collect rows of one schema; hands everything on when it is enough."""
        if not len(codes):
            return
        self._parts.setdefault(rows.schema, []).append((rows, codes))
        self._bytes += rows.nbytes
        if self._bytes > self._limit:
            self.flush()

    def flush(self) -> None:
        """Hand everything on, each entity's rows in the order they came."""
        for parts in self._parts.values():
            self._split(parts)
        self._parts.clear()
        added, self._bytes = self._bytes, 0
        self._buffers.grew(added)

    def _split(self, parts: list[_Part]) -> None:
        rows = pa.concat_batches([rows for rows, _ in parts])
        codes = np.concatenate([codes for _, codes in parts])
        parts.clear()  # before sorting makes another copy
        if codes[0] != codes[-1] or (codes != codes[0]).any():
            order = np.argsort(codes, kind="stable")
            rows, codes = rows.take(pa.array(order)), codes[order]
        edges = [0, *(np.flatnonzero(np.diff(codes)) + 1).tolist(), len(codes)]
        for start, end in pairwise(edges):
            self._buffers.add(self._folders[codes[start]], rows.slice(start, end - start))
