"""A start behind a log of which most is closed: what it sweeps is what was begun since, and nothing that a table's log names."""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import DeltaTable
from tests.ingest.kafka_records import Sent
from tests.ingest.queries import GOLF, Query, batches, files, value

from distributary.ingest import failpoints

# Entries are closed by hundreds behind the newest hundred: some are, some are not.
MANY = 300

DIES = (
    failpoints.BEFORE_MANIFEST,
    failpoints.AFTER_MANIFEST,
    failpoints.BETWEEN_COMMITS,
    failpoints.BEFORE_LEDGER,
)


# The rules of closing and of sweeping are held one by one in tests/ingest/commit_log/test_writing.py and in test_sweep.py.
@pytest.mark.heavy
def test_three_hundred_batches_later_no_committed_file_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = len(batches(tmp_path, MANY).done)
    entries, closed = (list((tmp_path / "checkpoint" / folder).iterdir()) for folder in ("log", "closed"))
    assert (at, len(closed), len(entries) < MANY) == (MANY, 1, True)
    rows = MANY
    for point in DIES:
        sent = [Sent(value(1, game_name=game), at + place) for place, game in enumerate(("golf", "quest"))]
        dying, committed = Query(tmp_path), named(tmp_path)
        dying.resume()
        assert named(tmp_path) == committed <= files(tmp_path)
        monkeypatch.setattr(failpoints, "_fired", set())
        monkeypatch.setenv(failpoints.VARIABLE, f"{point}=fail")
        with pytest.raises(failpoints.Failpoint):
            dying.batch(at, sent)
        monkeypatch.delenv(failpoints.VARIABLE)
        orphans = files(tmp_path) - committed
        Query(tmp_path).resume(sent)
        if point == failpoints.BEFORE_MANIFEST:
            assert orphans
            assert files(tmp_path) == named(tmp_path) == committed
        else:
            at, rows = at + 2, rows + 1
            assert named(tmp_path) == committed | orphans == files(tmp_path)
    assert DeltaTable(tmp_path / "lake" / GOLF).to_pyarrow_table().num_rows == rows


def named(root: Path) -> set[str]:
    """The files that the tables' logs name."""
    tables = [path.parent for path in (root / "lake").glob("*/_delta_log")]
    return {uri.rpartition("/")[2] for table in tables for uri in DeltaTable(table).file_uris()}
