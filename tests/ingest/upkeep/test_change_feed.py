"""What others write for a change feed has rows, and goes with the files of the versions that it tells of."""

from __future__ import annotations

import uuid
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from tests.ingest.upkeep.test_leftovers import bound

from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.opening import files_at
from distributary.ingest.upkeep.leftovers import delete, leftovers
from distributary.ingest.upkeep.undecided import Undecided


def told(place: Files) -> list[str]:
    """The files of the feed."""
    return [info.path for info in place.walk("_change_data") if info.path.endswith(".parquet")]


def kept_up(place: Files, later: float, partitions: list[str]) -> None:
    delete(place, leftovers(place, bound(place, later=later), Undecided(), partitions=partitions))


@pytest.mark.parametrize("partitions", [[], ["who"]])
def test_what_a_feed_tells_by_goes_once_it_is_old(tmp_path: Path, partitions: list[str]) -> None:
    rows = pa.table({"who": ["ann", "ann", "bob"], "n": [1, 2, 3]})
    feed = {"delta.enableChangeDataFeed": "true"}
    write_deltalake(tmp_path, rows, configuration=feed, partition_by=partitions or None)
    DeltaTable(tmp_path).delete("n = 1")
    place = files_at(tmp_path)
    assert told(place)
    kept_up(place, 6.9, partitions)
    assert told(place)
    # A checkpoint says nothing of a feed.
    DeltaTable(tmp_path).create_checkpoint()
    kept_up(place, 6.9, partitions)
    assert told(place)
    others = f"_change_data/{uuid.uuid4()}.parquet"
    place.put(others, b"x")
    kept_up(place, 7.1, partitions)
    assert told(place) == [others]
    assert sorted(DeltaTable(tmp_path).to_pyarrow_table()["n"].to_pylist()) == [2, 3]
