"""A worker that may hold only little: it writes often, and loses and doubles nothing by it."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.ingest.e2e.pipeline_kit import PipelineKit

pytestmark = [pytest.mark.spark, pytest.mark.stack, pytest.mark.heavy]


def test_a_small_bound_on_bytes_makes_several_row_groups_and_every_value_is_right(kit: PipelineKit) -> None:
    kit.configured(limits={"worker_bytes": "256 KiB", "arrow_rows": 500})
    kit.simulate(1, events=8_000, games=2, corrupt=0.01)
    kit.simulate(3, events=8_000, games=2, old_producers=0.5)
    kit.run()

    kit.assert_clean()
    root = kit.lake.root
    files = [file.path for game in range(2) for file in root.list(kit.folder_of(game))]
    groups = [pq.read_metadata(pa.BufferReader(root.read(path))).num_row_groups for path in files]
    assert max(groups) > 3
    # A table that gets columns while its file is open begins another; beyond that there are no more than tasks.
    assert len(files) <= 2 * 2 * 3


def test_more_tables_than_files_may_be_open_spill_as_well(kit: PipelineKit) -> None:
    kit.configured(limits={"worker_bytes": "256 KiB", "arrow_rows": 1000})
    kit.simulate(1, events=6_000, games=300)
    kit.run()

    kit.assert_clean()
