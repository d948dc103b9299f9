from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from distributary.errors import CommitImpossible
from distributary.ingest.parquet.data_file import DataFile, file_name
from distributary.ingest.storage.opening import files_at
from distributary.ingest.tables import commit
from distributary.ingest.tables.change import create
from distributary.ingest.tables.commit import commit_tables
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
