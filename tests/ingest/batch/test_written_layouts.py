from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from tests.ingest import kafka_records as records
from tests.ingest.pipelines import written

from distributary.ingest.batch.written_layouts import layouts
from distributary.ingest.columns.layout import Layout
from distributary.ingest.pins import PinnedTable

A = pa.schema([("a", pa.int64())])
B = pa.schema([("b", pa.string())])
AB = pa.schema([*A, *B])
BA = pa.schema([*B, *A])


def test_a_tables_layout_is_that_of_all_its_files_and_of_the_table_itself(tmp_path: Path) -> None:
    by = records.pins(tmp_path, known={"t": PinnedTable("t", Layout(A))})
    found = layouts(
        records.task_report(written=[written("t", B), written("new", BA), written("new", AB)]), by
    )
    assert {folder: layout.names for folder, layout in found.items()} == {"t": ["a", "b"], "new": ["b", "a"]}


def test_tables_with_the_same_columns_share_one_layout(tmp_path: Path) -> None:
    found = layouts(records.task_report(written=[written("t", A), written("u", A)]), records.pins(tmp_path))
    assert found["t"] == found["u"]
