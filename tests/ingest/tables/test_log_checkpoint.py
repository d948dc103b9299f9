"""Checkpoints of logs, and what is taken away behind them: no version that is to be readable is lost, at any age."""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from tests.ingest.commits import by_log
from tests.ingest.tables.test_in_stores import read, written

from distributary.ingest.log_paths import LOG
from distributary.ingest.merge import live_files
from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.opening import files_at
from distributary.ingest.tables.change import create
from distributary.ingest.tables.handle import opened
from distributary.ingest.tables.log import last_checkpoint, put_entry
from distributary.ingest.tables.log_checkpoint import (
    Committed,
    clean_up,
    is_due,
    retention_seconds,
)
from distributary.ingest.tables.log_commit import NativeCommits

A = pa.schema([("a", pa.int64())])

DAY = 86_400

NOW = 1_800_000_000


def checkpoints(table: Files) -> list[int]:
    return [int(name[:20]) for name in table.names(LOG) if re.fullmatch(r"\d{20}\.checkpoint\.parquet", name)]


def commit(commits: NativeCommits, place: Files, first: int, count: int) -> None:
    """A row a commit, its number."""
    for number in range(first, first + count):
        file = written(place, "t", number)
        assert by_log(commits, place.below("t"), [file], A, "app", number, {})
        commits.settle()


def test_a_log_gets_a_checkpoint_within_two_intervals_and_reads_the_same(place: Files) -> None:
    create(place.below("t"), A, {"delta.checkpointInterval": "5"})
    with closing(NativeCommits()) as commits:
        commit(commits, place, 0, 12)
    found = checkpoints(place.below("t"))
    assert found and 4 <= found[0] < 10
    assert sorted(row["a"] for row in read(place.below("t"))) == list(range(12))
    assert opened(place.below("t")).transaction_version("app") == 11


def test_tables_that_began_together_take_turns(tmp_path: Path) -> None:
    turns = set()
    for name in ("golf", "quest", "chess", "harvest"):
        turns |= {
            (name, version)
            for version in range(5)
            if Committed(
                files_at(tmp_path / name), version, {"delta.checkpointInterval": "5"}, None, {}
            ).its_turn
        }
    assert len(turns) == 4
    assert len({version for _, version in turns}) > 1


@pytest.mark.parametrize("in_one_run", [True, False])
@pytest.mark.parametrize("parity", [0, 1])
def test_a_log_in_which_others_commit_in_step_gets_its_checkpoints(
    tmp_path: Path, in_one_run: bool, parity: int
) -> None:
    """As where a table is compacted after each batch: versions of ours are all odd, or all even."""
    place = files_at(tmp_path)
    create(place.below("t"), A, {"delta.checkpointInterval": "4"})
    commits = NativeCommits()
    others = iter(range(1_000_000))
    if parity:
        put_entry(place.below("t"), 1, [{"commitInfo": {"n": next(others)}}])
    for number in range(64):
        commit(commits, place, number, 1)
        put_entry(place.below("t"), 2 * number + 2 + parity, [{"commitInfo": {"n": next(others)}}])
        if not in_one_run:
            commits.close()
            commits = NativeCommits()
    commits.close()
    assert checkpoints(place.below("t"))


@pytest.mark.parametrize(
    ("last", "due"),
    [
        (None, 24),
        ({"version": 100, "size": 10}, 125),
        ({"version": 100, "size": 200}, 125),
        ({"version": 100, "size": 8_000}, 1_100),
        ("", 24),
        ("[]", 24),
    ],
    ids=["first", "small table", "table of the interval's size", "large table", "empty note", "no note"],
)
def test_the_larger_a_table_the_fewer_its_checkpoints(tmp_path: Path, last: object, due: int) -> None:
    place = files_at(tmp_path)
    if last is not None:
        place.put(f"{LOG}/_last_checkpoint", (last if isinstance(last, str) else json.dumps(last)).encode())
    for version, expected in ((due - 1, False), (due, True)):
        committed = Committed(place, version, {"delta.checkpointInterval": "25"}, None, {})
        assert is_due(committed, last_checkpoint(place)) is expected


@pytest.mark.parametrize(("changed", "due"), [(1, 1_100), (8, 225), (1_000, 125)])
def test_commits_that_change_many_files_get_checkpoints_as_if_they_were_many(
    tmp_path: Path, changed: int, due: int
) -> None:
    """What is taken away stays in a checkpoint for days, so the log would get ever fewer of them, and grow without end."""
    place = files_at(tmp_path)
    place.put(f"{LOG}/_last_checkpoint", json.dumps({"version": 100, "size": 8_000}).encode())
    for version, expected in ((due - 1, False), (due, True)):
        committed = Committed(place, version, {"delta.checkpointInterval": "25"}, None, {}, changed)
        assert is_due(committed, last_checkpoint(place)) is expected


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        (None, 30 * DAY),
        ("interval 2 days", 2 * DAY),
        ("INTERVAL 1 DAY", DAY),
        ("interval 3 hours", 10_800),
        ("1 week", 7 * DAY),
        ("interval 1 week 2 days", 9 * DAY),
        ("interval 1 Day 90000 milliseconds", DAY + 90),
        ("interval 1 month", None),
        ("for ever", None),
    ],
)
def test_the_time_that_a_table_is_kept_for_is_read_as_delta_writes_it(
    text: str | None, seconds: float | None
) -> None:
    assert retention_seconds({} if text is None else {"delta.logRetentionDuration": text}) == seconds


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of 60 commits, one an hour, the newest just now, of which each test has a copy: to write it takes far longer."""
    folder = tmp_path_factory.mktemp("grown")
    place = files_at(folder)
    create(place.below("t"), A, {"delta.checkpointInterval": "1000"})
    with closing(NativeCommits()) as commits:
        for number in range(60):
            commit(commits, place, number, 1)
            if number in (9, 29, 44):
                opened(place.below("t")).create_checkpoint()
    for path in (folder / "t" / LOG).iterdir():
        if path.name[0] != "_":
            hours = 60 - int(path.name[:20])
            os.utime(path, (NOW - hours * 3_600,) * 2)
    return folder / "t"


@pytest.fixture
def aged(grown: Path, tmp_path: Path) -> tuple[Files, Path]:
    """The same, with its log."""
    shutil.copytree(grown, tmp_path / "t")
    return files_at(tmp_path / "t"), tmp_path / "t" / LOG


def cleaned(table: Files, properties: dict[str, str]) -> int:
    """How many files go once version 60 was committed."""
    return clean_up(Committed(table, 60, properties, None, {}))


def readable(table: Files) -> list[int]:
    """The versions whose files the log tells, each of which is there."""
    found = []
    there = set(table.names(""))
    for version in range(61):
        try:
            files = DeltaTable(table.url, version=version).file_uris()
        except (DeltaError, OSError):
            continue
        assert len(files) == version
        assert there.issuperset(uri.rpartition("/")[2] for uri in files)
        found.append(version)
    oldest = DeltaTable(table.url, version=found[0]).to_pyarrow_table()
    assert sorted(oldest["a"].to_pylist()) == list(range(found[0]))
    return found


@pytest.mark.parametrize("hours", [1, 14, 16, 17, 24, 31, 49, 51, 58])
def test_what_is_young_enough_stays_readable_and_what_is_older_goes(
    aged: tuple[Files, Path], hours: int
) -> None:
    table, _ = aged
    properties = {"delta.logRetentionDuration": f"interval {hours} hours"}
    gone = cleaned(table, properties)
    found = readable(table)
    # The version that was the newest so long ago is one that was to be read then.
    oldest = 60 - hours
    bound = max((version for version in (10, 30, 45) if version <= oldest), default=0)
    assert found == list(range(bound, 61))
    assert (gone > 0) == (bound > 0)
    assert cleaned(table, properties) == 0


@pytest.mark.parametrize(
    "properties",
    [
        {"delta.logRetentionDuration": "interval 1 hour", "delta.enableExpiredLogCleanup": "false"},
        {"delta.logRetentionDuration": "interval 1 month"},
        {},
    ],
    ids=["told not to", "a time nobody can tell", "Delta's thirty days"],
)
def test_nothing_goes_from_a_table_that_does_not_say_so(
    aged: tuple[Files, Path], properties: dict[str, str]
) -> None:
    assert cleaned(aged[0], properties) == 0


@pytest.mark.parametrize("hours", [31, 72])
def test_checkpoints_between_the_oldest_and_the_newest_go_where_they_make_a_log_several_times_what_it_needs(
    aged: tuple[Files, Path], hours: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, log = aged
    before = readable(table)
    monkeypatch.setattr("distributary.ingest.tables.log_checkpoint._CHECKPOINT_BYTES", 0)
    for version in (35, 40):
        path = log / f"{version:020d}.checkpoint.parquet"
        path.write_bytes((log / f"{30:020d}.checkpoint.parquet").read_bytes())
        os.utime(path, (NOW - (60 - version) * 3_600,) * 2)
    properties = {"delta.logRetentionDuration": f"interval {hours} hours"}
    gone = cleaned(table, properties)
    # More than three that are about as large are more than two and a half times the newest.
    assert checkpoints(table) == [10, 30, 45]
    # The oldest version is read by what it stands on, those since by their entries.
    assert readable(table) == [version for version in before if version >= (10 if hours == 31 else 0)]
    assert gone and cleaned(table, properties) == 0


def test_a_log_does_not_grow_for_ever_where_its_checkpoints_are_more_than_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of them has to grow old, so that what is before it may go: those in between went before they were."""
    monkeypatch.setattr("distributary.ingest.tables.log_checkpoint._CHECKPOINT_BYTES", 0)
    place = files_at(tmp_path)
    create(
        place.below("t"),
        A,
        {"delta.checkpointInterval": "5", "delta.logRetentionDuration": "interval 20 hours"},
    )
    log, most, began = tmp_path / "t" / LOG, 0, time.time() - 90 * DAY
    with closing(NativeCommits()) as commits:
        for number in range(150):
            commit(commits, place, number, 1)
            for path in log.glob(f"{number:020d}.*"):
                os.utime(path, (began + number * 3_600,) * 2)
            most = max(most, len(list(log.glob("*.json"))))
    assert most < 75
    assert DeltaTable(tmp_path / "t", version=130).to_pyarrow_table().num_rows == 130


def test_a_log_is_looked_through_only_where_it_has_another_checkpoint_or_many_commits_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = list[int]()
    monkeypatch.setattr(
        "distributary.ingest.tables.log_checkpoint.clean_up",
        lambda committed: looked.append(committed.version),
    )
    place = files_at(tmp_path)
    create(place.below("t"), A, {"delta.checkpointInterval": "2"})
    with closing(NativeCommits()) as commits:
        commit(commits, place, 0, 3)
        monkeypatch.setattr("distributary.ingest.tables.log_checkpoint.is_due", lambda *_: False)
        looked.clear()
        commit(commits, place, 3, 6)
        assert len(looked) <= 1
        # Somebody else's, as of upkeep.
        opened(place.below("t")).create_checkpoint()
        looked.clear()
        commit(commits, place, 9, 6)
        assert len(looked) == 1
        # Older ones may have grown old.
        monkeypatch.setattr("distributary.ingest.tables.log_checkpoint._LOOKED_THROUGH", 4)
        looked.clear()
        commit(commits, place, 15, 8)
        assert 1 <= len(looked) <= 2


def test_a_checkpoint_that_readers_may_just_have_come_upon_stays(
    aged: tuple[Files, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    table, log = aged
    monkeypatch.setattr("distributary.ingest.tables.log_checkpoint._CHECKPOINT_BYTES", 0)
    for path in log.iterdir():
        os.utime(path, (NOW - 3_000 + int(path.name[:20] or 0) if path.name[0] != "_" else NOW,) * 2)
    assert cleaned(table, {}) == 0
    assert checkpoints(table) == [10, 30, 45]


def test_what_is_younger_than_an_hour_stays_whatever_the_table_says(aged: tuple[Files, Path]) -> None:
    table, log = aged
    for path in log.iterdir():
        os.utime(path, (NOW - 3_000,) * 2)
    assert cleaned(table, {"delta.logRetentionDuration": "interval 0 seconds"}) == 0


def test_what_is_before_a_checkpoint_that_is_none_stays(aged: tuple[Files, Path]) -> None:
    table, log = aged
    for version in (30, 45):
        path = log / f"{version:020d}.checkpoint.parquet"
        times = (path.stat().st_mtime,) * 2
        path.write_bytes(path.read_bytes()[: 100 if version == 30 else 0])
        os.utime(path, times)
    (log / "_last_checkpoint").unlink()
    assert cleaned(table, {"delta.logRetentionDuration": "interval 2 hours"}) > 0
    assert min(int(path.name[:20]) for path in log.glob("*.json")) == 10


def test_a_clock_that_is_wrong_takes_nothing_away(aged: tuple[Files, Path]) -> None:
    """The files' times are those of years ago, or of years to come, for whoever asks the clock."""
    table, _ = aged
    assert cleaned(table, {"delta.logRetentionDuration": "interval 61 hours"}) == 0


def test_a_clock_that_is_ahead_for_the_newest_commit_takes_nothing_away_that_is_young(
    aged: tuple[Files, Path],
) -> None:
    table, log = aged
    os.utime(log / f"{60:020d}.json", (NOW + 90 * DAY,) * 2)
    assert cleaned(table, {"delta.logRetentionDuration": "interval 61 hours"}) == 0
    assert readable(table) == list(range(61))


@pytest.mark.parametrize("since", [59, 57, 40, 31])
def test_a_clock_that_is_ahead_for_several_commits_takes_nothing_away_that_is_young(
    aged: tuple[Files, Path], since: int
) -> None:
    """Whether it stays so for two commits or for thirty."""
    table, log = aged
    for path in log.iterdir():
        if path.name[0] != "_" and int(path.name[:20]) >= since:
            then = path.stat().st_mtime + 90 * DAY
            os.utime(path, (then, then))
    assert cleaned(table, {"delta.logRetentionDuration": "interval 51 hours"}) == 0
    assert readable(table) == list(range(61))


def test_a_clock_that_jumps_to_and_fro_takes_nothing_away_that_is_young(aged: tuple[Files, Path]) -> None:
    table, log = aged
    for version in range(50, 60, 3):
        os.utime(log / f"{version:020d}.json", (NOW + 90 * DAY,) * 2)
    assert cleaned(table, {"delta.logRetentionDuration": "interval 61 hours"}) == 0
    assert readable(table) == list(range(61))


def test_behind_a_time_without_commits_a_log_is_cleaned_up_in_the_end(aged: tuple[Files, Path]) -> None:
    """What came before a pause of a year goes as late as if the clock had been ahead since, which the log cannot tell apart."""
    table, log = aged
    for path in log.iterdir():
        if path.name[0] != "_" and int(path.name[:20]) <= 50:
            then = path.stat().st_mtime - 365 * DAY
            os.utime(path, (then, then))
    assert cleaned(table, {"delta.logRetentionDuration": "interval 16 hours"}) > 0
    assert readable(table) == list(range(30, 61))


@pytest.mark.parametrize("ahead", [range(20, 24), range(44, 46), range(58, 61)])
def test_a_clock_that_went_ahead_for_a_while_lets_no_log_grow_for_ever(
    aged: tuple[Files, Path], ahead: range
) -> None:
    table, log = aged
    for version in ahead:
        for path in log.glob(f"{version:020d}.*"):
            os.utime(path, (NOW + 90 * DAY,) * 2)
    os.utime(log / f"{60:020d}.json", (NOW,) * 2)
    assert cleaned(table, {"delta.logRetentionDuration": "interval 8 hours"}) > 0
    assert readable(table) == list(range(45, 61))


def test_sums_of_another_writers_checkpoint_go_with_it(tmp_path: Path) -> None:
    create(tmp_path / "t", A, {"delta.checkpointInterval": "1"})
    sums = [
        tmp_path / "t" / LOG / f".{name}.crc" for name in (f"{1:020d}.checkpoint.parquet", "_last_checkpoint")
    ]
    for path in sums:
        path.write_bytes(b"crc of what was there")
    with closing(NativeCommits()) as commits:
        commit(commits, files_at(tmp_path), 0, 1)
    assert checkpoints(files_at(tmp_path / "t")) == [1]
    assert not any(path.exists() for path in sums)


def test_an_interval_that_is_no_number_is_deltas_own(tmp_path: Path) -> None:
    assert Committed(files_at(tmp_path), 1, {"delta.checkpointInterval": "often"}, None, {}).interval == 100


def test_files_whose_names_say_nothing_stay(aged: tuple[Files, Path]) -> None:
    table, log = aged
    names = [
        "00000000000000000001.00000000000000000004.compacted.json",
        "00000000000000000002.checkpoint.0a.parquet",
    ]
    for name in names:
        (log / name).write_bytes(b"")
        os.utime(log / name, (NOW - 90 * 3_600,) * 2)
    assert cleaned(table, {"delta.logRetentionDuration": "interval 20 hours"}) > 0
    assert all((log / name).exists() for name in names)


def test_words_of_a_checkpoint_that_is_not_there_yet_are_read_past(place: Files) -> None:
    """A hint, as Delta's protocol calls it: it may come from a copy of a later log."""
    create(place.below("t"), A, {"delta.checkpointInterval": "4"})
    table = place.below("t")
    with closing(NativeCommits()) as commits:
        commit(commits, place, 0, 6)
    table.put(f"{LOG}/_last_checkpoint", json.dumps({"version": 50, "size": 3}).encode())
    assert opened(table).version() == 6
    assert live_files.checkpoint_of(table, 6)[0] in checkpoints(table)
    with closing(NativeCommits()) as commits:
        commit(commits, place, 6, 8)
    assert opened(table).to_pyarrow_table().num_rows == 14
    assert last_checkpoint(table).version in checkpoints(table)
