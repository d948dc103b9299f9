"""Batches whose rows are brought together by table before they are written: as right as any, in a file a table."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.ingest.e2e.pipeline_kit import PipelineKit

from distributary.errors import BudgetSpent

pytestmark = [pytest.mark.spark, pytest.mark.stack]


def test_rows_are_brought_together_where_there_would_be_too_many_files(
    kit: PipelineKit, fail_at: Callable[..., None]
) -> None:
    kit.configured(limits={"batch_files": 3}, decode={"evolution": "inline"})
    kit.simulate(corrupt=0.05, tombstones=0.02)
    kit.run()
    kit.simulate(2, games=4, corrupt=0.05, old_producers=0.3)
    fail_at("after_manifest:3")
    with pytest.raises(BudgetSpent, match="failpoint"):
        kit.run()
    fail_at()
    first, second = kit.manifests.read(1), kit.manifests.read(3)
    assert first is not None and second is not None
    tables = {table.folder: len(table.files) for table in second.tables}
    known = [kit.folder_of(number) for number in range(3)]
    assert {table: tables[table] for table in known} == dict.fromkeys(known, 1)
    assert tables["quarantine"] <= 2, "one a pass"
    assert any(len(table.files) > 1 for table in first.tables), "of tables that nobody knew yet"
    # Lost files are written again the same way.
    lost = next(table for table in second.tables if table.folder == known[0])
    kit.lake.root.delete(f"{lost.folder}/{file.name}" for file in lost.files)
    kit.run()
    kit.assert_clean()
    assert kit.unnamed_files() == set()
