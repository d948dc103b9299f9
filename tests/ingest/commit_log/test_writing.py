"""Who may write a log, and what a start finds of those before it, in every store."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from tests.ingest.commit_log.logs import (
    BY,
    TOPIC,
    begun,
    decided,
    earliest,
    entries,
    following,
    kinds,
    numbers_of,
)
from tests.ingest.storage.relay import Loss
from tests.ingest.storage.stores import Store
from typing_extensions import Buffer

from distributary.errors import AnswerLost, CheckpointMismatch, Fenced, TablesOfAnotherRun
from distributary.ingest.commit_log.entries import Owner, Standing
from distributary.ingest.commit_log.reading import CommitLog, closed_path, entry_path, numbers_in
from distributary.ingest.commit_log.writing import Writer, begin, hand_over, take_over
from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.posix import PosixFiles


def test_a_start_takes_the_first_number_and_batches_follow_it(files: Files) -> None:
    writer = begun(files)
    one, two = decided(writer), decided(writer)
    assert [entry.number for entry in (writer.start, one, two)] == [0, 1, 2]
    assert two.offsets == {TOPIC: {0: (15, 25), 1: (0, 0)}}
    assert (one.so_far.last, two.so_far.last, writer.so_far.last) == (None, 1, 2)
    assert kinds(files) == "SBB"


def test_a_later_start_goes_on_where_the_last_batch_ended(files: Files) -> None:
    last = decided(begun(files), "the file")
    writer = begun(files)
    assert writer.last() == (last, ())
    assert writer.so_far.ends == {TOPIC: {0: 15, 1: 0}}
    assert decided(writer).number == 3
    assert kinds(files) == "SBSB"


def test_where_the_first_batch_begins_is_asked_once_in_a_logs_life(files: Files) -> None:
    now = [Standing(ends={TOPIC: {0: 100}}), Standing(ends={TOPIC: {0: 200}})]
    latest = partial(now.pop, 0)
    begin(CommitLog(files), BY, latest)
    second = begin(CommitLog(files), BY, latest)
    assert second.so_far.ends == {TOPIC: {0: 100}}
    assert len(now) == 1


def test_who_ran_before_a_start_can_decide_nothing_any_more(files: Files) -> None:
    before = begun(files)
    decided(before)
    now = begun(files)
    with pytest.raises(
        Fenced, match=r"another run \(pid 7 on here, .*\) has begun with .* since this one \(start 0\)"
    ):
        decided(before)
    with pytest.raises(Fenced):
        before.rewrite({})
    with pytest.raises(Fenced):
        before.look()
    assert decided(now).number == 3


@pytest.mark.usefixtures("closing_soon")
def test_who_was_shut_out_is_told_so_before_he_changes_what_others_see(files: Files) -> None:
    before = begun(files)
    decided(before)
    before.confirm()
    now = begun(files)
    with pytest.raises(Fenced, match="another run"):
        before.confirm()
    for _ in range(10):
        now.settle(decided(now).number)
        now.close()
    now.confirm()
    with pytest.raises(Fenced):
        before.confirm()


def test_a_batch_begins_where_the_one_before_ended(files: Files) -> None:
    writer = begun(files)
    batch = following(writer)
    for wrong in (
        {TOPIC: {0: (6, 15), 1: (0, 0)}},
        {TOPIC: {0: (4, 15), 1: (0, 0)}},
        {TOPIC: {0: (5, 15)}},
        {"other": {0: (5, 15), 1: (0, 0)}},
        {},
    ):
        with pytest.raises(CheckpointMismatch, match="does not begin where the one before it ended: games/"):
            writer.append(wrong, {})
    assert kinds(files) == "S"
    with_new = {TOPIC: {**batch[TOPIC], 2: (0, 3)}, "more": {0: (0, 9)}}
    assert writer.append(with_new, {}).number == 1
    assert writer.so_far.ends == {TOPIC: {0: 15, 1: 0, 2: 3}, "more": {0: 9}}


def test_what_was_written_again_is_known_until_the_next_batch(files: Files) -> None:
    writer = begun(files)
    batch = decided(writer, "lost")
    one = writer.rewrite({"lost": "again"})
    two = writer.rewrite({"again": "once more"})
    after = begun(files)
    assert after.last() == (batch, (one, two))
    assert one.so_far.last == 1
    decided(after)
    assert after.last()[1] == ()
    assert kinds(files) == "SBRRSB"


def test_a_start_sweeps_from_the_last_settled_number_to_its_own(files: Files) -> None:
    first = begun(files)
    assert first.unsettled().entries == ()
    assert numbers_of(first.unsettled()) == [0]
    first.settle(0)
    for number in range(1, 6):
        first.settle(number - 1)
        assert decided(first, f"file of {number}").number == number
    again = first.rewrite({"more": "files"})
    second = begun(files)
    unsettled = second.unsettled()
    # For the number of the first start somebody may have written late.
    assert numbers_of(unsettled) == [0, 5, 6, 7]
    assert unsettled.entries == (again, second.last()[0])


def test_what_one_start_did_not_come_to_sweep_the_next_one_does(files: Files) -> None:
    first = begun(files)
    first.settle(0)
    batch = decided(first)
    begun(files)
    begun(files)
    third = begun(files)
    assert numbers_of(third.unsettled()) == [1, 2, 3, 4]
    assert third.unsettled().entries == (batch,)
    third.settle(4)
    next_one = decided(third)
    assert next_one.so_far == Standing(4, 1, (), next_one.so_far.ends, earliest().left)


@pytest.mark.usefixtures("closing_soon")
def test_old_entries_go_and_their_numbers_never_come_back(files: Files) -> None:
    writer = begun(files)
    for _ in range(10):
        writer.settle(decided(writer).number)
        writer.close()
    assert numbers_in(files, "closed") == [7]
    assert numbers_in(files, "log") == [8, 9, 10]
    after = begun(files)
    assert (after.start.number, after.so_far.last) == (11, 10)
    assert after.unsettled().after == 9
    # Somebody wakes who had stood still before he put a number that is gone by now.
    assert files.put_new(entry_path(4), b"{}")
    log = CommitLog(files)
    assert log.is_passed(4) and log.is_passed(7)
    assert log.state().next == 12
    for _ in range(4):
        after.settle(decided(after).number)
        after.close()
    assert 4 not in numbers_in(files, "log")


@pytest.mark.usefixtures("closing_soon")
def test_nothing_is_closed_that_is_not_settled(files: Files) -> None:
    writer = begun(files)
    for _ in range(10):
        decided(writer)
        writer.close()
    assert numbers_in(files, "closed") == []
    assert len(numbers_in(files, "log")) == 11
    writer.settle(4)
    writer.close()
    assert numbers_in(files, "log") == [5, 6, 7, 8, 9, 10]


@pytest.mark.usefixtures("closing_soon")
def test_where_nothing_can_be_deleted_a_log_is_closed_no_more_often(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where the right to delete was taken away since the start: each batch would put a file more, and list all of them."""

    def refused(of: PosixFiles, paths: object) -> None:
        raise PermissionError

    here = PosixFiles(tmp_path)
    writer = begun(here)
    with monkeypatch.context() as patch:
        patch.setattr(PosixFiles, "delete", refused)
        for _ in range(20):
            writer.settle(decided(writer).number)
            writer.close()
    assert numbers_in(here, "closed") == [1, 3, 5, 7, 9, 11, 13, 15, 17]
    for _ in range(2):
        writer.settle(decided(writer).number)
        writer.close()
    assert len(numbers_in(here, "closed")) == 1
    assert numbers_in(here, "log")[0] == numbers_in(here, "closed")[0] + 1


@pytest.mark.usefixtures("closing_soon")
def test_starts_that_find_nothing_are_closed_too_and_the_newest_batch_is_kept(files: Files) -> None:
    first = begun(files)
    batch = decided(first, "kept")
    first.rewrite({"files": ["kept again"]})
    first.settle(2)
    for _ in range(12):
        writer = begun(files)
        assert writer.last()[0] == batch
        assert len(writer.unsettled().entries) <= 2
        writer.settle(writer.start.number)
        writer.close()
    assert len(numbers_in(files, "log")) <= 6
    assert len(numbers_in(files, "closed")) == 1
    assert decided(begun(files)).offsets[TOPIC][0] == (15, 25)


@pytest.mark.usefixtures("closing_soon")
def test_closing_that_fails_is_done_the_next_time(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = begun(files)
    for _ in range(8):
        writer.settle(decided(writer).number)

    def refused(_files: Files, _paths: object) -> None:
        raise OSError("503 Slow Down")

    with monkeypatch.context() as patched:
        patched.setattr(type(files), "delete", refused)
        writer.close()
    assert len(numbers_in(files, "log")) == 9
    assert numbers_in(files, "closed") == [5]
    assert begun(files).start.number == 9, "what is closed means nothing, even where it is still there"
    after = begun(files)
    for _ in range(3):
        after.settle(decided(after).number)
    after.close()
    assert numbers_in(files, "log")[0] == numbers_in(files, "closed")[0] + 1


@pytest.mark.parametrize("gone", [1, 2])
def test_a_log_with_a_hole_is_refused_by_name(files: Files, gone: int) -> None:
    writer = begun(files)
    for _ in range(3):
        decided(writer)
    files.delete([entry_path(gone)])
    with pytest.raises(
        CheckpointMismatch, match=rf"log/000000000{gone}.json is gone: .* Restore the checkpoint"
    ):
        begun(files)


def test_a_log_whose_newest_batch_is_gone_is_refused_by_name(files: Files) -> None:
    writer = begun(files)
    decided(writer)
    after = begun(files)
    files.delete([entry_path(1)])
    with pytest.raises(CheckpointMismatch, match=r"log/0000000001.json is gone"):
        after.last()


def test_other_files_in_its_folders_mean_nothing(files: Files) -> None:
    for path in ("log/notes.txt", "log/1.json", "log/.hidden", "log/00000000001.json", "closed/readme.json"):
        files.put(path, b"")
    decided(begun(files))
    assert kinds(files) == "SB"


def test_a_log_that_is_handed_over_is_run_by_nobody_any_more(files: Files) -> None:
    writer = begun(files)
    batch = decided(writer)
    other = Owner("other", "/other/checkpoint", "f00d")
    state = hand_over(CommitLog(files), other)
    assert state.so_far is not None and state.so_far.last == batch.number
    with pytest.raises(
        Fenced, match=r"were handed over to pipeline 'other' \(log /other/checkpoint, generation f00d\)"
    ):
        decided(writer)
    with pytest.raises(TablesOfAnotherRun, match="were handed over to pipeline 'other'"):
        begun(files)
    assert hand_over(CommitLog(files), Owner("third", "", "")) == state
    assert kinds(files) == "SBH"


def test_a_log_that_nobody_has_run_can_be_handed_over(files: Files) -> None:
    assert hand_over(CommitLog(files), Owner("other", "", "")).so_far == Standing()
    with pytest.raises(TablesOfAnotherRun):
        begun(files)


def test_a_log_begins_behind_what_was_decided_without_one(files: Files, tmp_path: Path) -> None:
    writer = begun(PosixFiles(tmp_path))
    for number in range(7):
        writer.settle(number)
        last = decided(writer, "of the old layout")
    for _ in range(2):
        take_over(CommitLog(files), last)
    after = begun(files)
    assert after.start.number == 8
    assert after.last() == (last, ())
    assert numbers_of(after.unsettled()) == [0, 7, 8]
    assert after.unsettled().entries == (last,)
    assert decided(after).offsets[TOPIC][0] == (75, 85)
    take_over(CommitLog(files), last)
    assert kinds(files) == "BSB"


@pytest.mark.parametrize("how", ["cut", "500"])
def test_a_lost_answer_decides_a_batch_once(store: Store, how: Loss) -> None:
    if not store.port:
        pytest.skip("its answers are not HTTP's")
    with store.relayed() as (relay, files):
        relay.lose(how)
        writer = begun(files)
        relay.lose(how)
        batch = decided(writer)
        assert not relay.losses
        assert kinds(files) == "SB"
        assert entries(files)[1] == batch


class Unanswered(PosixFiles):
    """As a store is whose answer to one put is lost, and cannot be asked what is there either; the put may come late."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.late: list[tuple[str, bytes]] = []
        self.lose = False

    def put_new(self, path: str, data: Buffer, *, durable: bool = True) -> bool:
        if self.lose:
            self.lose = False
            self.late.append((path, bytes(data)))
            raise OSError("connection reset")
        return super().put_new(path, data, durable=durable)

    def arrive(self) -> None:
        """What was late is there now, if its name is free."""
        for path, data in self.late:
            super().put_new(path, data)
        self.late = []


@pytest.fixture
def unanswered(tmp_path: Path) -> Unanswered:
    return Unanswered(tmp_path)


def lost(writer: Writer, files: Unanswered) -> None:
    files.lose = True
    with pytest.raises(OSError, match="connection reset"):
        decided(writer, "first")


def test_a_batch_whose_answer_was_lost_is_found_before_another_is_begun(unanswered: Unanswered) -> None:
    writer = begun(unanswered)
    lost(writer, unanswered)
    assert writer.look() is None
    unanswered.arrive()
    found = writer.look()
    assert found is not None and found == writer.last()[0]
    assert writer.look() is None
    assert decided(writer).number == 2


def test_a_batch_that_came_late_is_no_rivals(unanswered: Unanswered) -> None:
    writer = begun(unanswered)
    lost(writer, unanswered)
    assert writer.look() is None
    unanswered.arrive()
    with pytest.raises(AnswerLost, match=r"entry 1 of .* was put by an earlier attempt of this run"):
        decided(writer, "second")
    found = writer.look()
    assert found is not None and writer.last()[0] == found
    assert kinds(unanswered) == "SB"


def test_a_batch_that_came_late_is_found_before_tables_are_changed_for_another(
    unanswered: Unanswered,
) -> None:
    writer = begun(unanswered)
    lost(writer, unanswered)
    writer.confirm()
    unanswered.arrive()
    with pytest.raises(AnswerLost):
        writer.confirm()
    writer.look()
    writer.confirm()


def test_a_batch_that_came_too_late_is_none(unanswered: Unanswered) -> None:
    writer = begun(unanswered)
    lost(writer, unanswered)
    batch = decided(writer, "second")
    unanswered.arrive()
    assert writer.last()[0] == batch
    after = begun(unanswered)
    assert after.last()[0] == batch


def test_of_a_run_that_was_shut_out_a_batch_may_count_that_it_never_heard_of(unanswered: Unanswered) -> None:
    writer = begun(unanswered)
    lost(writer, unanswered)
    unanswered.arrive()
    after = begun(unanswered)
    assert after.last()[0] is not None
    with pytest.raises(Fenced):
        writer.look()
    # What it left to be finished is finished by the other.
    assert decided(after).number == 3


def test_nothing_is_written_by_looking(files: Files) -> None:
    assert CommitLog(files).state().next == 0
    assert list(files.list("log")) == list(files.list("closed")) == []
    decided(begun(files))
    before = [(info.path, info.tag) for info in files.list("log")]
    log = CommitLog(files)
    assert log.state().newest is not None
    assert log.entry(5) is None
    assert log.newest_batch(1) is not None and log.newest_batch(0) is None
    assert [(info.path, info.tag) for info in files.list("log")] == before
    assert files.info(closed_path(0)) is None
