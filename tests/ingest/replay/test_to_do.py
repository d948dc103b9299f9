"""What is to be decoded of bronze: what no table has, where a place in Kafka had another record before, too."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from distributary.errors import PipelineError
from distributary.ingest.commit_log.owners import Whose
from distributary.ingest.quarantine.chosen import Chosen
from distributary.ingest.replay.portions import Portion
from distributary.ingest.replay.raw_records import PLACE_AND_TIME, RawRecords
from distributary.ingest.replay.staging import Tables
from distributary.ingest.replay.to_do import ToDo, require_one_record_each, to_do
from distributary.ingest.settings.groups import Columns
from distributary.ingest.storage.opening import files_at

BEFORE = datetime(2026, 1, 1, tzinfo=timezone.utc)

# The topic was made anew in between.
SINCE = BEFORE + timedelta(days=30)


def put(root: Path, table: str, offsets: Iterable[int], at: datetime | None) -> None:
    """Records of one partition, all of one time."""
    rows = [{"kafka_topic": "t", "kafka_partition": 0, "kafka_offset": n, "kafka_ts": at} for n in offsets]
    write_deltalake(str(root / table), pa.Table.from_pylist(rows, PLACE_AND_TIME), mode="append")


def looked(root: Path, chosen: Chosen) -> ToDo:
    files = files_at(root)
    raw, tables = RawRecords.of(files, ["bronze"]), Tables(files, ["silver"], Columns())
    return to_do(raw, tables, Whose.of("games"), Portion({"t": {0: (0, 100)}}, chosen))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Both topics kept as they came, and rows of the earlier one alone."""
    for at in (BEFORE, SINCE):
        put(tmp_path, "bronze", range(4), at)
    put(tmp_path, "silver", range(3), BEFORE)
    return tmp_path


def test_a_row_of_the_record_that_had_its_place_before_is_none_of_its_own(root: Path) -> None:
    found = looked(root, Chosen(since=SINCE))
    assert (found.count, found.there) == (4, 0)
    earlier = looked(root, Chosen(until=SINCE))
    assert (earlier.count, earlier.there) == (1, 3)
    put(root, "silver", [0, 1], SINCE)
    # Of which the time is not known that is taken for the record's.
    put(root, "silver", [2], None)
    assert {
        name: those.tolist() for (name, _), those in looked(root, Chosen(since=SINCE)).wanted.items()
    } == {"t": [3]}


def test_two_records_of_one_place_are_told_before_anything_is_emptied(root: Path) -> None:
    with pytest.raises(PipelineError, match=r"several records of t/0 offset 0, of different times"):
        require_one_record_each(RawRecords.of(files_at(root), ["bronze"]), 1000)


def test_one_that_was_read_twice_is_one(tmp_path: Path) -> None:
    for _ in range(2):
        put(tmp_path, "bronze", range(4), BEFORE)
    require_one_record_each(RawRecords.of(files_at(tmp_path), ["bronze"]), 2)
