"""Upkeep that a run does by itself, on a machine whose clock may be ahead: what nobody can have back does not go by it."""

from __future__ import annotations

import os
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from tests.ingest.pipelines import settings
from tests.ingest.upkeep.test_in_runs import finished
from tests.ingest.upkeep.test_record import batches, put, quarantined

from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.posix import PosixFiles
from distributary.ingest.upkeep.in_runs import MARK, UpkeepInRuns
from distributary.ingest.upkeep.maintain import time_there

DAY = 86_400.0

MONTH = {"batches_days": 30, "changes_days": 30, "quarantine_days": 30}


@pytest.fixture
def lake(tmp_path: Path) -> Files:
    """Batches of a hundred days ago, or of today where the clock is ahead by as much."""
    root = PosixFiles(tmp_path / "lake")
    for number in range(4):
        put(root, number, datetime.now(timezone.utc) - timedelta(days=100, minutes=60 - number))
    return root


def kept_up(folder: Path, done_days_ago: float | None) -> list[str]:
    """What a run tells whose pipeline was kept up so long ago."""
    checkpoint = PosixFiles(folder / "checkpoint")
    if done_days_ago is not None:
        checkpoint.put(MARK, b"{}")
        then = time.time() - done_days_ago * DAY
        os.utime(folder / "checkpoint" / MARK, (then, then))
    told = {"root": str(folder / "lake"), "maintain": {"every_hours": 6}, "keep": MONTH}
    return finished(UpkeepInRuns(settings(folder, sink=told), checkpoint))


def test_no_record_is_let_go_by_a_time_that_the_last_upkeep_did_not_know(tmp_path: Path, lake: Files) -> None:
    kept_up(tmp_path, done_days_ago=99.5)
    assert (len(batches(lake)), quarantined(lake)) == (4, [0, 1, 2, 3])
    kept_up(tmp_path, done_days_ago=1)
    assert (batches(lake)[0], quarantined(lake)) == ((0, 1), [2, 3])


def test_the_first_upkeep_of_a_checkpoint_lets_nothing_go(tmp_path: Path, lake: Files) -> None:
    (told,) = kept_up(tmp_path, done_days_ago=None)
    assert told.startswith("upkeep: ")
    assert quarantined(lake) == [0, 1, 2, 3]


def test_what_upkeeps_left_that_died_as_they_asked_for_the_time_goes(tmp_path: Path) -> None:
    root, asked = PosixFiles(tmp_path), ".distributary/upkeep"
    for name, hours in (("dead", 2), ("beside", 0.5)):
        root.put(f"{asked}/{name}", b"")
        at = time.time() - hours * 3600
        os.utime(tmp_path / asked / name, (at, at))
    time_there(root)
    # Another one that asks at the same time needs its own.
    assert list(root.names(asked)) == ["beside"]
