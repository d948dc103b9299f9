"""When a run keeps tables up by itself, and what it tells of a process that fails, is ended or is not needed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, cast

import pytest
from tests.ingest.pipelines import settings

from distributary.ingest.settings.model import Settings
from distributary.ingest.storage.posix import PosixFiles
from distributary.ingest.upkeep import in_runs
from distributary.ingest.upkeep.in_runs import MARK, UpkeepInRuns
from distributary.producer_sim.stack.ports import free_port

HOUR = 3600.0

DONE = "upkeep: 0 files compacted into 0, 0 deleted in 0 tables"


class Clock:
    """What an upkeep waits by: it stands until it is turned."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def checkpoint(tmp_path: Path) -> PosixFiles:
    (tmp_path / "checkpoint").mkdir()
    return PosixFiles(tmp_path / "checkpoint")


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def upkeep(tmp_path: Path, checkpoint: PosixFiles, clock: Clock) -> UpkeepInRuns:
    """That of a pipeline without a table, every six hours."""
    return UpkeepInRuns(kept_up(tmp_path, every_hours=6), checkpoint, clock)


def kept_up(folder: Path, **rule: Any) -> Settings:
    """Settings that say so."""
    (folder / "lake").mkdir(exist_ok=True)
    return settings(folder, sink={"root": str(folder / "lake"), "maintain": rule})


def finished(upkeep: UpkeepInRuns) -> list[str]:
    upkeep.finish(threading.Event())
    return upkeep.told()


def instead(monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    """Have another program run in the place of upkeep's."""
    monkeypatch.setattr(in_runs, "_COMMAND", (sys.executable, "-c", program))


def test_it_is_done_once_in_its_time_by_whichever_run(
    tmp_path: Path, upkeep: UpkeepInRuns, checkpoint: PosixFiles, clock: Clock
) -> None:
    assert finished(upkeep) == [DONE]
    assert json.loads(checkpoint.read(MARK)) == {"done": DONE.removeprefix("upkeep: ")}
    clock.now += 5 * HOUR
    assert finished(upkeep) == []
    another = UpkeepInRuns(kept_up(tmp_path, every_hours=6), checkpoint)
    assert finished(another) == []
    long_ago = time.time() - 6.1 * HOUR
    os.utime(tmp_path / "checkpoint" / MARK, (long_ago, long_ago))
    clock.now += 2 * HOUR
    assert finished(upkeep) == [DONE]


def test_a_mark_of_a_clock_that_was_ahead_says_nothing_and_is_made_anew(
    tmp_path: Path, upkeep: UpkeepInRuns, checkpoint: PosixFiles, clock: Clock
) -> None:
    checkpoint.put(MARK, b"{}")
    next_year = time.time() + 365 * 24 * HOUR
    os.utime(tmp_path / "checkpoint" / MARK, (next_year, next_year))
    assert finished(upkeep) == [DONE]
    assert finished(UpkeepInRuns(kept_up(tmp_path), checkpoint)) == []


def test_what_was_done_counts_though_a_library_ends_the_process_behind_it(
    upkeep: UpkeepInRuns, checkpoint: PosixFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be done once more each hour otherwise."""
    instead(monkeypatch, """import os; print('{"done": "all"}', flush=True); os.abort()""")
    assert finished(upkeep) == ["upkeep: all"]
    assert json.loads(checkpoint.read(MARK)) == {"done": "all"}


def test_without_a_rule_nothing_is_done(tmp_path: Path, checkpoint: PosixFiles) -> None:
    assert finished(UpkeepInRuns(settings(tmp_path), checkpoint)) == []
    assert list(checkpoint.names()) == []


def test_what_fails_is_told_and_not_tried_again_at_once(
    tmp_path: Path, checkpoint: PosixFiles, clock: Clock
) -> None:
    login = {"access_key_id": "anybody", "secret_access_key": "anything"}
    nobody = {"endpoint": f"http://127.0.0.1:{free_port()}", "region": "us-east-1", "login": login}
    given = settings(
        tmp_path,
        sink={"root": "s3://lake/games", "maintain": {}},
        storage={"s3": nobody, "http": {"retry_seconds": 0}},
    )
    upkeep = UpkeepInRuns(given, checkpoint, clock)
    (told,) = finished(upkeep)
    assert told.startswith("upkeep: s3://lake/games")
    assert "nothing was changed" in told
    assert list(checkpoint.names()) == []
    clock.now += HOUR / 2
    assert finished(upkeep) == []
    clock.now += HOUR
    assert len(finished(upkeep)) == 1


def test_where_a_table_fails_the_others_are_not_kept_up_again_at_once(
    upkeep: UpkeepInRuns, checkpoint: PosixFiles, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    told = json.dumps({"done": "all but one", "failed": "one: you may not"})
    instead(monkeypatch, f"print({told!r})")
    assert finished(upkeep) == ["upkeep: all but one; one: you may not"]
    clock.now += 2 * HOUR
    assert finished(upkeep) == []
    assert list(checkpoint.names()) == [MARK]


def test_what_a_notebook_puts_on_its_path_ends_no_run(
    upkeep: UpkeepInRuns, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path, tmp_path])
    assert finished(upkeep) == [DONE]
    monkeypatch.setattr(sys, "path", [*sys.path, "\0"])
    another = UpkeepInRuns(kept_up(tmp_path), PosixFiles(tmp_path / "lake"))
    (told,) = finished(another)
    assert told.startswith("upkeep could not be begun: ")


def test_a_process_that_dies_is_told(upkeep: UpkeepInRuns, monkeypatch: pytest.MonkeyPatch) -> None:
    instead(monkeypatch, "import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    assert finished(upkeep) == ["upkeep ended with -9 before it was done; `distributary maintain` says more"]


def stopped(upkeep: UpkeepInRuns) -> None:
    """As a run does that is told to stop while it waits."""
    stop = threading.Event()
    stop.set()
    upkeep.finish(stop)
    upkeep.close()


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ('a library\'s word\n{"done": "nothing"}', "upkeep: nothing"),
        ("", "upkeep ended with 0 before it was done; `distributary maintain` says more"),
        ("no JSON", "upkeep ended with 0 before it was done; `distributary maintain` says more"),
    ],
)
def test_whatever_a_process_says_the_run_goes_on(
    upkeep: UpkeepInRuns, monkeypatch: pytest.MonkeyPatch, said: str, told: str
) -> None:
    instead(monkeypatch, f"print({said!r}, end='')")
    assert finished(upkeep) == [told]


@pytest.mark.parametrize("end", [UpkeepInRuns.close, stopped])
def test_a_run_that_ends_takes_it_along(
    upkeep: UpkeepInRuns,
    checkpoint: PosixFiles,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    end: Callable[[UpkeepInRuns], None],
) -> None:
    there = tmp_path / "pid"
    instead(
        monkeypatch, f"import os, signal; open({str(there)!r}, 'w').write(str(os.getpid())); signal.pause()"
    )
    upkeep.look()
    until = time.monotonic() + 60
    while not there.exists() or not there.read_text():
        assert time.monotonic() < until
    end(upkeep)
    with pytest.raises(ProcessLookupError):
        os.kill(int(there.read_text()), 0)
    assert (upkeep.told(), list(checkpoint.names())) == ([], [])


@pytest.mark.skipif(sys.platform != "linux", reason="no other system tells so of a process")
def test_a_process_that_waits_for_ever_keeps_no_run_from_its_end(
    tmp_path: Path, checkpoint: PosixFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a disk that does not answer: nobody is there to end it, and the next runs find the lease held."""
    monkeypatch.setattr(in_runs, "_IDLE_SECONDS", 0.3)
    instead(monkeypatch, "import signal; signal.pause()")
    upkeep = UpkeepInRuns(kept_up(tmp_path), checkpoint)
    [told] = finished(upkeep)
    assert told.startswith("upkeep has done nothing for 0.005 minutes")
    assert list(checkpoint.names()) == []


def test_a_process_that_works_is_waited_for(
    upkeep: UpkeepInRuns, clock: Clock, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """However long that takes, as with tables of terabytes."""
    there, looks = tmp_path / "there", iter(range(10**9))

    def worked(_: int) -> int:
        clock.now += HOUR
        if next(looks):
            there.touch()
        return next(looks)

    monkeypatch.setattr(in_runs, "_worked", worked)
    instead(
        monkeypatch,
        f"""import os
while not os.path.exists({str(there)!r}):
    pass
print('{{"done": "all"}}')""",
    )
    assert finished(upkeep) == ["upkeep: all"]


class Unreachable:
    """A process that waits for a disk, which no signal ends."""

    def terminate(self) -> None:
        return

    kill = terminate

    def wait(self, seconds: float | None = None) -> None:
        if seconds is None:
            raise AssertionError("it is waited for without an end")
        raise subprocess.TimeoutExpired("upkeep", seconds)


def test_a_process_that_nothing_ends_is_left_alone(upkeep: UpkeepInRuns) -> None:
    with TemporaryFile() as output:
        upkeep._under_way = in_runs._UnderWay(cast("Any", Unreachable()), output, 0.0)
        upkeep.close()
        assert output.closed
