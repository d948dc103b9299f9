"""What a log that is handed over leaves of replays and resets: no payloads, and a word."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.ingest.handover.test_heritage import taken_over
from tests.ingest.queries import batches


def test_records_of_a_replay_that_nobody_goes_on_with_are_deleted_with_its_log_taken(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = batches(tmp_path, 1)
    files = first.here.files
    for path in ("begun.json", "records/a.parquet"):
        files.put(f"replays/one/{path}", b"payload")
    taken_over(tmp_path, "second", "from_tables")
    assert [info.path for info in files.walk("replays")] == ["replays/one/begun.json"]
    assert "a replay or a reset was begun with checkpoint" in caplog.text
