from __future__ import annotations

from pathlib import Path

from tests.ingest.pipelines import checkpoint

from distributary.errors import CommitImpossible
from distributary.ingest.checkpoint.stuck import StuckCommits


def test_a_stuck_batch_is_kept_with_its_newest_message_until_it_is_complete(tmp_path: Path) -> None:
    stuck = StuckCommits(checkpoint(tmp_path))
    assert stuck.read() == []
    stuck.write(12, CommitImpossible("table a is gone", ("a",)))
    stuck.write(12, CommitImpossible("tables are gone", ("b", "c")))
    (found,) = StuckCommits(checkpoint(tmp_path)).read()
    assert (found.batch_id, found.tables, found.message) == (12, ("b", "c"), "tables are gone")
    stuck.clear(12)
    stuck.clear(12)
    assert stuck.read() == []
