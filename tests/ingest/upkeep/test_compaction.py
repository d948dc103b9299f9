from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, QueryBuilder, write_deltalake
from hypothesis import given
from hypothesis import strategies as st
from tests.ingest.merge.test_upsert import row
from tests.ingest.merge.upserted import Upserted
from tests.ingest.upkeep.kept_up import amid_compaction, merged, newest, upserted, values

from distributary.ingest.merge import live_files
from distributary.ingest.merge.counts import MergeCounts
from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.opening import files_at
from distributary.ingest.storage.posix import PosixFiles
from distributary.ingest.tables.handle import opened
from distributary.ingest.upkeep.compaction import Compaction, Size, compact, packed, target_bytes


@pytest.fixture
def table(tmp_path: Path) -> Upserted:
    return upserted(files_at(tmp_path))


def test_marked_rows_are_gone_from_the_new_file_and_upserts_go_on(root: Files) -> None:
    table = upserted(root)
    done = compact(table.place)
    assert (done.before.files, done.after.files, done.left) == (5, 1, "")
    assert (done.compacted, done.made) == (5, 1)
    assert done.after.bytes < done.before.bytes
    assert values(table) == merged()
    ((_, add),) = _live(table.place)
    assert "deletionVector" not in add
    assert table.merge([row(0, 4, "d"), row(1, 0, "z"), row(99, 1, "new")]) == MergeCounts(
        updated=1, older=1, inserted=1
    )
    assert values(table) == {**merged(), 0: "d", 99: "new"}


def _live(place: Files) -> list[tuple[str, Any]]:
    return list(live_files.read(place, newest(place)))


def test_a_merge_in_between_brings_no_row_back_and_the_compaction_begins_anew(root: Files) -> None:
    table = upserted(root)
    with amid_compaction(lambda: table.merge([row(1, 5, "between"), row(99, 1, "new")])) as looks:
        done = compact(table.place)
    assert len(looks) == 2
    assert done.after.files == 1
    assert values(table) == {**merged(), 1: "between", 99: "new"}


def test_a_merge_that_marks_no_row_of_what_is_brought_together_is_no_rival(table: Upserted) -> None:
    with amid_compaction(lambda: table.merge([row(99, 1, "new")])) as looks:
        done = compact(table.place)
    assert (len(looks), done.after.files) == (1, 2)
    assert values(table) == {**merged(), 99: "new"}


def test_merges_that_never_end_leave_the_table_for_the_next_time(table: Upserted) -> None:
    before, seq = newest(table.place), iter(range(10, 100))
    with amid_compaction(lambda: table.merge([row(0, next(seq), "busy")]), times=100) as looks:
        done = compact(table.place)
    assert (
        done.left
        == f"{len(looks)} times a batch changed files while they were brought together; the next time will do"
    )
    assert newest(table.place) == before + len(looks)
    assert values(table) == {**merged(), 0: "busy"}
    assert (done.compacted, done.made) == (0, 0)


def test_a_dry_run_tells_and_changes_nothing(table: Upserted) -> None:
    before = sorted(table.place.names()), newest(table.place)
    done = compact(table.place, dry_run=True)
    assert done == Compaction(done.before, done.before, compacted=5, made=1)
    assert (sorted(table.place.names()), newest(table.place)) == before


def test_a_table_with_nothing_to_bring_together_gets_no_version(tmp_path: Path) -> None:
    write_deltalake(tmp_path, pa.table({"x": [1]}))
    done = compact(files_at(tmp_path))
    assert (done.compacted, done.left, newest(files_at(tmp_path))) == (0, "", 0)
    # Each is larger than half of what a file may be.
    write_deltalake(tmp_path, pa.table({"x": [2]}), mode="append")
    size = max(done.before.bytes, 1)
    opened(tmp_path).alter.set_table_properties({"delta.targetFileSize": str(size + 1)})
    assert compact(files_at(tmp_path)).compacted == 0
    assert newest(files_at(tmp_path)) == 2


def test_files_have_the_bounds_of_when_they_came_until_they_are_brought_together(tmp_path: Path) -> None:
    """A dataset of delta-rs' finds no row in a file that lacks bounds of a column, as docs/how-to/read-tables-together.md says; who asks it otherwise does."""
    rows, indexed = pa.table({"a": [1, 2], "b": [1, 2]}), "delta.dataSkippingNumIndexedCols"
    write_deltalake(tmp_path, rows, configuration={indexed: "1"})
    DeltaTable(tmp_path).alter.set_table_properties({indexed: "-1"})
    write_deltalake(tmp_path, rows, mode="append")

    def found() -> tuple[int, int]:
        handle = DeltaTable(tmp_path)
        query = QueryBuilder().register("t", handle).execute("SELECT * FROM t WHERE b = 1").read_all()
        return handle.to_pyarrow_dataset().count_rows(filter=pc.field("b") == 1), query.num_rows

    assert found() == (1, 2)
    compact(files_at(tmp_path))
    assert found() == (2, 2)


def test_a_table_of_sparks_alone_is_left_with_the_reason(tmp_path: Path) -> None:
    for number in range(2):
        write_deltalake(
            tmp_path, pa.table({"day": [7], "x": [number + 1]}), mode="append", partition_by=["day"]
        )
    DeltaTable(tmp_path).alter.add_constraint({"positive": "x > 0"})
    done = compact(files_at(tmp_path))
    assert "only Spark's writer may rewrite its rows (CHECK constraint positive)" in done.left


def test_rows_that_delta_rs_cannot_rewrite_are_left_and_none_is_quoted(tmp_path: Path) -> None:
    for value in ({"a": 1}, {"a": 1, "secret": "x"}):
        inside = pa.struct([(name, pa.string() if name == "secret" else pa.int64()) for name in value])
        rows = pa.table({"m": pa.array([[("k", value)]], pa.map_(pa.string(), inside))})
        write_deltalake(tmp_path, rows, mode="append", schema_mode="merge")
    done = compact(files_at(tmp_path))
    assert done.left == "delta-rs cannot rewrite its rows (DeltaError); Spark's OPTIMIZE may"
    assert (done.after, newest(files_at(tmp_path))) == (done.before, 1)


def test_no_checkpoint_is_written_that_nobody_syncs_and_no_entry_goes(table: Upserted) -> None:
    entries = set(table.place.names("_delta_log"))
    compact(table.place)
    assert set(table.place.names("_delta_log")) == entries | {f"{newest(table.place):020d}.json"}


def test_the_new_file_is_synced_with_its_entry(table: Upserted, monkeypatch: pytest.MonkeyPatch) -> None:
    synced = list[str]()
    monkeypatch.setattr(PosixFiles, "sync", lambda _, paths: synced.extend(paths))
    compact(table.place)
    ((name, _),) = _live(table.place)
    assert synced == [name, f"_delta_log/{newest(table.place):020d}.json"]


@given(st.lists(st.integers(0, 300), max_size=40), st.integers(1, 200))
def test_what_is_packed_fits_and_two_that_fit_one_file_are_packed(sizes: list[int], target: int) -> None:
    bins = packed(sizes, target)
    assert all(len(one) > 1 and sum(one) <= target for one in bins)
    smallest = sorted(size for size in sizes if size < target)[:2]
    assert bool(bins) == (len(smallest) == 2 and sum(smallest) <= target)
    left = list(sizes)
    for size in (size for one in bins for size in one):
        left.remove(size)


@pytest.mark.parametrize(
    ("told", "size"),
    [("", 128 * 2**20), ("104857600", 104857600), ("64mb", 64 * 2**20), ("2GB", 2 * 2**30), ("5k", 5120)],
)
def test_a_table_says_how_large_its_files_become(told: str, size: int) -> None:
    assert target_bytes({"delta.targetFileSize": told}) == size


def test_sizes_are_summed() -> None:
    assert Size.of([1, 2, 3]) == Size(3, 6)
