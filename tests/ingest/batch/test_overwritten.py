"""Delta's own store on a local file system looks whether a version is there and then renames its entry to it: ours may be replaced."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from tests.ingest.queries import GOLF, Query, batches, one

from distributary.errors import PolicyStopped
from distributary.ingest import failpoints
from distributary.ingest.columns.safe_names import BATCHES_TABLE
from distributary.ingest.log_paths import entry_path
from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.opening import files_at
from distributary.ingest.tables import log_commit
from distributary.ingest.tables.log import last_checkpoint, put_entry
from distributary.ingest.tables.log_checkpoint import Committed


def replace_newest(root: Path, table: str) -> None:
    """Another writer's entry takes the place of the newest one, as if it had looked just before that came."""
    newest = max((root / "lake" / table / "_delta_log").glob("*.json"))
    other = newest.with_name("other.tmp")
    other.write_text(json.dumps({"commitInfo": {"operation": "OPTIMIZE", "timestamp": 1}}))
    os.rename(other, newest)


def replace_newest_with_a_row(root: Path, table: str) -> None:
    """The same by an entry that adds a row, that of a file which was there."""
    log = root / "lake" / table / "_delta_log"
    newest = max(log.glob("*.json"))
    add = next(
        json.loads(line)["add"] for line in newest.read_text().splitlines() if line.startswith('{"add"')
    )
    shutil.copy(log.parent / add["path"], log.parent / "theirs.parquet")
    lines = [
        {"commitInfo": {"operation": "OPTIMIZE", "timestamp": 1}},
        {"add": {**add, "path": "theirs.parquet"}},
    ]
    (log / "other.tmp").write_text("\n".join(map(json.dumps, lines)))
    os.rename(log / "other.tmp", newest)


def rows(root: Path, table: str) -> int:
    found: int = DeltaTable(root / "lake" / table).to_pyarrow_table().num_rows
    return found


def others(root: Path, table: str) -> int:
    """How many entries of the other writer a table has."""
    log = (root / "lake" / table / "_delta_log").glob("*.json")
    return sum('"OPTIMIZE"' in path.read_text() for path in log)


@pytest.mark.parametrize("table", [GOLF, BATCHES_TABLE])
def test_a_commit_whose_entry_was_replaced_at_once_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: str
) -> None:
    query = batches(tmp_path, 1)
    left = [table]

    def put(place: Files, version: int, actions: Sequence[Mapping[str, Any]]) -> bool:
        new = put_entry(place, version, actions)
        if left and place.url.endswith(f"/{left[0]}"):
            replace_newest(tmp_path, left.pop())
        return new

    monkeypatch.setattr(log_commit, "put_entry", put)
    query.batch(1, one(1))
    assert not left
    assert (rows(tmp_path, table), others(tmp_path, table)) == (2, 1)
    assert_goes_on(tmp_path, query, table)


@pytest.mark.parametrize("table", [GOLF, BATCHES_TABLE])
def test_a_commit_whose_entry_was_replaced_before_the_next_batch_is_made_again(
    tmp_path: Path, table: str
) -> None:
    query = batches(tmp_path, 2)
    replace_newest(tmp_path, table)
    assert rows(tmp_path, table) == 1
    assert_goes_on(tmp_path, query, table)


def test_a_commit_whose_entry_was_replaced_before_the_ledgers_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = batches(tmp_path, 1)

    def before_ledger(point: str, _: int) -> None:
        if point == failpoints.BEFORE_LEDGER:
            replace_newest(tmp_path, GOLF)

    with monkeypatch.context() as patch:
        patch.setattr(failpoints, "reach", before_ledger)
        query.batch(1, one(1))
    assert rows(tmp_path, GOLF) == 2
    assert_goes_on(tmp_path, query, GOLF)


def test_a_table_that_was_made_anew_is_not_filled_with_the_batch_before(tmp_path: Path) -> None:
    query = batches(tmp_path, 2)
    log = tmp_path / "lake" / GOLF / "_delta_log"
    for version in (0, 1, 2):
        entry = log / entry_path(version).rpartition("/")[2]
        lines = [
            line for line in entry.read_text().splitlines() if '"add"' not in line and '"txn"' not in line
        ]
        entry.unlink()
        entry.write_text("\n".join(lines))
    query.batch(2, one(2))
    assert rows(tmp_path, GOLF) == 1


@pytest.mark.parametrize("when", ["amid it", "behind it"])
def test_of_an_entry_that_was_replaced_no_checkpoint_of_the_log_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """Whoever reads by it would see a commit of ours that is gone, and not theirs: for ever, once entries are cleaned up."""
    query = batches(tmp_path, 1)
    write, left = DeltaTable.create_checkpoint, [GOLF]

    def written(table: DeltaTable) -> None:
        write(table)
        if left and when == "amid it" and table.table_uri.rstrip("/").endswith(f"/{GOLF}"):
            left.clear()
            replace_newest_with_a_row(tmp_path, GOLF)

    with monkeypatch.context() as patch:
        patch.setattr(Committed, "interval", 1)
        patch.setattr(DeltaTable, "create_checkpoint", written)
        query.batch(1, one(1))
        query.native.settle()
    place = files_at(tmp_path / "lake" / GOLF)
    if when == "amid it":
        assert last_checkpoint(place).version != 2
    else:
        assert last_checkpoint(place).version == 2
        replace_newest_with_a_row(tmp_path, GOLF)
    query.batch(2, one(2))
    # That of the other writer, and three of ours.
    assert (rows(tmp_path, GOLF), others(tmp_path, GOLF)) == (4, 1)
    again = Query(tmp_path)
    again.resume()
    assert again.done == []
    assert rows(tmp_path, GOLF) == 4


def test_of_an_entry_that_was_replaced_no_checkpoint_stays_that_a_process_made_which_died(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query, place = batches(tmp_path, 1), files_at(tmp_path / "lake" / GOLF)

    def dies(point: str, _: int) -> None:
        if point == failpoints.BEFORE_LEDGER:
            query.native.settle()
            replace_newest_with_a_row(tmp_path, GOLF)
            raise PolicyStopped("the process dies")

    with monkeypatch.context() as patch, pytest.raises(PolicyStopped):
        patch.setattr(Committed, "interval", 1)
        patch.setattr(failpoints, "reach", dies)
        query.batch(1, one(1))
    assert last_checkpoint(place).version == 2
    Query(tmp_path).resume(one(1))
    assert last_checkpoint(place).version == -1
    # That of the other writer, and two of ours.
    assert (rows(tmp_path, GOLF), others(tmp_path, GOLF)) == (3, 1)


def test_of_the_last_batch_of_a_run_that_a_checkpoint_alone_tells_of_the_entry_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other writer stood still until the run was over: by the checkpoint ours is in, by the entries theirs is."""
    query, place = batches(tmp_path, 1), files_at(tmp_path / "lake" / GOLF)
    with monkeypatch.context() as patch:
        patch.setattr(Committed, "interval", 1)
        query.batch(1, one(1))
        query.native.settle()
    replace_newest_with_a_row(tmp_path, GOLF)
    assert last_checkpoint(place).version == 2
    assert (rows(tmp_path, GOLF), others(tmp_path, GOLF)) == (2, 1)
    Query(tmp_path).resume(one(1))
    # That of the other writer, and two of ours.
    assert (rows(tmp_path, GOLF), others(tmp_path, GOLF)) == (3, 1)
    again = Query(tmp_path)
    again.resume()
    assert again.done == []


def assert_goes_on(root: Path, query: Query, table: str) -> None:
    query.batch(2, one(2))
    assert (rows(root, GOLF), rows(root, BATCHES_TABLE)) == (3, 3)
    assert others(root, table) == 1
    again = Query(root)
    again.resume()
    assert again.done == []
