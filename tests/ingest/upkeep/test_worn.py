"""Large files lose the rows that are marked as gone, though they are brought together with no other."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from tests.ingest.history.kept import BOUNDS, Kept, rule_by
from tests.ingest.merge.test_upsert import COLUMNS, START, row
from tests.ingest.merge.upserted import Upserted, ordered_by
from tests.ingest.upkeep.kept_up import newest
from tests.ingest.upkeep.test_clustered import amid

from distributary.ingest.log_paths import entry_path
from distributary.ingest.merge import live_files
from distributary.ingest.merge.counts import MergeCounts
from distributary.ingest.merge.rule import MergeRule
from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.opening import files_at
from distributary.ingest.tables.handle import opened
from distributary.ingest.tables.known import UPSERT_PROPERTY
from distributary.ingest.tables.log import put_entry
from distributary.ingest.tables.state import state_of
from distributary.ingest.upkeep import written_anew
from distributary.ingest.upkeep.compaction import ATTEMPTS, Compaction
from distributary.ingest.upkeep.worn import bring_together, is_told_wrong

# Each file is as large as one is to be.
LARGE = {"delta.targetFileSize": "1kb"}

_TIME = pa.timestamp("us", "UTC")
HISTORY = [
    ("k", pa.int64()),
    ("v", pa.string()),
    ("at", _TIME),
    *zip(BOUNDS, (_TIME, _TIME, pa.bool_()), strict=True),
]


def replaced(root: Files, partitions: Sequence[str] = ()) -> Upserted:
    """A table of which most rows were replaced, in large files."""
    table = Upserted.made(
        root, COLUMNS, MergeRule(("id",), ordered_by("seq")), properties=LARGE, partitions=partitions
    )
    table.merge([row(key, 1, "ab"[key % 2]) for key in range(40)])
    table.merge([row(key, 2, "ab"[key % 2]) for key in range(30)])
    table.merge([row(0, 3, "a")])
    return table


def kept_up(table: Upserted, **more: Any) -> Compaction:
    return bring_together(table.place, state_of(opened(table.place), table.place), **more)


def marked(table: Upserted) -> dict[str, int]:
    """The files of which rows are marked, and how many."""
    live = live_files.read(table.place, newest(table.place))
    return {name: add["deletionVector"]["cardinality"] for name, add in live if "deletionVector" in add}


def sequences(table: Upserted) -> dict[int, int]:
    return {key: one["seq"] for key, one in table.by_key().items()}


def test_rows_that_are_gone_leave_a_large_file_and_upserts_go_on(root: Files) -> None:
    table = replaced(root)
    before = sequences(table)
    assert sorted(marked(table).values()) == [1, 30]
    assert kept_up(table, dry_run=True).compacted == 1
    done = kept_up(table)
    assert (done.before.files, done.after.files, done.compacted, done.made, done.left) == (3, 3, 1, 1, "")
    assert done.after.bytes < done.before.bytes
    # Of the other file too few are.
    assert list(marked(table).values()) == [1]
    assert sequences(table) == before
    assert table.merge([row(35, 4, "a"), row(36, 0, "b"), row(99, 1, "a")]) == MergeCounts(
        updated=1, older=1, inserted=1
    )
    assert sequences(table) == {**before, 35: 4, 99: 1}


def test_rows_stay_in_their_partitions(tmp_path: Path) -> None:
    table = replaced(files_at(tmp_path), ["v"])
    before = sequences(table)
    assert kept_up(table).compacted == 2
    assert sequences(table) == before
    told = {name: add["partitionValues"] for name, add in live_files.read(table.place, newest(table.place))}
    assert {one["v"] for one in told.values()} == {"a", "b"}
    table.merge([row(35, 4, "b")])
    assert sequences(table) == {**before, 35: 4}


def test_a_merge_in_between_brings_no_row_back_and_the_file_is_written_once_more(tmp_path: Path) -> None:
    table = replaced(files_at(tmp_path))
    before = sequences(table)
    with amid(lambda: table.merge([row(35, 4, "b")])) as looks:
        done = kept_up(table)
    assert (len(looks), done.compacted, done.left) == (2, 1, "")
    assert sequences(table) == {**before, 35: 4}


@pytest.mark.parametrize("key", [34, 35])
def test_a_merge_in_between_counts_for_the_files_that_are_still_to_be_written(
    tmp_path: Path, key: int
) -> None:
    """One of these keys is in the file that comes first, the other in the one behind it."""
    table = replaced(files_at(tmp_path), ["v"])
    before = sequences(table)
    with amid(lambda: table.merge([row(key, 4, "ab"[key % 2])])):
        done = kept_up(table)
    assert (done.compacted, done.left) in [(2, ""), (3, "")]
    assert sequences(table) == {**before, key: 4}
    assert len(table.rows()) == len(before)
    paths = [path for path, _ in as_the_protocol_has_them(table.place)]
    assert sorted(paths) == sorted(name for name, _ in live_files.read(table.place, newest(table.place)))


def test_an_entry_that_took_the_place_of_its_own_counts_for_the_files_that_are_still_to_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Delta's own store on a local file system looks whether a version is there and then renames its entry to it."""
    table = replaced(files_at(tmp_path), ["v"])
    before = sequences(table)
    puts = list[int]()

    def put(place: Files, version: int, actions: Sequence[Mapping[str, Any]]) -> bool:
        puts.append(version)
        if len(puts) > 1:
            return put_entry(place, version, actions)
        # What the other writer marks is in the file that is to be written next.
        key = 35 if actions[1]["remove"]["partitionValues"]["v"] == "a" else 34
        table.merge([row(key, 4, "ab"[key % 2])])
        before[key] = 4
        return True

    monkeypatch.setattr(written_anew, "put_entry", put)
    done = kept_up(table)
    assert sequences(table) == before
    assert (done.compacted, done.left) == (3, "")
    assert len(table.rows()) == len(before)
    paths = [path for path, _ in as_the_protocol_has_them(table.place)]
    assert sorted(paths) == sorted(name for name, _ in live_files.read(table.place, newest(table.place)))


def as_the_protocol_has_them(place: Files) -> set[tuple[str, str]]:
    """A file is another one with each deletion vector. https://github.com/delta-io/delta/blob/master/PROTOCOL.md#action-reconciliation"""
    found = set[tuple[str, str]]()
    for version in range(newest(place) + 1):
        # A file that gets another vector is taken away and added.
        for kind, change in (("remove", found.discard), ("add", found.add)):
            for action in (one[kind] for one in live_files.entry(place, version) if kind in one):
                change((unquote(action["path"]), json.dumps(action.get("deletionVector"))))
    return found


def test_merges_that_never_end_leave_the_file_for_the_next_time(tmp_path: Path) -> None:
    table, keys = replaced(files_at(tmp_path)), iter(range(30, 40))
    with amid(lambda: table.merge([row(next(keys), 4, "b")]), times=100) as looks:
        done = kept_up(table)
    assert (len(looks), done.compacted) == (ATTEMPTS, 0)
    assert done.left.startswith(f"{ATTEMPTS} times a batch changed files")
    assert kept_up(table).compacted == 1


def test_a_table_without_marked_rows_gets_no_version(tmp_path: Path) -> None:
    table = Upserted.made(files_at(tmp_path), COLUMNS, MergeRule(("id",), ordered_by("seq")))
    table.merge([row(1, 1, "a")])
    version = newest(table.place)
    assert kept_up(table).compacted == 0
    assert newest(table.place) == version


def test_keys_behind_the_columns_with_statistics_have_bounds_when_files_were_brought_together(
    root: Files,
) -> None:
    """Without them each batch looks into all of the table."""
    wide = [*((f"c{n}", pa.int32()) for n in range(40)), *COLUMNS]
    told = {UPSERT_PROPERTY: json.dumps({"keys": ["id"], "sequence_by": ["seq"]})}
    table = Upserted.made(root, wide, MergeRule(("id",), ordered_by("seq")), properties=told)
    for first in range(0, 40, 10):
        table.merge([row(key, 1, "a") for key in range(first, first + 10)])
    table.merge([row(7, 2, "b")])
    before = sequences(table)
    assert kept_up(table, dry_run=True).compacted == 5
    done = kept_up(table)
    assert (done.compacted, done.after.files, done.left) == (5, 1, "")
    ((_, add),) = live_files.read(table.place, newest(table.place))
    bounds = json.loads(add["stats"])
    assert [bounds[which]["id"] for which in ("minValues", "maxValues")] == [0, 39]
    assert ("c20" in bounds["nullCount"], "c39" in bounds["nullCount"], "seq" in bounds["nullCount"]) == (
        True,
        False,
        True,
    )
    assert table.merge([row(7, 3, "c"), row(40, 1, "d")]) == MergeCounts(updated=1, inserted=1)
    assert sequences(table) == {**before, 7: 3, 40: 1}
    assert kept_up(table).compacted == 2


FRACTIONS = pa.schema(
    [("n", pa.int64()), ("x", pa.float64()), ("s", pa.struct([("d", pa.decimal128(20, 0))]))]
)
LONG = Decimal(9_007_199_254_740_993)


def with_fractions(place: Files, *files: Sequence[float], partitioned: bool = False) -> None:
    """A table of one file each."""
    for n, values in enumerate(files):
        rows = [{"n": n, "x": value, "s": {"d": LONG}} for value in values]
        write_deltalake(
            place.url,
            pa.Table.from_pylist(rows, FRACTIONS),
            mode="append",
            partition_by=["n"] if partitioned else None,
        )


def brought(place: Files) -> Compaction:
    return bring_together(place, state_of(opened(place), place))


def test_fractions_and_long_decimals_have_no_bound_that_a_row_is_beyond(tmp_path: Path) -> None:
    place = files_at(tmp_path)
    with_fractions(place, [1.0, 2.0], [math.nan], [3.0], [math.nan, -1.0])
    done = brought(place)
    assert (done.compacted, done.made, done.left) == (4, 1, "")
    ((name, add),) = live_files.read(place, newest(place))
    bounds = json.loads(add["stats"], parse_int=Decimal, parse_float=Decimal)
    assert bounds["maxValues"] == {"n": 3, "s": {"d": LONG}}
    assert not pq.read_metadata(tmp_path / name).row_group(0).column(1).is_stats_set
    values = [row["x"] for row in DeltaTable(tmp_path).to_pyarrow_table().to_pylist()]
    assert (len(values), sum(map(math.isnan, values))) == (6, 2)
    # And not once more with each upkeep, though it is as small as two are that are brought together.
    assert brought(place).compacted == 0


# Lighter: test_fractions_and_long_decimals_have_no_bound_that_a_row_is_beyond.
@pytest.mark.spark
@pytest.mark.heavy
def test_spark_finds_the_same_rows_behind_upkeep(spark: Any, tmp_path: Path) -> None:
    place = files_at(tmp_path / "t")
    with_fractions(place, [1.0, 2.0], [math.nan], [3.0], [math.nan, -1.0])
    brought(place)
    frame = spark.read.format("delta").load(place.url)
    asked = ("x > 5", "x = double('NaN')", "x <= 3", f"s.d = {LONG}", f"s.d > {LONG - 1}")
    assert [frame.where(one).count() for one in asked] == [2, 2, 4, 6, 6]


def test_partitions_are_brought_together_each_by_itself_and_columns_of_theirs_do_not_count(
    tmp_path: Path,
) -> None:
    place = files_at(tmp_path)
    with_fractions(place, [1.0], [2.0], partitioned=True)
    with_fractions(place, [3.0], [4.0], partitioned=True)
    assert (brought(place).compacted, len(list(live_files.read(place, newest(place))))) == (4, 2)
    found = DeltaTable(tmp_path).to_pyarrow_table().sort_by("x").to_pylist()
    assert [(one["n"], one["x"]) for one in found] == [(0, 1.0), (1, 2.0), (0, 3.0), (1, 4.0)]


@pytest.mark.parametrize(
    ("properties", "wrong"),
    [
        ({}, False),
        ({UPSERT_PROPERTY: json.dumps({"keys": ["id"], "sequence_by": ["seq"]})}, False),
        (
            {
                UPSERT_PROPERTY: json.dumps({"keys": ["v"], "sequence_by": []}),
                "delta.dataSkippingNumIndexedCols": "4",
            },
            True,
        ),
        (
            {
                UPSERT_PROPERTY: json.dumps({"keys": ["id"], "sequence_by": []}),
                "delta.dataSkippingStatsColumns": "v",
            },
            True,
        ),
        ({"delta.dataSkippingStatsColumns": "v"}, False),
    ],
)
def test_what_delta_rs_tells_well_it_brings_together(
    tmp_path: Path, properties: dict[str, str], wrong: bool
) -> None:
    table = Upserted.made(
        files_at(tmp_path), COLUMNS, MergeRule(("id",), ordered_by("seq")), properties=properties
    )
    assert is_told_wrong(state_of(opened(table.place), table.place)) is wrong


def test_what_delta_rs_cannot_rewrite_is_brought_together_all_the_same(tmp_path: Path) -> None:
    """A field was added within a map's values."""
    for value in ({"a": 1}, {"a": 2, "b": "x"}):
        inside = pa.struct([(name, pa.string() if name == "b" else pa.int64()) for name in value])
        rows = pa.table({"m": pa.array([[("k", value)]], pa.map_(pa.string(), inside))})
        write_deltalake(tmp_path, rows, mode="append", schema_mode="merge")
    place = files_at(tmp_path)
    assert (brought(place).compacted, brought(place).compacted) == (2, 0)
    ((name, _),) = live_files.read(place, newest(place))
    found = pq.read_table(tmp_path / name).column("m").to_pylist()
    assert sorted(found, key=str) == [[("k", {"a": 1, "b": None})], [("k", {"a": 2, "b": "x"})]]


def test_rows_of_many_small_files_are_read_together(tmp_path: Path) -> None:
    """Each row group of a file is read by itself, and tells its own bounds."""
    place = files_at(tmp_path)
    with_fractions(place, *([float(n)] for n in range(12)))
    brought(place)
    ((name, _),) = live_files.read(place, newest(place))
    assert pq.read_metadata(tmp_path / name).num_row_groups == 1


def test_no_entry_goes_behind_a_checkpoint_that_nobody_has_synced(tmp_path: Path) -> None:
    """delta-rs wrote one where its turn had come, though it is told not to, and took away all that was old: a loss of power took the table."""
    told = {"delta.checkpointInterval": "5", "delta.logRetentionDuration": "interval 2 days"}
    for number in range(4):
        write_deltalake(tmp_path, pa.table({"x": [number]}), mode="append", configuration=told)
    entries = sorted((tmp_path / "_delta_log").iterdir())
    for one in entries:
        os.utime(one, (0, 0))
    assert brought(files_at(tmp_path)).after.files == 1
    assert sorted((tmp_path / "_delta_log").iterdir()) == [*entries, tmp_path / entry_path(4)]
    assert sorted(DeltaTable(tmp_path).to_pyarrow_table()["x"].to_pylist()) == [0, 1, 2, 3]


def test_rows_that_ended_stay_apart_from_those_that_are_true(root: Files) -> None:
    """So that a batch whose records are all later looks into none of them."""
    by, keeping = {"keys": ["k"], "sequence_by": ["at"]}, {"ignored": [], "columns": list(BOUNDS), "days": 30}
    told = {UPSERT_PROPERTY: json.dumps({"mode": "history", "by": by, "history": keeping})}
    table = Kept.made(root, HISTORY, rule_by("at"), deletes=True, properties=told)
    assert isinstance(table, Kept)
    for hour in range(6):
        table.merge([event(key, hour, str(hour)) for key in range(hour % 2, 6)])
    before = spans(table)
    done = kept_up(table)
    assert (done.after.files, done.left) == (2, "")
    assert sorted(closed(table)) == [False, True]
    assert spans(table) == before
    table.merge([event(0, 9, "later")])
    assert len(spans(table)) == len(before) + 1
    assert kept_up(table).after.files == 2
    assert sorted(closed(table)) == [False, True]


def spans(table: Kept) -> list[tuple[Any, ...]]:
    """What was true, and from when to when."""
    return sorted((one["k"], one["valid_from"], str(one["valid_to"]), one["v"]) for one in table.rows())


def event(key: int, hour: int, value: str) -> dict[str, Any]:
    at = START + timedelta(hours=hour)
    return {"topic": "t", "partition": 0, "offset": hour, "ts": at, "k": key, "v": value, "at": at}


def closed(table: Kept) -> list[bool]:
    """Of each file in force whether the log says that all of its rows ended."""
    live = live_files.read(table.place, newest(table.place))
    return [json.loads(add["stats"])["nullCount"].get("valid_to") == 0 for _, add in live]
