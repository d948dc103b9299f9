"""Runs that others overtake, and runs that others began long ago: what a query does beside them, with workers in this process."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.ingest.batch.test_runner import stopped
from tests.ingest.kafka_records import Sent
from tests.ingest.pipelines import begun
from tests.ingest.queries import GOLF, Query, batches, one, value

from distributary.errors import Fenced, PolicyStopped
from distributary.ingest.batch import attempt
from distributary.ingest.batch.passes import planned_changes
from distributary.ingest.columns.safe_names import BATCHES_TABLE
from distributary.ingest.commit_log import writing
from distributary.ingest.commit_log.writing import Writer


def test_a_run_that_another_one_has_overtaken_makes_and_alters_no_table(tmp_path: Path) -> None:
    query = Query(tmp_path, decode={"evolution": "inline"})
    query.resume()
    query.batch(0, one(0))
    before = {path: path.read_bytes() for path in (tmp_path / "lake").glob("*/_delta_log/*")}
    later = [Sent(value(2, game_name=game, season="s"), 1 + at) for at, game in enumerate(("golf", "quest"))]

    def overtaken(*given: Any) -> Any:
        begun(query.here)
        return planned_changes(*given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attempt, "planned_changes", overtaken)
        with pytest.raises(Fenced):
            query.batch(1, later)
    assert {path: path.read_bytes() for path in (tmp_path / "lake").glob("*/_delta_log/*")} == before


def test_a_run_that_is_overtaken_before_it_asks_the_tables_is_not_told_of_old_copies(tmp_path: Path) -> None:
    batches(tmp_path, 1)
    overtaken, now = Query(tmp_path), Query(tmp_path)
    now.resume()
    now.batch(1, one(1))
    with pytest.raises(Fenced, match="it ends here"):
        overtaken.resume()


def test_a_ledger_may_be_dropped_however_long_ago_the_newest_batch_but_one_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "KEPT", 3)
    monkeypatch.setattr(writing, "AT_ONCE", 2)
    before = batches(tmp_path, 1)
    for offset in (1, None):
        # As by a job that starts every minute and mostly finds nothing.
        for _ in range(8):
            query = Query(tmp_path)
            query.resume()
        if offset is not None:
            query.batch(offset, one(offset))
    log = before.here.log
    assert log.newest_batch(1) is None and log.newest_batch(query.log.so_far.last or 0) is not None
    shutil.rmtree(tmp_path / "lake" / BATCHES_TABLE)
    again = Query(tmp_path)
    again.resume()
    again.batch(2, one(2))
    assert (again.rows(GOLF), again.rows(BATCHES_TABLE)) == (3, 1)


def test_a_run_remembers_no_batch_that_is_done(tmp_path: Path) -> None:
    query = batches(tmp_path, 3)
    memory = query.runner.attempts.run.memory
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Writer, "append", stopped)
        with pytest.raises(PolicyStopped):
            query.batch(3, one(3))
    assert memory.attempts == {4: 1}
    assert (memory.begun(4), memory.begun(5), memory.begun(5)) == (2, 1, 2)
    assert memory.attempts == {5: 2}
