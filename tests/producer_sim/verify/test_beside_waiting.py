"""Batches of which a table with one row a key had to wait: what their other tables lack is found all the same."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from deltalake import DeltaTable
from tests.ingest.batch.test_parked_partitions import UPSERT, begun, golf, without_log
from tests.ingest.kafka_records import Sent
from tests.ingest.pipelines import checkpoint, settings
from tests.ingest.queries import GOLF, QUEST, value

from distributary.ingest.columns.safe_names import BATCHES_TABLE
from distributary.producer_sim.verify.comparison import Beside, compare
from distributary.producer_sim.verify.lake import Lake
from distributary.producer_sim.verify.verdict import Difference


def found(root: Path) -> list[Difference]:
    lake = Lake.of(settings(root, tables=[UPSERT]))
    return list(compare(lake, beside=Beside(checkpoint(root))).differences)


def test_rows_of_a_table_to_which_each_is_added_are_missed_where_another_one_waited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What became of the other's rows nobody told by then."""
    query = begun(tmp_path, UPSERT)
    query.batch(0, golf(0, score=1))
    both = [*golf(1, score=2), Sent(value(2, game_name="quest"), 2)]
    aside = without_log(monkeypatch, tmp_path, lambda: query.batch(1, both))
    shutil.move(aside, tmp_path / "lake" / GOLF / "_delta_log")
    assert begun(tmp_path, UPSERT).log.so_far.parked == {}
    rows = DeltaTable(tmp_path / "lake" / BATCHES_TABLE).to_pyarrow_table().sort_by("batch_id")
    told = rows.select(["rows_tables", "rows_inserted", "rows_added"]).to_pylist()
    assert [tuple(row.values()) for row in told] == [(1, 1, 0), (2, None, 1)]
    assert found(tmp_path) == []

    DeltaTable(tmp_path / "lake" / QUEST).delete()
    (lacks,) = found(tmp_path)
    assert lacks.kind == "ledger_rows"
    assert "its offsets have 0 rows in tables to which each is added, the ledger says 1" in lacks.detail
