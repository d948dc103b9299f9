"""Clustered tables that are kept up: narrow bounds, bounded work, rivals amid it, and Spark's own OPTIMIZE between."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from tests.ingest.commits import table_commit
from tests.ingest.e2e.test_tables_readers import files_read
from tests.ingest.history.kept import Kept, rule_by
from tests.ingest.merge.test_upsert import START, row
from tests.ingest.merge.upserted import cleaned_up
from tests.ingest.upkeep.kept_up import at_version, merged, newest, upserted, values

from distributary.ingest import failpoints
from distributary.ingest.clustering.cubes import BY, CUBE, PROVIDER
from distributary.ingest.clustering.domain import clustering_action
from distributary.ingest.columns.clustering import ClusterBy
from distributary.ingest.columns.layout import Layout
from distributary.ingest.erasure.rewriting import Rows, without_rows
from distributary.ingest.failpoints import Failpoint
from distributary.ingest.merge import live_files
from distributary.ingest.merge.counts import MergeCounts
from distributary.ingest.parquet.buffers import TableBuffers
from distributary.ingest.settings.rule_book import TableSpec
from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.opening import files_at
from distributary.ingest.storage.posix import PosixFiles
from distributary.ingest.tables.change import create, evolve
from distributary.ingest.tables.handle import opened
from distributary.ingest.tables.log import entry, newest_version, put_entry
from distributary.ingest.tables.log_commit import NativeCommits
from distributary.ingest.tables.properties import retell
from distributary.ingest.tables.state import state_of
from distributary.ingest.upkeep import written_anew
from distributary.ingest.upkeep.clustered import cluster
from distributary.ingest.upkeep.compaction import ATTEMPTS, Compaction

SCHEMA = pa.schema([("n", pa.int64()), ("x", pa.int32()), ("s", pa.struct([("y", pa.string())]))])
BY_XY = ClusterBy(("x", "s.y"))
SMALL = {"delta.targetFileSize": "3kb"}
COUNT = 400


class Table:
    """A clustered table and its batches."""

    def __init__(self, place: Files, **properties: str) -> None:
        self.place, self.batches = place, 0
        self.root: str | Files = place.url.rpartition("/")[0]
        create(place, SCHEMA, {**SMALL, **properties}, cluster_by=BY_XY)

    def append(self, count: int = COUNT) -> None:
        rng = np.random.default_rng(self.batches)
        name = self.place.url.rpartition("/")[2]
        rows = [
            {"n": self.batches * COUNT + n, "x": int(x), "s": {"y": f"{y:03}"}}
            for n, (x, y) in enumerate(rng.integers(0, 1000, (count, 2)))
        ]
        held = TableBuffers(self.root, "0" * 8, 0, 10**9, lambda _: Layout(SCHEMA))
        held.add(name, pa.RecordBatch.from_pylist(rows, SCHEMA))
        held.close()
        assert NativeCommits().commit(table_commit(self.place, held.files, SCHEMA, "app", self.batches, {}))
        self.batches += 1

    def adds(self) -> list[dict[str, Any]]:
        return [dict(add) for _, add in live_files.read(self.place, newest(self.place))]

    def numbers(self) -> list[int]:
        read = (pq.read_table(pa.BufferReader(self.place.read(one["path"]))) for one in self.adds())
        return sorted(n for rows in read for n in rows.column("n").to_pylist())

    def files_with(self, x: int) -> int:
        """How many files may have a row with this value, as the log says."""
        told = [json.loads(one["stats"]) for one in self.adds()]
        return sum(one["minValues"]["x"] <= x <= one["maxValues"]["x"] for one in told)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    found = Table(files_at(tmp_path / "t"))
    for _ in range(6):
        found.append()
    return found


@contextmanager
def amid(rival: Callable[[], object], times: int = 1) -> Iterator[list[int]]:
    """Inside, somebody does something when files are written and no entry names them."""
    looks = list[int]()

    def late(point: str, version: int) -> None:
        if point == failpoints.AMID_UPKEEP:
            looks.append(version)
            if len(looks) <= times:
                rival()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(failpoints, "reach", late)
        yield looks


def test_files_tell_narrow_bounds_and_who_clustered_them(table: Table) -> None:
    before, rows = [table.files_with(x) for x in range(100, 900, 40)], table.numbers()
    assert set(before) == {6}
    done = cluster(table.place)
    assert (done.before.files, done.compacted, done.left) == (6, 6, "")
    assert done.after.files == done.made >= 6
    assert sum(table.files_with(x) for x in range(100, 900, 40)) / 20 <= done.made / 2
    assert table.numbers() == rows
    adds = table.adds()
    assert {one["clusteringProvider"] for one in adds} == {PROVIDER}
    assert {one["tags"][BY] for one in adds} == {'[["x"],["s","y"]]'}
    assert len({one["tags"][CUBE] for one in adds}) == 1
    actions = entry(table.place, newest(table.place))
    assert not any(one[kind]["dataChange"] for one in actions for kind in one.keys() & {"add", "remove"})
    assert json.loads(actions[0]["commitInfo"]["operationParameters"]["clusterBy"]) == ["x", "s.y"]


def test_what_lies_well_is_not_written_again_and_what_is_new_comes_with_as_much_as_it_is(
    table: Table,
) -> None:
    cluster(table.place)
    well, version = {one["path"] for one in table.adds()}, newest(table.place)
    assert cluster(table.place).compacted == 0
    assert newest(table.place) == version
    table.append(40)
    done = cluster(table.place)
    assert (done.compacted, done.made) == (1, 1)
    assert well < {one["path"] for one in table.adds()}
    table.append(40)
    assert cluster(table.place).compacted == 2
    assert table.numbers() == sorted(
        {*range(6 * COUNT), *range(6 * COUNT, 6 * COUNT + 40), *range(7 * COUNT, 7 * COUNT + 40)}
    )


def test_who_finds_the_log_cleaned_up_beyond_it_looks_again(table: Table) -> None:
    def late() -> None:
        for _ in range(3):
            table.append(40)
        cleaned_up(table)

    with amid(late) as looks:
        done = cluster(table.place)
    assert (len(looks), done.left) == (2, "")
    assert done.after.files == len(table.adds()) == done.made
    assert {one["clusteringProvider"] for one in table.adds()} == {PROVIDER}
    assert table.numbers() == sorted(
        [*range(6 * COUNT), *(n * COUNT + k for n in (6, 7, 8) for k in range(40))]
    )


def test_a_checkpoint_of_the_log_keeps_who_has_clustered_a_file_and_with_which(table: Table) -> None:
    cluster(table.place)
    lie = {(one["clusteringProvider"], *sorted(one["tags"].items())) for one in table.adds()}
    cleaned_up(table)
    assert {(one["clusteringProvider"], *sorted(one["tags"].items())) for one in table.adds()} == lie
    assert state_of(opened(table.place), table.place).clustering == (("x",), ("s", "y"))
    assert cluster(table.place).compacted == 0


def test_a_dry_run_tells_and_changes_nothing(table: Table) -> None:
    before = sorted(table.place.names()), newest(table.place)
    done = cluster(table.place, dry_run=True)
    assert done == Compaction(done.before, done.before, compacted=6, made=done.made)
    assert done.made > 0
    assert (sorted(table.place.names()), newest(table.place)) == before


def test_marked_rows_are_gone_and_merges_go_on_of_a_table_with_one_row_a_key(root: Files) -> None:
    table = upserted(root)
    retell(table.place, TableSpec(cluster_by=ClusterBy(("v", "seq"))))
    done = cluster(table.place)
    assert (done.before.files, done.after.files, done.left) == (5, 1, "")
    assert values(table) == merged()
    ((_, add),) = live_files.read(table.place, newest(table.place))
    assert "deletionVector" not in add
    assert table.merge([row(0, 4, "d"), row(1, 0, "z"), row(99, 1, "new")]) == MergeCounts(
        updated=1, older=1, inserted=1
    )
    assert values(table) == {**merged(), 0: "d", 99: "new"}
    kept = next(
        add for _, add in live_files.read(table.place, newest(table.place)) if "deletionVector" in add
    )
    assert (kept["clusteringProvider"], kept["tags"][CUBE]) == (PROVIDER, add["tags"][CUBE])
    # One row of thirty is not worth it; but the batch's file, which is hardly smaller, takes the other along.
    assert cluster(table.place).compacted == 2
    table.merge([row(key, 9, "e") for key in range(10)])
    assert cluster(table.place).left == ""
    assert values(table) == {**merged(), **dict.fromkeys(range(10), "e"), 99: "new"}
    assert at_version(table.place, newest(table.place)) == 31


def test_a_table_that_keeps_what_was_goes_on_behind_it(tmp_path: Path) -> None:
    columns = [("k", pa.int64()), ("v", pa.string()), ("at", pa.date32())]
    table = Kept.new(tmp_path, columns, rule_by("at"))

    def at(key: int, day: int, v: str) -> dict[str, Any]:
        place = {"topic": "t", "partition": 0, "offset": day, "ts": START}
        return {**place, "k": key, "v": v, "at": START.date().replace(day=day)}

    def said() -> list[tuple[Any, ...]]:
        return sorted((one["k"], one["v"], one["is_current"]) for one in table.rows())

    retell(table.place, TableSpec(cluster_by=ClusterBy(("v", "valid_from"), frozenset({"valid_from"}))))
    table.merge([at(1, 1, "a"), at(2, 1, "a")])
    table.merge([at(1, 3, "c")])
    done = cluster(table.place)
    assert (done.left, done.after.files) == ("", 1)
    assert said() == [(1, "a", False), (1, "c", True), (2, "a", True)]
    # One that comes late ends in the midst of what was sorted.
    assert table.merge([at(1, 2, "b"), at(2, 2, "b")]) == MergeCounts(updated=2)
    assert cluster(table.place).left == ""
    assert said() == [(1, "a", False), (1, "b", False), (1, "c", True), (2, "a", False), (2, "b", True)]


def test_what_is_erased_leaves_files_that_lie_as_well_as_before(tmp_path: Path) -> None:
    table = upserted(files_at(tmp_path))
    retell(table.place, TableSpec(cluster_by=ClusterBy(("v",))))
    cluster(table.place)
    ((_, before),) = live_files.read(table.place, newest(table.place))

    def met(rows: pa.RecordBatch) -> Any:
        return np.array([key in (1, 2) for key in rows.column("id").to_pylist()], dtype=bool)

    assert without_rows(table.place, Rows(frozenset({"id"}), met), "this").rows == 2
    ((_, add),) = live_files.read(table.place, newest(table.place))
    assert (add["clusteringProvider"], add["tags"]) == (PROVIDER, before["tags"])
    assert cluster(table.place).compacted == 0
    assert values(table) == {key: v for key, v in merged().items() if key not in (1, 2)}


def test_a_merge_in_between_brings_no_row_back_and_it_begins_anew(tmp_path: Path) -> None:
    table = upserted(files_at(tmp_path))
    retell(table.place, TableSpec(cluster_by=ClusterBy(("v",))))
    with amid(lambda: table.merge([row(1, 5, "between"), row(99, 1, "new")])) as looks:
        done = cluster(table.place)
    assert (len(looks), done.after.files) == (2, 1)
    assert values(table) == {**merged(), 1: "between", 99: "new"}
    named = {name for name, _ in live_files.read(table.place, newest(table.place))}
    data = {one for one in table.place.names() if one.startswith("part-")}
    assert data == named


def test_merges_that_never_end_leave_the_table_for_the_next_time(tmp_path: Path) -> None:
    table, seq = upserted(files_at(tmp_path)), iter(range(10, 100))
    retell(table.place, TableSpec(cluster_by=ClusterBy(("v",))))
    with amid(lambda: table.merge([row(0, next(seq), "busy")]), times=100) as looks:
        done = cluster(table.place)
    assert len(looks) == ATTEMPTS
    assert done.left.startswith(f"{ATTEMPTS} times a batch changed files")
    assert values(table) == {**merged(), 0: "busy"}


def test_appends_in_between_are_no_rivals_and_other_columns_are(table: Table) -> None:
    def twice() -> None:
        table.append()
        table.append()

    with amid(twice) as looks:
        done = cluster(table.place)
    assert (len(looks), done.compacted) == (1, 6)
    assert table.numbers() == list(range(8 * COUNT))
    with amid(lambda: evolve(table.place, SCHEMA.append(pa.field("more", pa.string())))) as looks:
        assert cluster(table.place).left == ""
    assert len(looks) == 2
    with amid(lambda: retell(table.place, TableSpec(cluster_by=ClusterBy(("n",))))) as looks:
        table.append()
        assert cluster(table.place).left == ""
    assert len(looks) == 2
    assert {one["tags"][BY] for one in table.adds()} == {'[["n"]]'}
    assert table.numbers() == list(range(9 * COUNT))


def test_other_columns_have_all_written_anew_once_and_none_brings_small_files_together(table: Table) -> None:
    cluster(table.place)
    retell(table.place, TableSpec(cluster_by=ClusterBy(("n",))))
    first = cluster(table.place)
    assert first.compacted == first.before.files
    assert cluster(table.place).compacted == 0
    retell(table.place, TableSpec(cluster_by=ClusterBy()))
    assert cluster(table.place).compacted == 0
    for _ in range(3):
        table.append(20)
    done = cluster(table.place)
    assert (done.compacted, done.made, done.left) == (3, 1, "")
    assert sum("clusteringProvider" not in one for one in table.adds()) == 1


def test_death_amid_it_leaves_the_table_as_it_was(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, version = table.numbers(), newest(table.place)
    monkeypatch.setattr(failpoints, "_fired", set())
    monkeypatch.setenv(failpoints.VARIABLE, failpoints.AMID_UPKEEP)
    with pytest.raises(Failpoint):
        cluster(table.place)
    assert (table.numbers(), newest_version(table.place)) == (rows, version)
    assert cluster(table.place).compacted == 6
    assert table.numbers() == rows


def test_new_files_are_synced_before_the_entry_that_names_them(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = list[str]()
    monkeypatch.setattr(PosixFiles, "sync", lambda _, paths: synced.extend(paths))
    cluster(table.place)
    assert synced == [*(one["path"] for one in table.adds()), f"_delta_log/{newest(table.place):020d}.json"]


@pytest.mark.parametrize("by", [("gone",), ("s", "gone"), ("s",)])
@pytest.mark.parametrize("dry_run", [False, True])
def test_a_table_by_what_has_no_order_is_left_with_the_reason(
    table: Table, by: tuple[str, ...], dry_run: bool
) -> None:
    assert put_entry(table.place, newest(table.place) + 1, [clustering_action([("x",), by])])
    done = cluster(table.place, dry_run=dry_run)
    assert done.left.startswith(f"it is clustered by {'.'.join(by)}, which it has not")
    assert table.numbers() == list(range(6 * COUNT))


def test_a_table_that_wants_files_of_no_size_gets_some_of_the_usual_one(tmp_path: Path) -> None:
    table = Table(files_at(tmp_path / "t"), **{"delta.targetFileSize": "0"})
    for _ in range(3):
        table.append(20)
    assert cluster(table.place, dry_run=True).made == 1
    assert cluster(table.place).made == 1


def test_a_table_that_only_spark_may_write_is_left_with_the_reason(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(written_anew, "state_of", _only_sparks)
    assert "only Spark's writer may rewrite its rows (for a test)" in cluster(table.place).left


def _only_sparks(*one: Any) -> Any:
    return replace(state_of(*one), why_not="for a test")


# Lighter: test_files_tell_narrow_bounds_and_who_clustered_them, by which others' files are told from ours.
@pytest.mark.heavy
@pytest.mark.spark
def test_sparks_optimize_and_ours_leave_each_others_files_and_all_rows_stay(
    table: Table, spark: SparkSession
) -> None:
    cluster(table.place)
    ours = {one["path"] for one in table.adds()}
    table.append()
    spark.sql(f"OPTIMIZE delta.`{table.place.url}`").collect()
    by_spark = {one["path"] for one in table.adds()} - ours
    assert ours < {one["path"] for one in table.adds()}
    assert {one.get("clusteringProvider") for one in table.adds()} == {PROVIDER, "liquid"}
    table.append()
    table.append()
    done = cluster(table.place)
    assert (done.compacted, done.left) == (2, "")
    assert by_spark < {one["path"] for one in table.adds()}
    assert table.numbers() == list(range(9 * COUNT))
    frame = spark.read.format("delta").load(table.place.url)
    assert frame.count() == 9 * COUNT
    assert files_read(frame.where("x = 500 and s.y = '500'")) < len(table.adds())


@pytest.mark.spark
def test_spark_takes_a_table_whose_column_is_behind_those_that_it_has_bounds_of(
    tmp_path: Path, spark: SparkSession
) -> None:
    wide = pa.schema([*(pa.field(f"c{n}", pa.int32()) for n in range(40)), ("n", pa.int64())])
    create(tmp_path / "t", wide, {}, cluster_by=ClusterBy(("n",)))
    for n in range(3):
        spark.sql(f"INSERT INTO delta.`{tmp_path / 't'}` (n) VALUES ({n})")  # noqa: S608
    spark.sql(f"OPTIMIZE delta.`{tmp_path / 't'}`").collect()
    assert spark.read.format("delta").load(str(tmp_path / "t")).count() == 3
    assert cluster(files_at(tmp_path / "t")).left == ""
