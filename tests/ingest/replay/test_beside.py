"""A log that somebody else writes is followed, and nothing is decided in it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.ingest.commit_log.logs import begun
from tests.ingest.commit_log.logs import decided as decide

from distributary.errors import CheckpointMismatch, LeaseHeld, PipelineError
from distributary.ingest.commit_log.entries import Owner
from distributary.ingest.commit_log.reading import CommitLog, closed_path, entry_path
from distributary.ingest.commit_log.writing import hand_over, written
from distributary.ingest.rebuild.silver import end_of
from distributary.ingest.replay.beside import ReadLog, require_appended
from distributary.ingest.storage.opening import files_at


def test_it_says_how_far_the_run_has_come_and_lets_nobody_decide(tmp_path: Path) -> None:
    files = files_at(tmp_path)
    log = CommitLog(files)
    with pytest.raises(PipelineError, match="no entry yet"):
        ReadLog(log)
    writer = begun(files)
    batch = decide(writer)
    read = ReadLog(log)
    assert read.last() == writer.last() == (batch, ())
    assert (read.next, read.so_far) == (writer.next, writer.so_far)
    read.confirm()
    assert written(writer) is writer
    with pytest.raises(TypeError, match="somebody else writes"):
        written(read)
    hand_over(log, Owner("others", "elsewhere", "another"))
    with pytest.raises(PipelineError, match="handed over"):
        read.confirm()


def test_a_batch_that_is_lost_is_not_waited_for(tmp_path: Path) -> None:
    files = files_at(tmp_path)
    batch = decide(begun(files))
    begun(files)
    files.put_new(
        closed_path(batch.number), b'{"format": 1, "through": 1, "id": "a", "at": "", "last": null}'
    )
    files.delete(map(entry_path, range(batch.number + 1)))
    with pytest.raises(CheckpointMismatch, match="is gone"):
        ReadLog(CommitLog(files)).last()


def test_what_a_run_parks_amid_it_is_known_before_its_batch_counts_as_whole(tmp_path: Path) -> None:
    """Files of it wait, so that what a replay brought of the same records would be there twice."""
    writer = begun(files_at(tmp_path))
    batch = decide(writer)
    read = ReadLog(CommitLog(files_at(tmp_path)))

    def whole() -> int:
        writer.park({"golf": [batch.number]}, "it was altered")
        return batch.number

    end = end_of(read, whole, alive=True)
    assert end.ends == {**writer.so_far.left, **writer.so_far.ends}
    assert read.so_far.parked == {"golf": (batch.number,)}


def test_beside_a_run_no_row_takes_the_place_of_another() -> None:
    require_appended([])
    with pytest.raises(LeaseHeld, match="a, b has one row a key"):
        require_appended(["b", "a"])
