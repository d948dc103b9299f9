"""The log of changes to tables."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.ingest.asked import AskedFiles

from distributary.errors import CheckpointMismatch
from distributary.ingest.checkpoint.change_log import ChangeLog, TableChange
from distributary.ingest.checkpoint.folder import Checkpoint
from distributary.ingest.commit_log.entries import NONE
from distributary.ingest.storage.posix import PosixFiles

CREATED = TableChange("silver_a", "created")
ADDED = TableChange("silver_a", "added", "position.x", "double", "schema 7")


@pytest.fixture
def log(tmp_path: Path) -> ChangeLog:
    return ChangeLog(Checkpoint.at(tmp_path))


def changes(log: ChangeLog, batch_id: int) -> list[TableChange]:
    return [logged.change for logged in log.read() if logged.batch_id == batch_id]


def test_an_empty_log_has_nothing(log: ChangeLog) -> None:
    assert log.read() == []


def test_what_was_written_is_read_back_in_order(log: ChangeLog) -> None:
    assert log.write(7, [CREATED, ADDED]) == (CREATED, ADDED)
    (first, second) = log.read(6)
    assert (first.batch_id, first.change, second.change) == (7, CREATED, ADDED)
    assert first.at == second.at and first.at.endswith("+00:00")


def test_an_attempt_that_is_repeated_adds_nothing(log: ChangeLog, tmp_path: Path) -> None:
    log.write(7, [CREATED, CREATED])
    assert log.write(7, [CREATED]) == ()
    assert changes(log, 7) == [CREATED]
    assert len(list((tmp_path / "changes").iterdir())) == 1


def test_a_later_attempt_adds_only_what_is_new(log: ChangeLog) -> None:
    log.write(7, [CREATED])
    assert log.write(7, [CREATED, ADDED]) == (ADDED,)
    assert changes(log, 7) == [CREATED, ADDED]


def test_nothing_to_write_makes_no_file(log: ChangeLog, tmp_path: Path) -> None:
    assert log.write(7, []) == ()
    assert not (tmp_path / "changes").exists()


def test_batches_are_told_apart_and_sorted_as_numbers(log: ChangeLog) -> None:
    for batch_id in (10, 1, 2):
        log.write(batch_id, [TableChange("t", "added", f"c{batch_id}")])
    assert [(logged.batch_id, logged.change.column) for logged in log.read()] == [
        (1, "c1"),
        (2, "c2"),
        (10, "c10"),
    ]
    assert [logged.batch_id for logged in log.read(1)] == [2, 10]


def test_more_than_ten_attempts_keep_their_order(log: ChangeLog) -> None:
    expected = [TableChange("t", "added", f"c{n}") for n in range(12)]
    for change in expected:
        log.write(7, [change])
    assert changes(log, 7) == expected


def test_rivals_lose_nothing(log: ChangeLog) -> None:
    expected = [TableChange("t", "added", f"c{n}") for n in range(8)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda change: log.write(7, [change]), expected))
    assert sorted(changes(log, 7), key=lambda change: change.column) == expected


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"format":9}', '{"format":1,"batch_id":8,"at":"","changes":[]}']
)
def test_an_edited_file_is_named(log: ChangeLog, tmp_path: Path, text: str) -> None:
    log.write(7, [CREATED])
    (tmp_path / "changes" / "0000000007-0.json").write_text(text)
    with pytest.raises(CheckpointMismatch, match=r"7-0\.json"):
        ChangeLog(Checkpoint.at(tmp_path)).read()


def test_what_it_has_written_it_does_not_read_back(tmp_path: Path) -> None:
    class Unread(PosixFiles):
        def read(self, path: str) -> bytes:
            raise AssertionError(path)

    log = ChangeLog(Checkpoint(Unread(tmp_path)))
    log.write(7, [CREATED, ADDED])
    assert log.read() == ChangeLog(Checkpoint.at(tmp_path)).read()


def test_the_schema_that_brought_a_change_makes_it_no_other_change(log: ChangeLog) -> None:
    assert log.write(3, [TableChange("t", "added", "season", "string", "schema 7", 7)])
    assert log.write(3, [TableChange("t", "added", "season", "string", "schema 8", 8)]) == ()


def test_the_record_that_brought_a_change_makes_it_no_other_change(log: ChangeLog) -> None:
    first = TableChange("t", "added", "season", "string", "", 7, "games", 0, 12)
    log.write(3, [first])
    assert log.write(3, [TableChange("t", "added", "season", "string", "", 7, "games", 1, 5)]) == ()
    (kept,) = log.read()
    assert (kept.change.schema_id, kept.change.kafka_partition, kept.change.kafka_offset) == (7, 0, 12)


def test_what_a_batch_asks_for_does_not_grow_with_the_batches_before(tmp_path: Path) -> None:
    files = AskedFiles(tmp_path)
    log = ChangeLog(Checkpoint(files))
    for batch_id in range(100):
        log.write(batch_id, [CREATED], batch_id - 1)
    files.infos = files.told = 0
    assert log.write(100, [ADDED], 98) == (ADDED,)
    assert [logged.change for logged in log.read(98)] == [CREATED, ADDED]
    assert files.infos == 0
    assert files.told == 1 + 2, "what stands behind the newest batch, and nothing else"


def test_an_attempt_that_died_left_its_changes_to_the_next_one_of_another_number(log: ChangeLog) -> None:
    log.write(5, [TableChange("silver_a", "added", "old")], 4)
    log.write(6, [CREATED], 5)
    assert log.write(8, [CREATED, ADDED], 5) == (ADDED,)
    assert [(one.batch_id, one.change) for one in log.read(5)] == [(6, CREATED), (8, ADDED)]


@pytest.mark.parametrize("number", [0, 7])
def test_what_an_attempt_before_the_log_wrote_down_is_told_too(
    log: ChangeLog, tmp_path: Path, number: int
) -> None:
    for batch_id in (number, number + 1):
        log.write(batch_id, [TableChange("t", "added", f"c{batch_id}")], batch_id - 1)
        changes = tmp_path / "changes"
        (changes / f"{batch_id:010d}-0.json").rename(changes / f"{batch_id}-0.json")
    assert [one.batch_id for one in log.read(number - 1)] == [number, number + 1]
    assert log.write(number + 2, [TableChange("t", "added", f"c{number + 1}"), ADDED], number) == (ADDED,)
    assert [one.batch_id for one in log.read(number)] == [number + 1, number + 2]


def test_what_a_batch_has_is_forgotten_and_what_came_since_is_not(log: ChangeLog) -> None:
    for batch_id in (1, 2, 9, 10, 11):
        log.write(batch_id, [TableChange("t", "added", f"c{batch_id}")])
    log.forget(9)
    log.forget(9)
    assert [logged.batch_id for logged in log.read()] == [10, 11]
    log.forget(NONE)
    assert [logged.batch_id for logged in log.read()] == [10, 11]
