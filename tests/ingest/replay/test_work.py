"""What earlier calls began is brought to its end, or is of nothing; whatever became of those who began it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from distributary.errors import CommitImpossible
from distributary.ingest.checkpoint.change_log import ChangeLog, TableChange
from distributary.ingest.checkpoint.folder import Checkpoint
from distributary.ingest.replay import work as replay_work
from distributary.ingest.replay.kept import Kept, kept_as, unfinished
from distributary.ingest.replay.work import Work
from distributary.ingest.storage.opening import files_at
from distributary.ingest.upkeep.replayed import REPLAYS, sweep_records


def work_of(run: SimpleNamespace) -> Work:
    nothing: Any = None
    return Work(cast(Any, SimpleNamespace(run=run)), *[nothing] * 5)


def test_one_whose_records_went_while_whoever_began_it_stood_still_is_of_nothing(tmp_path: Path) -> None:
    checkpoint, root = Checkpoint(files_at(tmp_path / "checkpoint")), files_at(tmp_path / "lake")
    stood_still = kept_as(checkpoint.files, root, "a" * 32)
    stood_still.announce()
    stood_still.records.put("rows.parquet", b"some")
    # A later call finds nothing begun, and deletes what was put away.
    sweep_records(checkpoint.files, root)
    # It has written on since.
    stood_still.records.put("rows.parquet", b"some")
    stood_still.begin({"at": "2026-01-01", "files": ["one.parquet"]})
    assert len(unfinished(checkpoint.files, root)) == 1
    work = work_of(SimpleNamespace(checkpoint=checkpoint, root=root))
    assert work.finish_begun() == ([], [])
    assert unfinished(checkpoint.files, root) == []
    assert checkpoint.files.folders(REPLAYS) == []


@pytest.mark.parametrize("changed", [False, True], ids=["nothing was changed", "a table was"])
def test_one_of_quarantine_that_is_refused_keeps_nobody_from_choosing_others(
    changed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint, root = Checkpoint(files_at(tmp_path / "checkpoint")), files_at(tmp_path / "lake")
    kept = kept_as(checkpoint.files, root, "a" * 32)
    kept.announce()
    begun = {"at": "2026-01-01", "files": ["one.parquet"]}
    kept.begin(begun)

    class Refused:
        def __init__(self, attempts: Any, kept: Kept, *more: Any) -> None:
            self.kept = kept

        def decided(self) -> None:
            if changed:
                ChangeLog(self.kept.checkpoint).write(0, [TableChange("golf", "created")])
            raise CommitImpossible("golf is parked", ("golf",))

    monkeypatch.setattr(replay_work, "OfQuarantine", Refused)
    log = SimpleNamespace(last=lambda: (None, ()))
    work = work_of(SimpleNamespace(checkpoint=checkpoint, root=root, log=log))
    with pytest.raises(CommitImpossible, match="golf is parked"):
        work.finished(kept, begun, resumed=False)
    assert len(unfinished(checkpoint.files, root)) == changed
