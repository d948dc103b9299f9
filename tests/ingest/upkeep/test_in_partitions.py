"""Files of tables that somebody else has put into folders of partitions: kept up as those of ours are."""

from __future__ import annotations

import uuid
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from tests.ingest.pipelines import settings
from tests.ingest.upkeep.test_maintain import EIGHT_DAYS, later, own

from distributary.ingest.storage.opening import files_at
from distributary.ingest.upkeep.maintain import maintain


def test_files_in_the_folders_of_partitions_are_cleaned_up_too(tmp_path: Path) -> None:
    given = settings(tmp_path)
    place = tmp_path / "lake" / "made_by_hand"
    for number in range(2):
        rows = pa.table({"day": ["a/b=%", None], "land": ["x", "é"], "x": [number] * 2})
        write_deltalake(place, rows, mode="append", partition_by=["day", "land"])
    own(files_at(tmp_path / "lake"), given, "made_by_hand")
    (done,) = maintain(given).tables
    assert (done.compacted, done.made, done.deleted.files, done.left) == (4, 2, 0, ())
    stray = next(place.glob("day=*/land=*")) / f"part-00000-{uuid.uuid4()}-c000.snappy.parquet"
    stray.write_bytes(b"of nobody")
    # What is called otherwise, or lies deeper than there are columns, may be anybody's.
    (place / "apart").mkdir()
    others = [place / "apart" / stray.name, stray.parent / "x=1" / stray.name]
    for other in others:
        other.parent.mkdir(exist_ok=True)
        other.write_bytes(b"of nobody")
    (done,) = maintain(given, EIGHT_DAYS, clock=later(9)).tables
    assert (done.deleted.files, done.left, done.failed) == (5, (), None)
    assert not stray.exists() and all(other.exists() for other in others)
    assert sorted(DeltaTable(place).to_pyarrow_table()["x"].to_pylist()) == [0, 0, 1, 1]
    assert len(DeltaTable(place).file_uris()) == 2
