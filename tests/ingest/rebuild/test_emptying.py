"""A table is emptied once by each reset, by one entry; its columns, transactions and older versions stay."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from tests.ingest.merge.test_upsert import START
from tests.ingest.merge.upserted import Upserted, ordered_by

from distributary.ingest import failpoints
from distributary.ingest.log_paths import entry_path
from distributary.ingest.merge.rule import MergeRule
from distributary.ingest.rebuild import emptying
from distributary.ingest.rebuild.emptying import RESET, empty
from distributary.ingest.storage.contract import Files
from distributary.ingest.tables.handle import opened
from distributary.ingest.tables.log import entry, put_entry
from distributary.ingest.tables.transaction import Transaction, newest_batch

ONE, TWO = (Transaction("generation/reset", number) for number in (7, 9))


def row(key: int, seq: int = 1) -> dict[str, Any]:
    return {"topic": "t", "partition": 0, "offset": seq, "ts": START, "id": key, "seq": seq}


@pytest.fixture
def table(tmp_path: Path) -> Upserted:
    """Of two files, of which one has a marked row."""
    columns: list[Any] = [("id", "int64"), ("seq", "int64")]
    made = Upserted.made(tmp_path, columns, MergeRule(("id",), ordered_by("seq")))
    made.merge([row(1), row(2)])
    made.merge([row(2, 2), row(3)])
    return made


def test_all_rows_go_and_what_the_table_is_stays(table: Upserted) -> None:
    before = opened(table.place)
    version = empty(table.place, ONE, "one")
    assert version == before.version() + 1
    after = opened(table.place)
    assert table.rows() == []
    assert after.schema() == before.schema()
    assert after.metadata().id == before.metadata().id
    # A start goes on behind the batches that it has had.
    batches = "0123abcd" * 4 + "/events"
    assert newest_batch(table.place, batches) == 1
    told = entry(table.place, version or 0)
    assert told[0]["commitInfo"][RESET] == "one"
    assert [one["remove"]["dataChange"] for one in told if "remove" in one] == [True, True]
    assert opened(table.place).version() == version


def test_a_reset_empties_it_once_and_the_next_one_again(table: Upserted) -> None:
    assert empty(table.place, ONE, "one") is not None
    table.commits.forget(table.place)
    table.merge([row(7, 3)])
    assert empty(table.place, ONE, "one") is None
    assert [one["id"] for one in table.rows()] == [7]
    assert empty(table.place, TWO, "two") is not None
    assert table.rows() == []
    # One that an older copy of the checkpoint comes back to takes nothing of what was made since.
    table.commits.forget(table.place)
    table.merge([row(8, 4)])
    assert empty(table.place, ONE, "one") is None
    assert [one["id"] for one in table.rows()] == [8]


def test_of_one_reset_after_the_other_the_log_keeps_the_newest_number(table: Upserted) -> None:
    """It would keep each that has an application of its own for ever, in every checkpoint."""
    for number in range(1, 4):
        empty(table.place, Transaction("generation/reset", number), str(number))
    told = opened(table.place)
    told.create_checkpoint()
    (kept,) = Path(table.place.url, "_delta_log").glob("*.checkpoint.parquet")
    apps = [one["appId"] for one in pq.read_table(kept)["txn"].to_pylist() if one is not None]
    assert [one for one in apps if "reset" in one] == ["generation/reset"]


def test_a_rival_that_is_first_is_emptied_too(table: Upserted, monkeypatch: pytest.MonkeyPatch) -> None:
    first = [True]

    def rival(*given: Any) -> bool:
        if first and first.pop():
            table.merge([row(9, 5)])
        return put_entry(*given)

    monkeypatch.setattr(emptying, "put_entry", rival)
    assert empty(table.place, ONE, "one") is not None
    assert table.rows() == []


def test_another_entry_that_took_the_place_of_its_own_is_emptied_too(
    table: Upserted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Delta's own store on a local file system looks whether a version is there and then renames its entry to it."""

    def replaced(place: Files, version: int, actions: Any) -> bool:
        monkeypatch.setattr(emptying, "put_entry", put_entry)
        new = put_entry(place, version, actions)
        place.put(entry_path(version), b'{"commitInfo":{"timestamp":1,"operation":"OTHER"}}\n')
        return new

    monkeypatch.setattr(emptying, "put_entry", replaced)
    assert empty(table.place, ONE, "one") == opened(table.place).version()
    assert table.rows() == []
    assert empty(table.place, ONE, "one") is None


def test_a_crash_before_its_entry_leaves_all_of_it(table: Upserted, monkeypatch: pytest.MonkeyPatch) -> None:
    reach: Callable[..., None] = failpoints.reach

    def dies(point: str, number: int) -> None:
        reach(point, number)
        raise failpoints.Failpoint(point)

    with monkeypatch.context() as patch:
        patch.setattr(failpoints, "reach", dies)
        with pytest.raises(failpoints.Failpoint):
            empty(table.place, ONE, "one")
    assert len(table.rows()) == 3
    assert empty(table.place, ONE, "one") is not None
    assert table.rows() == []
