"""What earlier calls began is brought to its end, or is of nothing; whatever became of those who began it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from distributary.ingest.checkpoint.folder import Checkpoint
from distributary.ingest.replay.kept import kept_as, unfinished
from distributary.ingest.replay.work import Work
from distributary.ingest.storage.opening import files_at
from distributary.ingest.upkeep.replayed import REPLAYS, sweep_records


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
    nothing: Any = None
    run = SimpleNamespace(checkpoint=checkpoint, root=root)
    work = Work(cast(Any, SimpleNamespace(run=run)), *[nothing] * 5)
    assert work.finish_begun() == ([], [])
    assert unfinished(checkpoint.files, root) == []
    assert checkpoint.files.folders(REPLAYS) == []
