"""Tables that are parked, as one run knows of them: how much may wait, and what comes is laid out by."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.ingest.pipelines import begun, checkpoint, table_book
from tests.ingest.queries import GOLF, QUEST, Query, one

from distributary.errors import CommitImpossible
from distributary.ingest.batch import parking
from distributary.ingest.batch.parking import RunsParkedTables
from distributary.ingest.evolution.rules import Parking


def parked(root: Path, rules: Parking) -> RunsParkedTables:
    here = checkpoint(root)
    return RunsParkedTables(here, begun(here), table_book(root), rules)


def stuck(*tables: str) -> CommitImpossible:
    return CommitImpossible("it was dropped", tables)


def test_where_the_settings_say_stop_nothing_is_parked(tmp_path: Path) -> None:
    tables = parked(tmp_path, Parking())
    assert not tables.park(1, stuck("t"))
    assert (tables.folders, tables.told()) == (frozenset(), "")
    tables.require_room()


def test_what_waits_is_told_and_kept_for_the_next_run(tmp_path: Path) -> None:
    assert parked(tmp_path, Parking(parks=True)).park(0, stuck("t", "u"))
    after = parked(tmp_path, Parking(parks=True))
    assert after.waiting(0) == {"t", "u"}
    assert after.told() == (
        "table t is parked since batch 0, 1 of its batches wait; table u is parked since batch 0, 1 of its batches wait"
    )


def test_more_than_the_settings_allow_does_not_wait(tmp_path: Path) -> None:
    parked(tmp_path, Parking(parks=True)).park(0, stuck("t"))
    parked(tmp_path, Parking(parks=True, most=3)).require_room()
    with pytest.raises(CommitImpossible, match=r"since batch 0.*policies\.parked_batches \(2\)") as stopped:
        parked(tmp_path, Parking(parks=True, most=2)).require_room()
    assert stopped.value.tables == ("t",)


def test_more_than_the_log_keeps_does_not_wait_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parking, "_MOST_WAITING", 2)
    tables = parked(tmp_path, Parking(parks=True))
    tables.park(0, stuck("t", "u"))
    tables.require_room()
    tables.park(0, stuck("v"))
    with pytest.raises(CommitImpossible, match="more than the log keeps"):
        tables.require_room()


def test_a_parked_table_is_laid_out_as_it_will_be_whatever_became_of_it(tmp_path: Path) -> None:
    query = Query(tmp_path)
    query.resume()
    query.batch(0, one(0))
    (done,) = query.done
    tables = RunsParkedTables(query.here, query.log, table_book(tmp_path), Parking(parks=True))
    tables.park(done.manifest.batch_id, stuck(GOLF))
    tables.leave_alone()
    assert tables.tables.states([GOLF]) == {}
    (part,) = [table for table in done.manifest.tables if table.folder == GOLF]
    pinned = tables.pinned({"golf": GOLF, "quest": QUEST})
    assert {folder: (found.entity, found.layout) for folder, found in pinned.items()} == {
        GOLF: ("golf", part.layout)
    }
