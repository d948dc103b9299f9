from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from tests.ingest.merge.test_upsert import COLUMNS, START, row, values
from tests.ingest.merge.upserted import Upserted, ordered_by

from distributary.errors import CommitImpossible
from distributary.ingest.merge.columns import DataColumns
from distributary.ingest.merge.counts import MergeCounts
from distributary.ingest.merge.rule import MergeRule


@pytest.fixture
def table(tmp_path: Path) -> Upserted:
    return Upserted.made(tmp_path, COLUMNS, MergeRule(("id",), ordered_by("seq")), deletes=True)


def later(days: float, one: dict[str, Any]) -> dict[str, Any]:
    return {**one, "ts": START + timedelta(days=days)}


def test_a_delete_takes_its_key_away_and_an_older_record_does_not_bring_it_back(table: Upserted) -> None:
    table.merge([row(1, 1, "a"), row(2, 1, "b")])
    assert table.merge([], [row(1, 3)]) == MergeCounts(deleted=1)
    assert values(table) == {2: "b"}
    assert table.merge([row(1, 2, "late")]) == MergeCounts(older=1)
    assert values(table) == {2: "b"}
    assert table.merge([row(1, 4, "again")]) == MergeCounts(inserted=1)
    assert values(table) == {1: "again", 2: "b"}


def test_a_delete_of_an_unknown_key_is_remembered(table: Upserted) -> None:
    assert table.merge([], [row(1, 3)]) == MergeCounts(deleted=1)
    assert table.merge([row(1, 2, "late")]) == MergeCounts(older=1)
    assert table.merge([row(1, 3, "late")]) == MergeCounts(older=1)
    assert values(table) == {}


def test_an_older_delete_takes_nothing_away(table: Upserted) -> None:
    table.merge([row(1, 5, "a")])
    assert table.merge([], [row(1, 4)]) == MergeCounts(older=1)
    assert values(table) == {1: "a"}


def test_deletes_and_rows_of_one_batch_are_in_order(table: Upserted) -> None:
    table.merge([row(1, 1, "a"), row(2, 1, "b")])
    counts = table.merge([row(1, 2, "c"), row(2, 9, "d"), row(3, 1, "e")], [row(1, 3), row(2, 3), row(3, 2)])
    assert counts == MergeCounts(updated=1, deleted=2, duplicate=3)
    assert values(table) == {2: "d"}


def test_a_delete_is_forgotten_by_the_time_of_records(table: Upserted) -> None:
    table.merge([row(9, 1, "x")], [row(1, 5)])
    assert table.merge([later(29, row(1, 4, "late"))]) == MergeCounts(older=1)
    assert table.merge([later(31, row(9, 2, "y"))]) == MergeCounts(updated=1)
    assert table.merge([later(31, row(1, 4, "nobody knows"))]) == MergeCounts(inserted=1)


def test_a_record_that_is_read_again_and_older_than_the_memory_updates_only_a_key_that_exists(
    table: Upserted,
) -> None:
    # Read for the first time both are taken, however far the partitions are apart.
    assert table.merge([later(0, row(1, 1, "a")), later(31, row(9, 1, "x"))]) == MergeCounts(inserted=2)
    old = [later(0, row(1, 2, "b")), later(0, row(2, 1, "unknown"))]
    assert table.rule.deletes is not None
    first, table.rule = table.rule, replace(table.rule, deletes=replace(table.rule.deletes, again=True))
    assert table.merge(old) == MergeCounts(updated=1, older=1)
    assert values(table) == {1: "b", 9: "x"}
    table.rule = first
    assert table.merge(old) == MergeCounts(inserted=1, older=1)
    assert values(table) == {1: "b", 2: "unknown", 9: "x"}


def test_a_record_of_a_time_to_come_does_not_keep_out_those_that_are_read_again(table: Upserted) -> None:
    days = (datetime.now(timezone.utc) - START) / timedelta(days=1)
    table.merge([later(days + 40_000, row(9, 1, "its clock was ahead"))])
    assert table.rule.deletes is not None
    table.rule = replace(table.rule, deletes=replace(table.rule.deletes, again=True))
    old = [later(days - 29, row(1, 1, "a")), later(days - 31, row(2, 1, "too old"))]
    assert table.merge(old) == MergeCounts(inserted=1, older=1)
    assert values(table) == {1: "a", 9: "its clock was ahead"}


def test_a_late_record_of_a_time_to_come_does_not_bring_its_key_back(table: Upserted) -> None:
    """Its producer's clock is ahead, and nothing else is in its batch."""
    days = (datetime.now(timezone.utc) - START) / timedelta(days=1)
    table.merge([row(1, 1, "a")])
    table.merge([], [later(days, row(1, 5))])
    assert table.merge([later(days + 40, row(1, 4, "late"))]) == MergeCounts(older=1)
    assert values(table) == {}


NO_TIMES = [None, datetime(1970, 1, 1, 0, 3, tzinfo=timezone.utc), datetime(2000, 1, 1, tzinfo=timezone.utc)]


@pytest.mark.parametrize("ts", NO_TIMES)
def test_a_delete_of_which_nobody_knows_when_it_came_is_not_forgotten(
    table: Upserted, tmp_path: Path, ts: datetime | None
) -> None:
    """Its producer's clock was never set, as that of a device that has just begun, or says a time that no table holds."""
    table.merge([row(9, 1, "x")], [{**row(1, 5), "ts": ts}, row(2, 5)])
    assert table.merge([later(300, row(1, 4, "late"))]) == MergeCounts(older=1)
    table.merge([], [row(3, 5)])
    DeltaTable(tmp_path / "players__deleted").optimize.compact()
    late = [later(300, row(key, 4, "late")) for key in (1, 2)]
    assert table.merge(late) == MergeCounts(older=1, inserted=1)
    assert values(table) == {2: "late", 9: "x"}


@pytest.mark.parametrize("ts", NO_TIMES)
def test_a_record_of_which_nobody_knows_when_it_came_is_taken_when_it_is_read_again(
    table: Upserted, ts: datetime | None
) -> None:
    table.merge([row(9, 1, "x")], [later(300, row(2, 5))])
    assert table.rule.deletes is not None
    table.rule = replace(table.rule, deletes=replace(table.rule.deletes, again=True))
    again = [{**row(key, 4, "again"), "ts": ts} for key in (1, 2)]
    assert table.merge(again) == MergeCounts(older=1, inserted=1)
    assert values(table) == {1: "again", 9: "x"}


def test_a_late_record_among_old_ones_meets_what_was_remembered_then(table: Upserted) -> None:
    table.merge([later(400, row(9, 1, "x"))], [row(1, 5)])
    assert table.merge([row(1, 4, "late")]) == MergeCounts(older=1)


def test_what_is_remembered_may_be_compacted_at_any_time(table: Upserted, tmp_path: Path) -> None:
    memory = tmp_path / "players__deleted"
    table.merge([row(1, 1, "a"), row(2, 1, "b"), row(3, 1, "c")], [row(7, 3)])
    table.merge([], [row(2, 3)])
    part = table.part([], [row(1, 3)])
    # Between the commit of the deletes and that of the table.
    DeltaTable(memory).optimize.compact()
    assert table.commit(part) == MergeCounts(deleted=1)
    assert table.merge([row(key, 2, "late") for key in (1, 2, 7)]) == MergeCounts(older=3)
    assert values(table) == {3: "c"}


def test_of_what_is_forgotten_no_file_is_opened(table: Upserted, monkeypatch: pytest.MonkeyPatch) -> None:
    table.merge([], [row(1, 5)])
    table.merge([later(60, row(9, 1))])
    opened = list[str]()
    columns = DataColumns

    def noted(place: Any, *more: Any) -> Any:
        opened.append(str(place))
        return columns(place, *more)

    monkeypatch.setattr("distributary.ingest.merge.found.DataColumns", noted)
    table.merge([later(60, row(1, 1)), later(60, row(9, 2))])
    assert opened == [str(table.place)]


def test_a_memory_that_is_gone_stops_by_name(table: Upserted, tmp_path: Path) -> None:
    table.merge([row(1, 1)])
    (tmp_path / "players__deleted").rename(tmp_path / "elsewhere")
    with pytest.raises(CommitImpossible, match=r"remembers its deletes is gone.*players__deleted"):
        Upserted(table.root, table.schema, table.rule, batch=0).merge([row(1, 2)])
