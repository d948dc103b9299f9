"""Delta's own store on a local file system looks whether a version is there and then renames its entry to it: ours may be replaced."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from tests.ingest.queries import GOLF, Query, batches, one

from distributary.ingest import failpoints
from distributary.ingest.columns.safe_names import BATCHES_TABLE
from distributary.ingest.log_paths import entry_path
from distributary.ingest.storage.contract import Files
from distributary.ingest.tables import log_commit
from distributary.ingest.tables.log import put_entry


def replace_newest(root: Path, table: str) -> None:
    """Another writer's entry takes the place of the newest one, as if it had looked just before that came."""
    newest = max((root / "lake" / table / "_delta_log").glob("*.json"))
    other = newest.with_name("other.tmp")
    other.write_text(json.dumps({"commitInfo": {"operation": "OPTIMIZE", "timestamp": 1}}))
    os.rename(other, newest)


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


def assert_goes_on(root: Path, query: Query, table: str) -> None:
    query.batch(2, one(2))
    assert (rows(root, GOLF), rows(root, BATCHES_TABLE)) == (3, 3)
    assert others(root, table) == 1
    again = Query(root)
    again.resume()
    assert again.done == []
