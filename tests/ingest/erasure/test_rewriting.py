"""Rows that are erased are in no file of their table's newest version; all others are there as they were."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, QueryBuilder
from hypothesis import given
from hypothesis import strategies as st
from tests.ingest.history.kept import Kept, rule_by
from tests.ingest.merge.test_columns import MUCH, much_text
from tests.ingest.merge.test_upsert import START
from tests.ingest.merge.upserted import Upserted, cleaned_up, make, ordered_by, written
from tests.ingest.power import Disk

from distributary.errors import PipelineError
from distributary.ingest.erasure import rewriting
from distributary.ingest.erasure.rewriting import Rows, without_rows
from distributary.ingest.log_paths import entry_path
from distributary.ingest.merge import columns, live_files
from distributary.ingest.merge.counts import MergeCounts
from distributary.ingest.merge.rule import MergeRule
from distributary.ingest.storage.opening import files_at
from distributary.ingest.tables.log import newest_version, put_entry
from distributary.ingest.tables.log_commit import NativeCommits
from distributary.ingest.tables.mending import mend
from distributary.ingest.tables.transaction import ERASURE

COLUMNS = [("id", pa.int64()), ("seq", pa.int64()), ("who", pa.string())]


def who(*names: str) -> Rows:
    def met(rows: pa.RecordBatch) -> Any:
        return np.array([name in names for name in rows.column("who").to_pylist()], dtype=bool)

    return Rows(frozenset({"who"}), met)


def row(key: int, seq: int, name: str | None) -> dict[str, Any]:
    return {"topic": "t", "partition": 0, "offset": seq, "ts": START, "id": key, "seq": seq, "who": name}


def made(root: Path, partitions: Sequence[str] = ()) -> Upserted:
    return Upserted.made(root, COLUMNS, MergeRule(("id",), ordered_by("seq")), partitions=partitions)


def said(table: Upserted) -> list[tuple[int, str | None]]:
    return sorted((one["id"], one["who"]) for one in table.rows())


def in_files(table: Upserted) -> set[str]:
    """All names in the files of the newest version, whether a reader sees them or not."""
    version = newest_version(table.place)
    assert version is not None
    found: set[str] = set()
    for name, add in live_files.read(table.place, version):
        rows = pq.read_table(io.BytesIO(table.place.read(name)))
        found |= (
            set(rows["who"].to_pylist()) if "who" in rows.column_names else {add["partitionValues"]["who"]}
        )
    return found - {None}


def test_rows_leave_their_files_those_that_nobody_sees_too(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.merge([row(1, 1, "ann"), row(2, 1, "bob"), row(3, 1, "ann"), row(4, 1, "cy")])
    table.merge([row(1, 2, "dee"), row(4, 2, "ann")])
    assert in_files(table) == {"ann", "bob", "cy", "dee"}
    done = without_rows(table.place, who("ann"), "this")
    assert (done.rows, done.hidden, done.files) == (3, 1, 2)
    assert said(table) == [(1, "dee"), (2, "bob")]
    # What was only marked as gone in files that are written anew has gone, too.
    assert in_files(table) == {"bob", "dee"}
    assert without_rows(table.place, who("ann"), "again").version is None


def test_of_a_row_group_no_more_is_read_at_once_than_memory_is_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others write a million rows as one; what is told of those that go was read of all of them first."""
    table, told = made(tmp_path), list[pa.Table]()
    table.merge([row(key, 1, "ann" if key % 2 else "bob") for key in range(10)])
    table.merge([row(3, 2, "dee")])
    monkeypatch.setattr(columns, "_ROWS_AT_ONCE", 4)
    whole = columns.DataColumns.table

    def of_few(file: columns.DataColumns, group: int, wanted: pa.Schema) -> pa.Table:
        found = whole(file, group, wanted)
        assert len(found) <= 4
        return found

    monkeypatch.setattr(columns.DataColumns, "table", of_few)
    without_rows(table.place, replace(who("ann"), told=("id",), keep=told.append), "this")
    assert [one["id"].to_pylist() for one in told] == [[1, 5, 7, 9]]
    assert said(table) == [(0, "bob"), (2, "bob"), (3, "dee"), (4, "bob"), (6, "bob"), (8, "bob")]


def test_a_file_of_which_no_row_is_left_is_in_no_version_any_more(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.merge([row(1, 1, "ann"), row(2, 1, "ann")])
    done = without_rows(table.place, who("ann"), "this")
    assert (done.rows, done.files) == (2, 1)
    assert said(table) == []
    entry = live_files.entry(table.place, done.version or 0)
    assert [kind for one in entry for kind in one] == ["commitInfo", "remove"]
    info = entry[0]["commitInfo"]
    assert (info["operation"], info[ERASURE]) == ("DELETE", "this")
    assert "ann" not in json.dumps(info)


def test_a_dry_run_counts_and_changes_nothing(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.merge([row(1, 1, "ann"), row(2, 1, "bob")])
    before = list(table.place.names())
    done = without_rows(table.place, who("ann"), "this", dry_run=True)
    assert (done.rows, done.files, done.version) == (1, 1, None)
    assert list(table.place.names()) == before
    assert said(table) == [(1, "ann"), (2, "bob")]


def test_batches_go_on_over_files_that_were_written_anew(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.merge([row(key, 1, "ann" if key % 2 else "bob") for key in range(6)])
    without_rows(table.place, who("ann"), "this")
    assert table.merge([row(0, 2, "eve"), row(2, 0, "late"), row(7, 1, "new")]) == MergeCounts(
        inserted=1, updated=1, older=1
    )
    assert said(table) == [(0, "eve"), (2, "bob"), (4, "bob"), (7, "new")]
    delta = QueryBuilder().register("t", DeltaTable(tmp_path / table.folder))
    assert pa.table(delta.execute("SELECT id FROM t WHERE id > 3 ORDER BY id"))["id"].to_pylist() == [4, 7]


@pytest.mark.parametrize("by", [("who",), ("id",)])
def test_tables_in_partitions(tmp_path: Path, by: tuple[str, ...]) -> None:
    table = made(tmp_path, by)
    table.merge([row(1, 1, "ann"), row(2, 1, "bob"), row(3, 1, None)])
    assert without_rows(table.place, who("ann"), "this").rows == 1
    assert said(table) == [(2, "bob"), (3, None)]
    assert in_files(table) == {"bob"}


@pytest.mark.parametrize("by", [(), ("who",)])
def test_what_is_true_of_all_rows_whatever_their_columns_say_takes_all(
    by: tuple[str, ...], tmp_path: Path
) -> None:
    """As `1 = 1` is, which names no column."""
    table = made(tmp_path, by)
    table.merge([row(1, 1, "ann"), row(2, 1, "bob"), row(3, 1, None)])
    every = Rows(frozenset(), lambda rows: np.ones(rows.num_rows, dtype=bool))
    assert without_rows(table.place, every, "this").rows == 3
    assert said(table) == []


def test_files_from_before_a_column_came(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.merge([row(1, 1, "ann"), row(2, 1, "bob")])
    file = written(table.root, table.folder, pa.table({"id": pa.array([9], pa.int64())}), 7)
    add = {
        "path": file.name,
        "partitionValues": {},
        "size": file.bytes,
        "modificationTime": 0,
        "dataChange": True,
    }
    assert put_entry(table.place, 2, [{"add": {**add, "stats": file.statistics}}])
    assert without_rows(table.place, who("ann"), "this").files == 1
    assert said(table) == [(2, "bob"), (9, None)]


def test_a_column_that_somebody_gave_the_table_with_dots_in_its_name_keeps_its_values(tmp_path: Path) -> None:
    columns = [*COLUMNS, ("tel.no", pa.string())]
    table = Upserted.made(tmp_path, columns, MergeRule(("id",), ordered_by("seq")))
    table.merge([{**row(key, 1, "ann" if key == 1 else "bob"), "tel.no": f"+{key}"} for key in (1, 2)])
    assert without_rows(table.place, who("ann"), "this").rows == 1
    assert [(one["id"], one["tel.no"]) for one in table.rows()] == [(2, "+2")]


def test_a_rival_that_was_first_keeps_its_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(tmp_path)
    table.merge([row(1, 1, "ann"), row(2, 1, "bob")])
    put, rivals = put_entry, [[row(2, 2, "ann"), row(3, 1, "cy")], [row(4, 1, "ann")]]

    def later(*given: Any) -> bool:
        if rivals:
            table.merge(rivals.pop(0))
        return put(*given)

    monkeypatch.setattr(rewriting, "put_entry", later)
    done = without_rows(table.place, who("ann"), "this")
    assert said(table) == [(3, "cy")]
    assert in_files(table) == {"cy"}
    assert done.rows == 3


def test_where_others_are_first_each_time_it_fails_and_rows_are_not_merely_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = made(tmp_path)
    table.merge([row(1, 1, "ann"), row(2, 1, "bob")])
    put, seq = put_entry, count(2)

    def later(*given: Any) -> bool:
        table.merge([row(2, next(seq), "bob")])
        return put(*given)

    monkeypatch.setattr(rewriting, "put_entry", later)
    monkeypatch.setattr(rewriting, "ATTEMPTS", 3)
    with pytest.raises(PipelineError, match="3 times another writer was first"):
        without_rows(table.place, who("ann"), "this")
    assert said(table) == [(1, "ann"), (2, "bob")]


def test_fields_of_a_struct_are_looked_at_that_has_more_text_than_one_array_has_room_for() -> None:
    ids = iter(much_text()["id"].to_numpy().reshape(2, MUCH))
    texts = (pa.StructArray.from_arrays([next(ids), one], ["id", "v"]) for one in much_text()["v"].chunks)
    rows = pa.table({"who": pa.chunked_array(list(texts))})

    class Much:
        """An open file."""

        def parts(self, _: int, columns: pa.Schema) -> Iterator[pa.Table]:
            yield rows.select(columns.names)

    def met(some: pa.RecordBatch) -> Any:
        return some["who"].field("id").to_numpy() % MUCH == 7

    much: Any = Much()
    found = rewriting._met(much, 0, rows.schema, Rows(frozenset({"who"}), met))
    assert np.flatnonzero(found).tolist() == [7, MUCH + 7]


def test_rows_go_though_another_entry_took_the_place_of_the_one_by_which_they_went(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Delta's own store on a local file system looks whether a version is there and then renames its entry to it."""
    table = made(tmp_path)
    table.merge([row(1, 1, "ann"), row(2, 1, "bob")])

    def replaced(place: Any, version: int, actions: Any) -> bool:
        monkeypatch.setattr(rewriting, "put_entry", put_entry)
        new = put_entry(place, version, actions)
        place.put(entry_path(version), b'{"commitInfo":{"timestamp":1,"operation":"OTHER"}}\n')
        return new

    monkeypatch.setattr(rewriting, "put_entry", replaced)
    done = without_rows(table.place, who("ann"), "this")
    assert (done.rows, done.version) == (1, 3)
    assert in_files(table) == {"bob"}


def test_rows_go_though_the_log_was_cleaned_up_while_files_were_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = made(tmp_path)
    table.merge([row(1, 1, "ann"), row(2, 1, "bob")])

    def late(*given: Any) -> bool:
        monkeypatch.setattr(rewriting, "put_entry", put_entry)
        for key in (3, 4, 5):
            table.merge([row(key, 1, "cy")])
        cleaned_up(table)
        return put_entry(*given)

    monkeypatch.setattr(rewriting, "put_entry", late)
    assert without_rows(table.place, who("ann"), "this").version == 5
    assert in_files(table) == {"bob", "cy"}


@pytest.mark.parametrize(
    ("properties", "why"),
    [
        ({"delta.appendOnly": "true"}, "it lets nobody take rows away"),
        ({"delta.constraints.some": "id > 0"}, "only Spark's writer may rewrite its rows"),
    ],
)
def test_a_table_that_takes_no_such_entry_is_left_with_the_reason(
    tmp_path: Path, properties: dict[str, str], why: str
) -> None:
    schema = pa.schema(COLUMNS)
    make(tmp_path / "t", schema, properties)
    done = without_rows(files_at(tmp_path / "t"), who("ann"), "this")
    assert why in done.left
    assert done.version is None


def test_a_table_that_keeps_what_was_goes_on_without_those_rows(tmp_path: Path) -> None:
    columns = [("k", pa.int64()), ("v", pa.string()), ("who", pa.string()), ("at", pa.date32())]
    table = Kept.new(tmp_path, columns, rule_by("at"))

    def at(key: int, day: int, v: str, name: str) -> dict[str, Any]:
        place = {"topic": "t", "partition": 0, "offset": day, "ts": START}
        return {**place, "k": key, "v": v, "who": name, "at": START.date().replace(day=day)}

    table.merge([at(1, 1, "a", "ann"), at(1, 3, "b", "ann"), at(2, 1, "a", "bob")])
    done = without_rows(table.place, who("ann"), "this")
    assert (done.rows, done.hidden) == (3, 1)
    assert table.merge([at(2, 2, "b", "bob")]) == MergeCounts(updated=1)
    assert sorted((one["who"], one["v"], one["is_current"]) for one in table.rows()) == [
        ("bob", "a", False),
        ("bob", "b", True),
    ]


NAMES = st.sampled_from(["ann", "bob", "cy", None])


@given(
    batches=st.lists(
        st.lists(st.tuples(st.integers(0, 5), NAMES), min_size=1, max_size=8), min_size=1, max_size=5
    ),
    gone=st.sets(st.sampled_from(["ann", "bob", "cy"])),
    by=st.sampled_from([(), ("who",)]),
)
def test_whatever_came_before(
    batches: Sequence[Sequence[tuple[int, str | None]]], gone: set[str], by: Sequence[str]
) -> None:
    with TemporaryDirectory() as folder:
        table, seq = made(Path(folder), by), 0
        for batch in batches:
            table.merge([row(key, seq := seq + 1, name) for key, name in batch])
        before = said(table)
        without_rows(table.place, who(*gone), "this")
        assert said(table) == [one for one in before if one[1] not in gone]
        assert not in_files(table) & gone


@pytest.mark.parametrize("lines", [1, 2, 3, 4])
def test_an_erasure_of_whose_entry_any_line_was_lost_takes_nobody_elses_rows(
    tmp_path: Path, lines: int
) -> None:
    table = made(tmp_path)
    table.merge([row(1, 1, "ann"), row(2, 1, "bob"), row(3, 1, "cy"), row(4, 1, "dee")], files=2)
    done = without_rows(table.place, who("ann", "bob"), "this").version
    assert done is not None
    path = Path(table.place.url) / entry_path(done)
    whole = path.read_bytes().splitlines(keepends=True)
    assert len(whole) == 5
    path.write_bytes(b"".join(whole[:lines]))
    assert mend(table.place, lambda _, number: number <= table.batch) == [done]
    assert said(table) == [(1, "ann"), (2, "bob"), (3, "cy"), (4, "dee")]


@pytest.mark.parametrize("seed", range(12))
def test_rows_that_were_erased_stay_away_when_the_power_fails_amid_the_batch_that_brought_them(
    tmp_path: Path, seed: int
) -> None:
    table = made(tmp_path)
    table.merge([row(1, 1, "ann"), row(2, 1, "bob")])
    disk = Disk((tmp_path,))
    with disk.watched():
        decided = table.decided([row(3, 1, "ann"), row(4, 1, "cy")])
        table.root.sync([f"{table.folder}/{file.name}" for file in decided.files])
        # Its entry is safe once all other tables have theirs, and until then an erasure comes.
        assert table.commits.commit(decided)
        assert without_rows(table.place, who("ann"), "this").rows == 2
    disk.fail(random.Random(seed))
    mend(table.place, lambda _, number: number < table.batch)
    NativeCommits().commit(replace(decided, fresh=False))
    assert said(table) == [(2, "bob"), (4, "cy")]
