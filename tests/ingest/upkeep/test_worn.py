"""Large files lose the rows that are marked as gone, though they are brought together with no other."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pytest
from tests.ingest.history.kept import BOUNDS, Kept, rule_by
from tests.ingest.merge.test_upsert import COLUMNS, START, row
from tests.ingest.merge.upserted import Upserted, ordered_by
from tests.ingest.upkeep.kept_up import newest
from tests.ingest.upkeep.test_clustered import amid

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
from distributary.ingest.upkeep.worn import bring_together

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
