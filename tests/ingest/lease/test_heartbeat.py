"""One run at a checkpoint in a place that knows no locks: by signs of life, whatever any clock says."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import wait
from functools import partial
from pathlib import Path

import pytest
from tests.ingest.clocks import HOUR, clock_off
from typing_extensions import Buffer

from distributary.errors import LeaseHeld
from distributary.ingest.checkpoint.folder import Checkpoint
from distributary.ingest.interruptible import aside
from distributary.ingest.lease.folder_lock import FolderLock
from distributary.ingest.lease.heartbeat import MISSED, Heartbeat
from distributary.ingest.lease.holding import held, keeper_of
from distributary.ingest.lease.keeper import HOLDER
from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.posix import PosixFiles

BEAT = 0.5


def comes_true(met: Callable[[], bool], seconds: float = 60.0) -> None:
    """Wait for a condition. Raises AssertionError where it is not met in time."""
    until = time.monotonic() + seconds
    while not met():
        assert time.monotonic() < until
        time.sleep(0.01)


# Gives a sign of life until its input ends.
OTHER = f"""
import sys
from distributary.ingest.lease.heartbeat import Heartbeat
from distributary.ingest.storage.posix import PosixFiles
heartbeat = Heartbeat(PosixFiles(sys.argv[1]), {BEAT})
assert heartbeat.acquire(b'{{"pid": 7, "host": "there", "since": "then", "pipeline": "other"}}')
print("held", flush=True)
sys.stdin.read()
heartbeat.release()
"""

ME = b'{"pid": 1, "host": "here", "since": "now", "pipeline": ""}'


@pytest.fixture(autouse=True)
def no_sign_is_given_any_more() -> Iterator[None]:
    """Who gave signs on after his test would meet the faults of the next ones."""
    yield
    assert "lease" not in {thread.name for thread in threading.enumerate()}


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return PosixFiles(str(tmp_path))


@pytest.fixture
def mine(files: Files) -> Heartbeat:
    return Heartbeat(files, BEAT)


def other(files: Files) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", OTHER, files.url]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_it_is_taken_and_given_back(files: Files) -> None:
    for _ in range(2):
        mine = Heartbeat(files, BEAT)
        assert mine.acquire(ME)
        assert json.loads(mine.holder())["host"] == "here"
        mine.release()
        assert files.info(HOLDER) is None


def test_a_living_process_keeps_others_out_until_it_ends(
    files: Files, mine: Heartbeat, tmp_path: Path
) -> None:
    with other(files) as living:
        assert not mine.acquire(ME)
        checkpoint = Checkpoint.at(tmp_path / "games")
        expected = r"games is held by pid 7 on there since then \(pipeline other\)"
        with pytest.raises(LeaseHeld, match=expected), held(checkpoint, keeper=mine):
            pytest.fail("two hold it")
        living.communicate()
    assert mine.acquire(ME)
    mine.release()


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGSTOP])
def test_a_process_that_gives_no_sign_any_more_is_followed(
    files: Files, mine: Heartbeat, end: signal.Signals
) -> None:
    with other(files) as dead:
        os.kill(dead.pid, end)
        assert mine.acquire(ME)
        assert json.loads(mine.holder())["host"] == "here"
        # Who wakes up finds somebody else's sign, gives none, and takes that one away at no end of his.
        os.kill(dead.pid, signal.SIGCONT)
        dead.communicate()
        assert json.loads(mine.holder())["host"] == "here"
        mine.release()
    assert files.info(HOLDER) is None


@pytest.mark.parametrize("off", [-HOUR, HOUR], ids=["back", "ahead"])
def test_two_machines_need_not_agree_what_time_it_is(
    files: Files, mine: Heartbeat, off: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    # That of a machine which was started at another time counts from there.
    since_start = time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: since_start() + off)
    with clock_off(off), other(files) as living:
        assert not mine.acquire(ME)
        living.kill()
        asked = time.monotonic()
        assert mine.acquire(ME)
        assert MISSED * BEAT <= time.monotonic() - asked < 10 * MISSED * BEAT
    # Who comes later, by a clock that is right, finds this one's signs.
    monkeypatch.undo()
    assert not Heartbeat(files, BEAT).acquire(ME)
    mine.release()


def test_who_was_watched_meanwhile_is_found_dead_at_once(files: Files, mine: Heartbeat) -> None:
    with other(files) as dead:
        dead.kill()
    mine.look()
    assert mine._looked is not None
    wait([mine._looked])
    asked = time.monotonic()
    assert mine.acquire(ME)
    assert time.monotonic() - asked < BEAT
    mine.release()


def test_who_came_to_life_since_he_was_looked_for_keeps_others_out(files: Files, mine: Heartbeat) -> None:
    with other(files) as dead:
        dead.kill()
    mine.look()
    alive = Heartbeat(files, BEAT)
    assert alive.acquire(ME)
    assert not mine.acquire(ME)
    alive.release()


def test_a_broken_sign_is_that_of_a_dead_one(files: Files, mine: Heartbeat) -> None:
    files.put(HOLDER, b"[]")
    assert mine.acquire(ME)
    mine.release()


def test_a_sign_that_is_missing_once_is_given_again(files: Files, mine: Heartbeat) -> None:
    assert mine.acquire(ME)
    files.delete([HOLDER])
    comes_true(lambda: files.info(HOLDER) is not None, 20 * BEAT)
    assert json.loads(mine.holder())["host"] == "here"
    with pytest.raises(LeaseHeld), held(Checkpoint(files), keeper=Heartbeat(files, BEAT)):
        pytest.fail("two hold it")
    mine.release()
    assert files.info(HOLDER) is None


class Refusing(PosixFiles):
    """A place that takes nothing while it is told so, as a store of which an object has as many versions as it may have."""

    error: OSError | None = None

    def put(self, path: str, data: Buffer, *, named_later: bool = False) -> None:
        if self.error is not None:
            raise self.error
        super().put(path, data, named_later=named_later)


@pytest.mark.parametrize("kind", [PermissionError, ConnectionError, OSError])
def test_signs_that_fail_to_come_are_told_of_each_time_that_they_do(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: type[OSError]
) -> None:
    """Whoever comes takes the run for dead and shuts it out, and nobody knew why: it may be weeks after a first time that was over at once."""
    files = Refusing(tmp_path)
    mine = Heartbeat(files, 0.01)
    assert mine.acquire(ME)

    def told() -> list[str]:
        return [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]

    for times in (1, 2):
        files.error = kind("too many versions")
        comes_true(partial(lambda many: len(told()) >= many, times))
        files.error = None
        sign = files.read(HOLDER)
        comes_true(partial(lambda before: files.read(HOLDER) != before, sign))
    mine.release()
    assert len(told()) == 2
    assert all("too many versions" in one and "takes this run for dead" in one for one in told())


class Silent(PosixFiles):
    """A place that answers nobody's reads, or puts, while it is told so, as one whose client asks again for a minute."""

    def __init__(self, root: Path) -> None:
        super().__init__(str(root))
        self.reads, self.puts = threading.Event(), threading.Event()
        self.reads.set()
        self.puts.set()
        self.waited, self.was_read = threading.Event(), threading.Event()
        self.deletes = True

    def read(self, path: str) -> bytes:
        self.reads.wait()
        found = super().read(path)
        self.was_read.set()
        return found

    def delete(self, paths: Iterable[str]) -> None:
        if not self.deletes:
            raise ConnectionError("away again")
        super().delete(paths)

    def put(self, path: str, data: Buffer, *, named_later: bool = False) -> None:
        if not self.puts.is_set():
            self.waited.set()
        self.puts.wait()
        super().put(path, data, named_later=named_later)


def test_an_end_does_not_wait_for_a_store_that_gives_no_answer(tmp_path: Path) -> None:
    """Whoever ends a run kills it after half a minute, and a store's client asks again for one, twice and more."""
    files = Silent(tmp_path)
    mine = Heartbeat(files, 0.1)
    assert mine.acquire(ME)
    files.reads.clear()
    ended = wait([aside(mine.release)], 30 * 0.1).done
    files.reads.set()
    assert ended
    # Once there is an answer its sign goes all the same.
    comes_true(lambda: files.info(HOLDER) is None)


@pytest.mark.parametrize("when", ["while it is watched for", "behind the next one's"])
def test_a_sign_that_comes_late_is_nobodys_who_lives(tmp_path: Path, when: str) -> None:
    """A run that opens its pipeline anew behind an outage took it for another run's, or gave no sign any more."""
    files, again = Silent(tmp_path), Silent(tmp_path)
    mine, mine_again = Heartbeat(files, 0.1), Heartbeat(again, 0.2)
    assert mine.acquire(ME)
    files.puts.clear()
    assert files.waited.wait(60)
    released = wait([aside(mine.release)], 30 * 0.1).done
    files.deletes = False
    if not released:
        files.puts.set()
    assert released
    acquired = aside(lambda: mine_again.acquire(ME))
    assert again.was_read.wait(60)
    if when != "while it is watched for":
        assert acquired.result()
    files.puts.set()
    assert acquired.result()

    def has_given_three() -> bool:
        sign = json.loads(again.read(HOLDER))
        return bool(sign["id"] == mine_again._id and sign["beat"] >= 3)

    comes_true(has_given_three)
    mine_again.release()
    comes_true(lambda: again.info(HOLDER) is None)


@pytest.mark.parametrize("asleep", [1, 2], ids=["of whom it followed", "of whom that one followed"])
def test_a_late_sign_of_whoever_was_found_dead_silences_nobody(tmp_path: Path, asleep: int) -> None:
    """As of a run that slept amid a put: the one that followed it gave no sign any more, and who came next took that one for dead."""
    again, sleepers = PosixFiles(str(tmp_path)), list[tuple[Silent, Heartbeat]]()
    mine = Heartbeat(again, 0.2)
    for _ in range(asleep):
        files = Silent(tmp_path)
        sleepers.append((files, Heartbeat(files, 0.1)))
        assert sleepers[-1][1].acquire(ME)
        files.puts.clear()
        assert files.waited.wait(60)
    assert mine.acquire(ME)
    for files, sleeper in sleepers:
        files.puts.set()
        assert sleeper._thread is not None
        # It finds somebody else's sign, and gives none any more.
        sleeper._thread.join(20)
        assert not sleeper._thread.is_alive()
    beat = json.loads(again.read(HOLDER))["beat"]
    comes_true(lambda: json.loads(again.read(HOLDER))["beat"] >= beat + 2)
    assert json.loads(again.read(HOLDER))["id"] == mine._id
    for _, sleeper in sleepers:
        sleeper.release()
    assert again.info(HOLDER) is not None
    mine.release()


def test_what_is_on_another_machine_has_a_sign_of_life_and_a_folder_its_locks(tmp_path: Path) -> None:
    assert isinstance(keeper_of(Checkpoint.at("s3://anywhere/games")), Heartbeat)
    assert isinstance(keeper_of(Checkpoint.at(tmp_path)), FolderLock)
