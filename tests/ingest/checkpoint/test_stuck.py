from __future__ import annotations

import json
from pathlib import Path

from tests.ingest.pipelines import checkpoint

from distributary.errors import CommitImpossible
from distributary.ingest.checkpoint.stuck import Resolutions, StuckCommits


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


def test_what_is_noted_of_further_tables_adds_up(tmp_path: Path) -> None:
    stuck = StuckCommits(checkpoint(tmp_path))
    for _ in range(2):
        for table in ("b", "a"):
            stuck.add(12, CommitImpossible(f"table {table} is gone", (table,)))
    (found,) = stuck.read()
    assert (found.tables, found.message) == (("a", "b"), "table b is gone\ntable a is gone")


def test_what_an_earlier_version_wrote_names_no_tables(tmp_path: Path) -> None:
    here = checkpoint(tmp_path)
    earlier = {
        "batch_id": 7,
        "message": "table /lake/a cannot take its files",
        "at": "2026-01-02T03:04:05+00:00",
    }
    (here.folder / "stuck" / "7.json").write_text(json.dumps(earlier))
    (found,) = StuckCommits(here).read()
    assert (found.batch_id, found.tables, found.message) == (7, None, earlier["message"])


def test_tables_are_skipped_for_their_batch_only_and_add_up(tmp_path: Path) -> None:
    resolutions = Resolutions(checkpoint(tmp_path))
    assert resolutions.skipped(3) == frozenset()
    for table in ("b", "a", "b"):
        resolutions.skip(3, table)
    assert Resolutions(checkpoint(tmp_path)).skipped(3) == {"a", "b"}
    assert resolutions.skipped(4) == frozenset()
