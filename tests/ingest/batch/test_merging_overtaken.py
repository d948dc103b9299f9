"""A run whose rows take the place of others stands still, and another version of the program takes over: woken, it stops by name, and all stays as it was."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, QueryBuilder
from tests.ingest.batch.test_parked_partitions import UPSERT, begun, golf
from tests.ingest.kafka_records import TOPIC
from tests.ingest.queries import GOLF, Query

from distributary.errors import Fenced
from distributary.ingest import failpoints
from distributary.ingest.columns.safe_names import BATCHES_TABLE

POINTS = (
    failpoints.BEFORE_MANIFEST,
    failpoints.AFTER_MANIFEST,
    failpoints.AMID_MERGE,
    failpoints.BETWEEN_COMMITS,
    failpoints.BEFORE_LEDGER,
    failpoints.BEFORE_SPARK_COMMIT,
)

# Where it also has a batch of its own; at the others it has finished what it found, and nothing tells the one that wakes before it is done.
GOES_ON = (failpoints.BEFORE_MANIFEST, failpoints.AMID_MERGE, failpoints.BETWEEN_COMMITS)


def rows(root: Path, table: str) -> list[dict[str, object]]:
    """As a reader has them that knows deletion vectors, and goes by the sizes that the log says."""
    found = QueryBuilder().register("t", DeltaTable(root / "lake" / table)).execute("SELECT * FROM t")
    told: list[dict[str, object]] = pa.table(found.read_all()).to_pylist()
    return told


# Processes that are stopped and woken do the same in tests/ingest/e2e/test_upserts_in_trouble.py.
@pytest.mark.parametrize("point", POINTS)
def test_woken_it_stops_by_name_and_the_ledger_stays_as_its_table_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    zombie = begun(tmp_path, UPSERT)
    zombie.batch(0, golf(0, 1))
    others: list[Query] = []

    def reached(at: str, _: int) -> None:
        if at != point or others:
            return
        with monkeypatch.context() as patch:
            patch.setattr(failpoints, "reach", lambda *_: None)
            patch.setattr(pq, "ParquetWriter", partial(pq.ParquetWriter, use_dictionary=False))
            others.append(begun(tmp_path, UPSERT))
            if point in GOES_ON:
                begin = others[0].log.so_far.ends[TOPIC][0]
                others[0].batch(begin, golf(begin, 1))

    with monkeypatch.context() as patch, pytest.raises(Fenced, match="nothing is lost or twice"):
        patch.setattr(failpoints, "reach", reached)
        zombie.batch(1, golf(1, 1))
        zombie.batch(2, golf(2, 1))
    # Before a start, which takes a file of another size for one that a loss of power cut off, and mends that.
    of = tmp_path / "lake" / BATCHES_TABLE
    files = pa.table(DeltaTable(of).get_add_actions(flatten=True)).to_pylist()
    assert {one["path"]: one["size_bytes"] for one in files} == {
        one["path"]: (of / one["path"]).stat().st_size for one in files
    }
    last = begun(tmp_path, UPSERT)
    end = 3 if point in GOES_ON and point != failpoints.BEFORE_MANIFEST else 2
    assert last.log.so_far.ends == {TOPIC: {0: end}}
    # Each row took the place of the one before it.
    assert [row["kafka_offset"] for row in rows(tmp_path, GOLF)] == [end - 1]
    told = sorted((row["batch_id"], row["rows_read"]) for row in rows(tmp_path, BATCHES_TABLE))
    assert len(told) == end and {read for _, read in told} == {1}
