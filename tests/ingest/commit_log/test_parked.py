"""What the log says of files that wait for a table: which, since when, and that their names are kept as long."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.ingest.commit_log.logs import begun, decided, following, kinds

from distributary.errors import CheckpointMismatch
from distributary.ingest.commit_log.reading import CommitLog, numbers_in
from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.posix import PosixFiles


def test_what_waits_for_a_parked_table_is_named_until_it_is_in(files: Files) -> None:
    writer = begun(files)
    first = decided(writer)
    parked = writer.park({"t": (first.number,)}, "why")
    assert (parked.so_far.parked, writer.so_far.parked) == ({}, {"t": (1,)})
    again = begun(files)
    assert again.so_far.parked == {"t": (1,)}
    second = again.append(following(again), {}, ["t", "u"])
    third = again.append(following(again), {}, ["u"])
    assert (second.waits, third.waits) == (("t",), ())
    assert again.so_far.parked == {"t": (1, second.number)}
    assert [again.so_far.waiting(number) for number in (1, second.number, third.number)] == [
        {"t"},
        {"t"},
        frozenset(),
    ]
    again.park({"t": ()}, "in")
    assert begun(files).so_far.parked == {}
    assert kinds(files) == "SBPSBBPS"


def test_a_batch_that_waits_is_found_with_what_was_written_again_of_it(files: Files) -> None:
    decided(begun(files))
    writer = begun(files)
    again = writer.rewrite({"t": []})
    writer.park({"t": (1,)}, "why")
    second = writer.append(following(writer), {}, ["t"])
    batch, rewritten = CommitLog(files).as_finished(1)
    assert (batch.number, rewritten) == (1, (again,))
    assert CommitLog(files).as_finished(second.number) == (second, ())
    with pytest.raises(CheckpointMismatch, match=r"0000000000.json is gone"):
        CommitLog(files).as_finished(0)


def test_nothing_is_closed_that_names_what_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("distributary.ingest.commit_log.writing.KEPT", 2)
    monkeypatch.setattr("distributary.ingest.commit_log.writing.AT_ONCE", 1)
    files = PosixFiles(tmp_path)
    writer = begun(files)
    for _ in range(3):
        decided(writer)
    writer.park({"t": (3,)}, "why")
    for _ in range(5):
        writer.settle(decided(writer).number)
        writer.close()
    assert numbers_in(files, "closed") == [2]
    assert numbers_in(files, "log")[0] == 3
    writer.park({}, "in")
    writer.settle(decided(writer).number)
    writer.close()
    assert numbers_in(files, "closed") == [9]
    # What was closed before tells of nothing that waits any more.
    assert begun(files).so_far.parked == {}
