from __future__ import annotations

import json
import os
import shutil
import threading
from dataclasses import replace
from errno import EIO
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from tests.ingest.power import Disk

from distributary.errors import CommitImpossible
from distributary.ingest.log_paths import LOG, entry_path
from distributary.ingest.parquet.data_file import DataFile, file_name
from distributary.ingest.storage.opening import files_at
from distributary.ingest.storage.posix import PosixFiles
from distributary.ingest.tables import commit
from distributary.ingest.tables.change import create, evolve
from distributary.ingest.tables.commit import commit_tables, make_lasting
from distributary.ingest.tables.log_commit import NativeCommits
from distributary.ingest.tables.transaction import TableCommit, Transaction

SCHEMA = pa.schema([("a", pa.int64())])


def one(root: Path, name: str, made: bool = True) -> TableCommit:
    path = root / name
    if made:
        create(path, SCHEMA, {})
    path.mkdir(exist_ok=True)
    file = path / file_name("0" * 32, 3)
    pq.write_table(pa.table({"a": [1]}, SCHEMA), file)
    data = DataFile(name, file.name, 1, file.stat().st_size, '{"numRecords":1}')
    return TableCommit(
        name, files_at(path), (data,), SCHEMA, Transaction("app/events", 3, {"k": "v"}), native=True
    )


def test_all_tables_are_committed_and_a_repeat_changes_nothing(tmp_path: Path) -> None:
    commits = [one(tmp_path, f"t{i}") for i in range(20)]
    assert commit_tables(None, commits, 4) == {f"t{i}": True for i in range(20)}
    assert commit_tables(None, commits, 4) == {f"t{i}": False for i in range(20)}
    assert all(DeltaTable(commit.place.url).version() == 1 for commit in commits)


def test_each_table_is_told_of_in_the_callers_thread(tmp_path: Path) -> None:
    told: list[tuple[str, int]] = []
    commits = [one(tmp_path, f"t{i}") for i in range(5)]
    commit_tables(None, commits, 4, lambda commit: told.append((commit.table, threading.get_ident())))
    assert sorted(told) == [(f"t{i}", threading.get_ident()) for i in range(5)]


def test_one_failure_keeps_no_other_table_from_its_commit(tmp_path: Path) -> None:
    commits = [one(tmp_path, "gone1", made=False), one(tmp_path, "t"), one(tmp_path, "gone2", made=False)]
    with pytest.raises(CommitImpossible) as caught:
        commit_tables(None, commits, 1)
    assert "gone1 cannot take" in str(caught.value) and "gone2 cannot take" in str(caught.value)
    assert DeltaTable(tmp_path / "t").version() == 1


def test_what_can_never_succeed_is_told_before_what_may(tmp_path: Path) -> None:
    by_writer = one(tmp_path, "t")
    transient = replace(by_writer, native=False)
    with pytest.raises(CommitImpossible):
        commit_tables(None, [transient, one(tmp_path, "gone", made=False)], 1)
    with pytest.raises(ValueError, match="no Spark session"):
        commit_tables(None, [transient], 1)


def test_a_table_that_spark_cannot_write_to_is_named_for_whoever_decides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> bool:
        raise CommitImpossible("this session has no Delta")

    monkeypatch.setattr(commit, "commit_by_writer", refuse)
    session = cast("SparkSession", SimpleNamespace(newSession=lambda: None))
    with pytest.raises(CommitImpossible, match="no Delta") as caught:
        commit_tables(session, [replace(one(tmp_path, "t"), native=False)], 1)
    assert caught.value.tables == ("t",)


def test_an_error_of_the_callback_ends_the_work_and_a_repeat_finishes_it(tmp_path: Path) -> None:
    def crash(_commit: TableCommit) -> None:
        raise KeyError("crash")

    commits = [one(tmp_path, f"t{i}") for i in range(30)]
    with pytest.raises(KeyError, match="crash"):
        commit_tables(None, commits, 1, crash)
    done = commit_tables(None, commits, 4)
    assert set(done) == {f"t{i}" for i in range(30)}
    assert False in done.values()
    assert all(DeltaTable(commit.place.url).to_pyarrow_table().num_rows == 1 for commit in commits)


def grown(root: Path, name: str) -> TableCommit:
    """A batch that brings a column to a table which has the batch before it, once it was decided."""
    first = one(root, name)
    commit_tables(None, [first], 1)
    wider = SCHEMA.append(pa.field("b", pa.string()))
    evolve(first.place, wider)
    file = root / name / file_name("0" * 32, 4)
    pq.write_table(pa.table({"a": [2], "b": ["x"]}, wider), file)
    data = DataFile(name, file.name, 1, file.stat().st_size, '{"numRecords":1}')
    told = Transaction("app/events", 4, {"k": "v"})
    return replace(first, files=(data,), schema=wider, transaction=told)


def test_columns_whose_entry_another_writers_took_the_place_of_once_a_batch_was_decided_are_given_again(
    tmp_path: Path,
) -> None:
    """As Spark's own store does it in a folder where it stood still: nothing but a decision of somebody's would help else."""
    batch = grown(tmp_path, "t")
    theirs = {"commitInfo": {"operation": "OPTIMIZE", "timestamp": 1}}
    batch.place.put(entry_path(2), json.dumps(theirs).encode())
    assert commit_tables(None, [batch], 1) == {"t": True}
    found = DeltaTable(batch.place.url).to_pyarrow_table().sort_by("a").to_pylist()
    assert found == [{"a": 1, "b": None}, {"a": 2, "b": "x"}]


def test_another_table_in_the_place_of_one_is_given_no_columns(tmp_path: Path) -> None:
    batch = grown(tmp_path, "t")
    shutil.rmtree(tmp_path / "t" / LOG)
    create(tmp_path / "t", SCHEMA, {})
    with pytest.raises(CommitImpossible, match="b"):
        commit_tables(None, [batch], 1)
    assert DeltaTable(batch.place.url).version() == 0


class Synced:
    """What a folder is asked to sync."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.files: list[str] = []
        self.folders: list[str] = []
        monkeypatch.setattr(PosixFiles, "sync", lambda _, paths: self.files.extend(paths))
        monkeypatch.setattr(PosixFiles, "sync_folders", lambda _, folders: self.folders.extend(folders))


def later(commit: TableCommit, batch_id: int, app_id: str = "app/events") -> TableCommit:
    """The next batch, or another pipeline's, to the same table."""
    of = one(Path(commit.place.url).parent, commit.table, made=False)
    return replace(of, transaction=Transaction(app_id, batch_id, {"k": "v"}))


def lasting(tmp_path: Path, native: NativeCommits, *commits: TableCommit) -> list[TableCommit]:
    for each in commits:
        commit_tables(None, [each], 4, native=native)
    return make_lasting(files_at(tmp_path), commits[-1:], native)


def test_a_commit_lasts_with_those_of_fellow_pipelines_behind_which_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    native, synced, first = NativeCommits(), Synced(monkeypatch), one(tmp_path, "t")
    assert lasting(tmp_path, native, first) == []
    # Another pipeline may have made the table a moment ago.
    assert synced.files == [f"t/{entry_path(1)}", f"t/{entry_path(0)}"]
    synced.files.clear()
    assert lasting(tmp_path, native, later(first, 9, "other/events"), later(first, 4)) == []
    assert (synced.files, synced.folders) == ([f"t/{entry_path(3)}", f"t/{entry_path(2)}"], [])


@pytest.mark.parametrize("refused", range(1, 5))
def test_a_fellow_s_entry_that_a_disk_refused_is_written_again_by_who_was_told(
    tmp_path: Path, refused: int
) -> None:
    """Whoever asks a second time is told that the disk has it: the fellow himself, too."""
    theirs = one(tmp_path, "t")
    mine, fellow, me = later(theirs, 0, "other/events"), NativeCommits(), NativeCommits()
    disk = Disk((tmp_path,), refuses_at=refused)
    with disk.watched():
        commit_tables(None, [theirs], 1, native=fellow)
        with pytest.raises(OSError, match=os.strerror(EIO)):
            lasting(tmp_path, me, mine)
        done = commit_tables(None, [mine], 1, native=me)
        make_lasting(files_at(tmp_path), [mine], me, [table for table, new in done.items() if not new])
        make_lasting(files_at(tmp_path), [theirs], fellow)
    assert [path.name for path in disk.unsafe() if path.parent.name == LOG] == []


def test_a_commit_lasts_with_all_that_others_wrote_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    native, synced, first = NativeCommits(), Synced(monkeypatch), one(tmp_path, "t")
    lasting(tmp_path, native, first, later(first, 4))
    synced.files.clear()
    DeltaTable(tmp_path / "t").optimize.compact()
    assert lasting(tmp_path, native, later(first, 5)) == []
    assert (synced.files, synced.folders) == ([f"t/{entry_path(4)}"], ["t"])


def test_a_commit_whose_entry_is_another_by_now_is_told_and_a_table_that_spark_alone_opens_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    native, first = NativeCommits(), one(tmp_path, "t")
    commit_tables(None, [first], 4, native=native)
    (tmp_path / "t" / entry_path(1)).write_text('{"commitInfo":{"timestamp":1}}')
    assert make_lasting(files_at(tmp_path), [first, one(tmp_path, "by spark")], native) == [first]
