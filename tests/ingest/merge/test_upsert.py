from __future__ import annotations

import struct
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from tests.ingest.merge.upserted import Upserted, make, ordered_by

from distributary.errors import CommitImpossible
from distributary.ingest.merge import live_files
from distributary.ingest.merge.counts import MergeCounts
from distributary.ingest.merge.rule import VECTORS, MergeRule

START = datetime(2026, 1, 1, tzinfo=timezone.utc)
COLUMNS = [("id", pa.int64()), ("seq", pa.int64()), ("v", pa.string())]


def row(key: int, seq: int, value: str = "", offset: int = 0, partition: int = 0) -> dict[str, Any]:
    return {
        "topic": "t",
        "partition": partition,
        "offset": offset,
        "ts": START + timedelta(seconds=offset),
        "id": key,
        "seq": seq,
        "v": value,
    }


@pytest.fixture
def table(tmp_path: Path) -> Upserted:
    return Upserted.made(tmp_path, COLUMNS, MergeRule(("id",), ordered_by("seq")))


def values(table: Upserted) -> dict[int, str]:
    return {key: row["v"] for key, row in table.by_key().items()}


def test_a_newer_row_takes_the_place_of_the_one_before(table: Upserted) -> None:
    assert table.merge([row(1, 1, "a"), row(2, 1, "b")]) == MergeCounts(inserted=2)
    assert table.merge([row(2, 2, "c"), row(3, 1, "d")]) == MergeCounts(inserted=1, updated=1)
    assert values(table) == {1: "a", 2: "c", 3: "d"}


def test_an_older_row_changes_nothing_and_is_counted(table: Upserted) -> None:
    table.merge([row(1, 5, "new")])
    assert table.merge([row(1, 4, "old"), row(1, 5, "new")]) == MergeCounts(older=1, duplicate=1)
    assert values(table) == {1: "new"}


def test_within_a_batch_the_newest_wins_whatever_file_it_is_in(table: Upserted) -> None:
    rows = [row(1, seq, str(seq)) for seq in (3, 9, 2, 7)]
    assert table.merge(rows, files=3) == MergeCounts(inserted=1, duplicate=3)
    assert values(table) == {1: "9"}


def test_what_is_no_number_is_one_key_by_whatever_bits_it_is_written(tmp_path: Path) -> None:
    """A processor makes them with the sign, and most languages write them without."""
    columns = [("id", pa.float64()), *COLUMNS[1:]]
    table = Upserted.made(tmp_path, columns, MergeRule(("id",), ordered_by("seq")))
    none = [struct.unpack("<d", bits.to_bytes(8, "little"))[0] for bits in (0x7FF8 << 48, 0xFFF8 << 48)]
    table.merge([{**row(0, 1, "a"), "id": none[0]}])
    assert table.merge([{**row(0, 2, "b"), "id": none[1]}]) == MergeCounts(updated=1)
    both = [{**row(0, seq, str(seq)), "id": none[seq % 2]} for seq in (3, 4)]
    assert table.merge(both) == MergeCounts(updated=1, duplicate=1)
    assert [one["v"] for one in table.rows()] == ["4"]


def test_a_batch_in_which_nothing_is_new_is_in_all_the_same(table: Upserted) -> None:
    table.merge([row(1, 5)])
    part = table.part([row(1, 5)])
    assert table.commit(part) == MergeCounts(older=1)
    assert not table.commits.commit(part)
    assert table.commits.newest(table.place, part.app_id) == part.batch_id


def test_ties_are_decided_by_position(table: Upserted) -> None:
    table.merge([row(1, 5, "first", offset=3)])
    table.merge([row(1, 5, "late", offset=2)])
    table.merge([row(1, 5, "second", offset=4)])
    assert values(table) == {1: "second"}


def test_without_a_sequence_a_key_that_moved_stops_with_the_remedy(tmp_path: Path) -> None:
    table = Upserted.made(tmp_path, COLUMNS, MergeRule(("id",), ordered_by()))
    table.merge([row(1, 0, "a", offset=7)])
    with pytest.raises(
        CommitImpossible, match=r"t/0 at offset 7 and of t/1 at offset 3.*sequence_by.*on_repartition"
    ):
        table.merge([row(1, 0, "b", offset=3, partition=1)])
    assert values(table) == {1: "a"}
    assert len(list(table.place.names())) == 2


def test_a_key_that_moved_is_ordered_by_time_where_that_is_asked_for(tmp_path: Path) -> None:
    table = Upserted.made(tmp_path, COLUMNS, MergeRule(("id",), ordered_by(moved="timestamp")))
    table.merge([row(1, 0, "a", offset=7)])
    assert table.merge([row(1, 0, "b", offset=3, partition=1)]) == MergeCounts(older=1)
    assert table.merge([row(1, 0, "c", offset=8, partition=1)]) == MergeCounts(updated=1)
    assert values(table) == {1: "c"}


@pytest.mark.parametrize("moved", ["stop", "timestamp"])
def test_a_row_that_no_record_made_is_older_than_any_record_of_its_key(tmp_path: Path, moved: str) -> None:
    """As of whoever fills a table with what was true before: nothing says of it which partition it came from."""
    table = Upserted.made(tmp_path, COLUMNS, MergeRule(("id",), ordered_by(moved=moved)))
    table.merge([row(1, 0, "a")])
    by_hand = pa.Table.from_pylist([{"id": key, "v": "by hand"} for key in (2, 3)], table.schema)
    write_deltalake(tmp_path / "players", by_hand, mode="append")
    assert table.merge([row(2, 0, "b", partition=1)]) == MergeCounts(updated=1)
    assert values(table) == {1: "a", 2: "b", 3: "by hand"}
    assert table.merge([row(1, 0, "c", offset=1), row(3, 0, "d")]) == MergeCounts(updated=2)
    assert values(table) == {1: "c", 2: "b", 3: "d"}


def test_files_of_which_no_row_is_left_leave_the_table(table: Upserted) -> None:
    table.merge([row(1, 1), row(2, 1)])
    table.merge([row(1, 2), row(2, 2)])
    table.merge([row(1, 1)])
    names = {Path(add["path"]).name for add in _adds(table)}
    assert len(names) == 1
    assert not any("deletionVector" in add for add in _adds(table))


def _adds(table: Upserted) -> list[Any]:
    return [add for _, add in live_files.read(table.place, table.commits.state(table.place).version)]


def test_a_table_that_takes_appends_alone_is_refused(table: Upserted) -> None:
    table.folder = "others"
    make(table.place, table.schema, {"delta.appendOnly": "true"})
    with pytest.raises(CommitImpossible, match=r"delta\.appendOnly"):
        table.merge([row(1, 1)])


def test_a_table_without_deletion_vectors_is_refused(table: Upserted) -> None:
    table.folder = "others"
    make(table.place, table.schema, {VECTORS: "false"})
    with pytest.raises(CommitImpossible, match=r"delta\.enableDeletionVectors"):
        table.merge([row(1, 1)])
