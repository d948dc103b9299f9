"""Rows of one table by the partitions that they belong to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from distributary.ingest.columns.partitions import PartitionValues, texts


def split(rows: pa.RecordBatch, by: Sequence[str]) -> Iterator[tuple[PartitionValues, pa.RecordBatch]]:
    """The rows of each partition, in the order they came, without the columns that all of them have one value in."""
    rest = rows.select([name for name in rows.schema.names if name not in by])
    codes, written = np.zeros(rows.num_rows, np.int64), list[PartitionValues]([()])
    for name in by:
        codes, written = _finer(codes, written, name, rows.column(name))
    if len(written) > 1:
        order = np.argsort(codes, kind="stable")
        rest, codes = rest.take(pa.array(order)), codes[order]
    edges = [0, *(np.flatnonzero(np.diff(codes)) + 1).tolist(), len(codes)]
    for start, end in pairwise(edges):
        if end > start:
            yield written[codes[start]], rest.slice(start, end - start)


def _finer(
    codes: npt.NDArray[np.int64], written: Sequence[PartitionValues], name: str, values: pa.Array
) -> tuple[npt.NDArray[np.int64], list[PartitionValues]]:
    """Partitions, and the number of each row's, where one more column tells them apart."""
    encoded = values.dictionary_encode()
    distinct = dict[str | None, int]()
    numbers = [distinct.setdefault(text, len(distinct)) for text in (*texts(encoded.dictionary), None)]
    own = np.array(numbers)[encoded.indices.fill_null(len(numbers) - 1).to_numpy()]
    pairs, codes = np.unique(codes * len(distinct) + own, return_inverse=True)
    told = list(distinct)
    return codes, [
        (*written[pair // len(distinct)], (name, told[pair % len(distinct)])) for pair in pairs.tolist()
    ]
