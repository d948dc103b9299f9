"""What the log says of files that wait for a table: which, since when, and that their names are kept as long."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.ingest.commit_log.logs import begun, decided, following, kinds
from typing_extensions import Buffer

from distributary.errors import CheckpointMismatch
from distributary.ingest.commit_log.reading import CommitLog, numbers_in
from distributary.ingest.commit_log.writing import BEFORE_PARKED
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
    monkeypatch.setattr("distributary.ingest.commit_log.writing.BEFORE_PARKED", 0)
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


def test_what_a_table_had_before_it_was_parked_stays_to_be_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("distributary.ingest.commit_log.writing.KEPT", 2)
    monkeypatch.setattr("distributary.ingest.commit_log.writing.AT_ONCE", 1)
    files = PosixFiles(tmp_path)
    writer = begun(files)
    for _ in range(60):
        writer.settle(decided(writer).number)
    writer.park({"t": (60,)}, "why")
    for _ in range(5):
        writer.settle(decided(writer).number)
        writer.close()
    assert numbers_in(files, "closed") == [60 - 1 - BEFORE_PARKED]


class Closing(PosixFiles):
    """A folder; `before` is called once, before it is written down how far the log is closed."""

    before: Callable[[], None] | None = None

    def put_new(self, path: str, data: Buffer, *, durable: bool = True) -> bool:
        before, self.before = self.before, None if path.startswith("closed") else self.before
        if before is not None and path.startswith("closed"):
            before()
        return super().put_new(path, data, durable=durable)


@pytest.mark.usefixtures("closing_soon")
def test_who_wakes_amid_closing_takes_no_entry_behind_which_the_one_who_took_over_has_files_wait(
    tmp_path: Path,
) -> None:
    files = Closing(tmp_path)
    asleep = begun(files)
    for _ in range(8):
        asleep.settle(decided(asleep).number)
    now = []

    def taken_over() -> None:
        now.append(begun(PosixFiles(tmp_path)))
        now[0].park({"t": (2,)}, "nobody can open it")

    files.before = taken_over
    assert asleep.close() is None
    assert numbers_in(files, "closed") == [5]
    for _ in range(8):
        now[0].settle(decided(now[0]).number)
        now[0].close()
    again = begun(PosixFiles(tmp_path))
    assert again.so_far.parked == {"t": (2,)}
    assert CommitLog(files).as_finished(2)[0].number == 2
    again.park({}, "in")
    for _ in range(8):
        again.settle(decided(again).number)
        again.close()
    assert numbers_in(files, "log")[0] == numbers_in(files, "closed")[0] + 1


@pytest.mark.usefixtures("closing_soon")
def test_who_wakes_amid_closing_takes_nothing_that_a_start_looks_through(tmp_path: Path) -> None:
    files = Closing(tmp_path)
    writer = begun(files)
    batches = [decided(writer).number for _ in range(3)]
    # Each of these ended before it had swept.
    for _ in range(5):
        begun(files)
    asleep, now = begun(files), []
    files.before = lambda: now.append(begun(PosixFiles(tmp_path)))
    asleep.settle(asleep.start.number)
    assert asleep.close() is None
    assert numbers_in(files, "closed") == [6]
    found = now[0].unsettled()
    assert (found.after, sorted(entry.number for entry in found.entries)) == (-1, batches)
