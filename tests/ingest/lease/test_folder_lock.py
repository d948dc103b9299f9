"""One run at a checkpoint, whatever dies: with real processes."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from threading import Timer

import psutil
import pytest

from distributary.errors import LeaseHeld
from distributary.ingest.checkpoint.folder import LEASE, Checkpoint
from distributary.ingest.lease.folder_lock import FolderLock
from distributary.ingest.lease.holding import held

# Takes the lease, says who it is, and holds it until its input ends.
HOLDER = """
import json, os, sys
from pathlib import Path
from distributary.ingest.checkpoint.folder import LEASE, Checkpoint
from distributary.ingest.lease.folder_lock import FolderLock
from distributary.ingest.lease.holding import held
folder = Path(sys.argv[1])
child = 0
with held(Checkpoint.at(folder), "holder", FolderLock(folder / "lease", wait_seconds=0.2)):
    if sys.argv[2] == "fork":
        ready, told = os.pipe()
        child = os.fork()
        if child == 0:
            os.setsid()
            os.write(told, b".")
            os.execvp("sleep", ["sleep", "300"]) if sys.argv[3] == "exec" else sys.stdin.read()
            os._exit(0)
        # A child gives up what it inherits before its fork returns, which may be long after its parent's did.
        os.read(ready, 1)
    print(json.dumps({"pid": os.getpid(), "child": child}), flush=True)
    sys.stdin.read()
"""

Hold = Callable[..., tuple["subprocess.Popen[str]", dict[str, int]]]


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    return Checkpoint.at(tmp_path / "games")


@pytest.fixture
def hold(checkpoint: Checkpoint) -> Iterator[Hold]:
    """Start a process that holds the lease; whatever of it is left is ended afterwards."""
    started: list[tuple[subprocess.Popen[str], dict[str, int]]] = []

    def start(child: str = "none", way: str = "") -> tuple[subprocess.Popen[str], dict[str, int]]:
        process = subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(checkpoint), child, way],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert process.stdout is not None
        started.append((process, {}))
        said = json.loads(process.stdout.readline())
        started[-1] = (process, said)
        return started[-1]

    yield start
    for process, said in started:
        if said.get("child"):
            with suppress(ProcessLookupError):
                os.kill(said["child"], signal.SIGKILL)
        process.kill()
        process.communicate()


def test_it_is_taken_and_given_back(checkpoint: Checkpoint) -> None:
    for _ in range(2):
        with held(checkpoint, "games"):
            holder = json.loads((Path(str(checkpoint)) / LEASE / "holder.json").read_text())
            assert holder["pid"] == os.getpid() and holder["pipeline"] == "games"
        assert not (Path(str(checkpoint)) / LEASE / "holder.json").exists()


def test_a_second_in_the_same_process_is_refused(checkpoint: Checkpoint) -> None:
    expected = rf"{re.escape(str(checkpoint))} is held by pid {os.getpid()} on .* since .*; stop it or give"
    with held(checkpoint), pytest.raises(LeaseHeld, match=expected), held(checkpoint):
        pytest.fail("two hold it")


def test_checkpoints_do_not_know_each_other(checkpoint: Checkpoint, tmp_path: Path) -> None:
    with held(checkpoint), held(Checkpoint.at(tmp_path / "other")):
        pass


def test_it_is_free_after_an_error_inside(checkpoint: Checkpoint) -> None:
    with pytest.raises(ZeroDivisionError), held(checkpoint):
        _ = 1 // 0
    with held(checkpoint):
        pass


def test_a_living_process_keeps_others_out(checkpoint: Checkpoint, hold: Hold) -> None:
    process, said = hold()
    with pytest.raises(LeaseHeld, match=f"pid {said['pid']} .*pipeline holder"), held(checkpoint):
        pytest.fail("two hold it")
    process.communicate(timeout=30)
    with held(checkpoint):
        pass


@pytest.mark.parametrize("way", ["exec", "stay"])
def test_a_child_does_not_keep_it_for_the_dead(checkpoint: Checkpoint, hold: Hold, way: str) -> None:
    process, said = hold("fork", way)
    process.kill()
    process.wait()
    with held(checkpoint):
        pass
    assert psutil.pid_exists(said["child"])


def test_a_broken_holder_file_does_not_hide_the_lock(checkpoint: Checkpoint) -> None:
    with held(checkpoint):
        (Path(str(checkpoint)) / LEASE / "holder.json").write_text("[]")
        with pytest.raises(LeaseHeld, match="another run"), held(checkpoint):
            pytest.fail("two hold it")


def test_an_earlier_versions_jvm_is_waited_for_whose_python_is_dead(
    checkpoint: Checkpoint, hold: Hold
) -> None:
    process, said = hold()
    (Path(str(checkpoint)) / LEASE / "python.lock").unlink()
    with (
        pytest.raises(LeaseHeld, match=f"pid {said['pid']}"),
        held(checkpoint, keeper=FolderLock(Path(str(checkpoint)) / LEASE, wait_seconds=0.2)),
    ):
        pytest.fail("two hold it")
    ended = Timer(0.2, process.kill)
    ended.start()
    with held(checkpoint):
        assert process.wait() == -signal.SIGKILL
    ended.join()


# They stand in one set.
@pytest.mark.parametrize(
    "answer",
    [errno.ENOLCK, *(pytest.param(one, marks=pytest.mark.heavy) for one in (errno.ENOSYS, errno.ENOTSUP))],
)
def test_where_a_file_system_has_no_locks_a_sign_of_life_is_given(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch, answer: int
) -> None:
    """Nothing rests on the lease: a pipeline can be run there all the same."""

    def refused(*_: object) -> None:
        raise OSError(answer, os.strerror(answer))

    monkeypatch.setattr(fcntl, "flock", refused)
    with held(checkpoint, "first"), pytest.raises(LeaseHeld, match="first"), held(checkpoint, "second"):
        pass
    assert not (checkpoint.folder / LEASE / "holder.json").exists()
    with held(checkpoint, "third"):
        assert json.loads((checkpoint.folder / LEASE / "holder.json").read_text())["pipeline"] == "third"
