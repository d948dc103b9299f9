from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples
from tests.ingest.kafka_records import GENERATION

from distributary.ingest.columns.layout import Layout
from distributary.ingest.parquet.buffers import Chunk, TableBuffers

FOLDERS = ["zero", "one", "two"]
WHOLE = pa.schema([("n", pa.int64()), ("text", pa.string())])
PART = WHOLE.remove(1)
ADDS = st.lists(st.tuples(st.booleans(), st.lists(st.integers(0, 2), max_size=6)), max_size=12)


@given(ADDS, st.sampled_from([0, 50, 200, 10**6]), st.sampled_from([0, 100, 10**6]))
@settings(max_examples=examples(25), deadline=None)
def test_each_tables_rows_of_one_schema_keep_their_order_and_none_is_lost(
    adds: list[tuple[bool, list[int]]], chunk_limit: int, limit: int
) -> None:
    with TemporaryDirectory() as root:
        buffers = TableBuffers(root, GENERATION, 0, limit, lambda folder: Layout(WHOLE))
        chunk = Chunk(buffers, FOLDERS, chunk_limit)
        sent: dict[tuple[str, bool], list[int]] = {}
        number = 0
        for whole, codes in adds:
            numbers = list(range(number, number + len(codes)))
            number += len(codes)
            for n, code in zip(numbers, codes, strict=True):
                sent.setdefault((FOLDERS[code], whole), []).append(n)
            rows = [{"n": n, "text": f"t{n}"} for n in numbers]
            chunk.add(
                pa.RecordBatch.from_pylist(rows, WHOLE if whole else PART), np.array(codes, dtype=np.int32)
            )
        chunk.flush()
        buffers.close()
        found: dict[tuple[str, bool], list[int]] = {}
        for file in buffers.files:
            rows_in_file = pq.ParquetFile(Path(root, file.table, file.name)).read().to_pylist()
            assert file.rows == len(rows_in_file)
            for row in rows_in_file:
                assert row["text"] in (None, f"t{row['n']}")
                found.setdefault((file.table, row["text"] is not None), []).append(row["n"])
        assert found == sent
