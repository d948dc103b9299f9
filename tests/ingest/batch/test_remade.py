from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.ingest.queries import GOLF, Query, one

QUERY = {"evolution": "inline"}


def test_a_table_that_somebody_took_away_between_batches_is_made_anew_and_told_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    query = Query(tmp_path, decode=QUERY)
    query.resume()
    query.batch(0, one(0))
    assert not query.runner.attempts.run.memory.remade
    shutil.rmtree(tmp_path / "lake" / GOLF)
    query.batch(1, one(1))
    query.batch(2, one(2))
    assert query.rows(GOLF) == 2
    assert list(query.runner.attempts.run.memory.remade) == [GOLF]
    assert len([text for text in caplog.messages if f"table {GOLF} is gone, and is made anew" in text]) == 1
