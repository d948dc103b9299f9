from __future__ import annotations

from pathlib import Path

from tests.ingest.pipelines import checkpoint

from distributary.ingest.checkpoint.stuck import Resolutions


def test_tables_are_skipped_for_their_batch_only_and_add_up(tmp_path: Path) -> None:
    resolutions = Resolutions(checkpoint(tmp_path))
    assert resolutions.skipped(3) == frozenset()
    for table in ("b", "a", "b"):
        resolutions.skip(3, table)
    assert Resolutions(checkpoint(tmp_path)).skipped(3) == {"a", "b"}
    assert resolutions.skipped(4) == frozenset()
