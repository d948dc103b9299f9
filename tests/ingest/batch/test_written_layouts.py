from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
from tests.ingest import kafka_records as records
from tests.ingest.pipelines import settings, written

from distributary.ingest.batch.written_layouts import as_new, layouts
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


def test_a_table_that_is_not_there_yet_is_in_partitions_by_all_of_its_columns_or_by_none(
    tmp_path: Path,
) -> None:
    """As one is made, whose first records may be deletes without the others."""
    book = settings(tmp_path, tables=[{"match": "*", "partition_by": ["a", "b"]}]).rule_book()
    rules = replace(records.pins(tmp_path).rules, tables=book)
    some, whole = as_new("t", Layout(A), rules), as_new("t", Layout(AB), rules)
    assert (some.partitions, some.fixed) == ((), frozenset({"a"}))
    assert (whole.partitions, whole.fixed) == (("a", "b"), frozenset({"a", "b"}))
