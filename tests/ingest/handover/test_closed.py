"""A new checkpoint over tables of a log that is closed far behind its newest batch."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.ingest.handover.test_heritage import taken_over, unfinished
from tests.ingest.kafka_records import TOPIC
from tests.ingest.queries import GOLF, Query, batches, one

from distributary.ingest.commit_log import writing


def test_files_that_were_written_again_stay_though_the_earlier_log_is_closed_behind_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a pipeline is started each minute, and no record comes: what it closed is gone, and its newest batch still the one."""
    first = batches(tmp_path, 1)
    unfinished(first, 1)
    newest = max((tmp_path / "lake" / GOLF).glob("*.parquet"))
    newest.unlink()
    Query(tmp_path).resume(one(1))
    monkeypatch.setattr(writing, "KEPT", 2)
    monkeypatch.setattr(writing, "AT_ONCE", 1)
    for _ in range(6):
        Query(tmp_path).resume()
    assert first.here.log.entry(4) is None, "it said under which names"
    assert taken_over(tmp_path, "second", "from_tables")[1] == {TOPIC: {0: 2}}
    assert first.rows(GOLF) == 2
