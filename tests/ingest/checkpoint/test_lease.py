"""One writer a checkpoint, whatever dies: with real processes and real JVMs."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from threading import Event

import psutil
import pytest
from pyspark.sql import SparkSession

from distributary.errors import LeaseHeld
from distributary.ingest.checkpoint.folder import Checkpoint
from distributary.ingest.checkpoint.lease import Lease

# Takes the lease, with Spark or without, says who it is, and holds it until its input ends.
HOLDER = """
import json, os, sys
from pathlib import Path
from distributary.ingest.checkpoint.folder import Checkpoint
from distributary.ingest.checkpoint.lease import Lease
spark, child, jvm = None, 0, 0
if sys.argv[2] == "spark":
    from pyspark.sql import SparkSession
    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    jvm = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()
with Lease(Checkpoint(Path(sys.argv[1])), spark, "holder", wait_seconds=0.2):
    if sys.argv[3] == "fork":
        ready, told = os.pipe()
        child = os.fork()
        if child == 0:
            os.setsid()
            os.write(told, b".")
            os.execvp("sleep", ["sleep", "300"]) if sys.argv[4] == "exec" else sys.stdin.read()
            os._exit(0)
        # A child gives up what it inherits before its fork returns, which may be long after its parent's did.
        os.read(ready, 1)
    if sys.argv[3] == "jvm-child":
        command = spark.sparkContext._gateway.new_array(spark.sparkContext._jvm.java.lang.String, 2)
        command[0], command[1] = "sleep", "300"
        child = spark.sparkContext._jvm.java.lang.ProcessBuilder(command).start().pid()
    if sys.argv[3] == "workers":
        spark.range(4).rdd.map(lambda n: n).collect()
    print(json.dumps({"pid": os.getpid(), "jvm": jvm, "child": child}), flush=True)
    sys.stdin.read()
"""

Hold = Callable[..., tuple["subprocess.Popen[str]", dict[str, int]]]


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    return Checkpoint(tmp_path / "games")


@pytest.fixture
def hold(checkpoint: Checkpoint) -> Iterator[Hold]:
    """Start a process that holds the lease; whatever of it is left is ended afterwards."""
    started: list[tuple[subprocess.Popen[str], dict[str, int]]] = []

    def start(
        spark: str = "alone", child: str = "none", way: str = ""
    ) -> tuple[subprocess.Popen[str], dict[str, int]]:
        process = subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(checkpoint.folder), spark, child, way],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
        )
        assert process.stdout is not None
        started.append((process, {}))
        said = json.loads(process.stdout.readline())
        started[-1] = (process, said)
        return started[-1]

    yield start
    for process, said in started:
        for pid in (said.get("child"), said.get("jvm")):
            if pid:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        process.kill()
        process.communicate()


def wait_until_dead(pid: int) -> None:
    """Dead, though its parent may not have taken notice yet.

    The first thread of many can be a zombie while others still end; files and locks are let go by the last one.
    """
    pause, threads = Event(), Path(f"/proc/{pid}/task")
    with suppress(psutil.NoSuchProcess, FileNotFoundError):
        while psutil.Process(pid).status() != psutil.STATUS_ZOMBIE or len(os.listdir(threads)) > 1:
            pause.wait(0.02)


def test_it_is_taken_and_given_back(checkpoint: Checkpoint) -> None:
    for _ in range(2):
        with Lease(checkpoint, None, "games") as lease:
            lease.confirm()
            holder = json.loads((checkpoint.lease / "holder.json").read_text())
            assert holder["pid"] == os.getpid() and holder["pipeline"] == "games"
        assert not (checkpoint.lease / "holder.json").exists()


def test_a_second_in_the_same_process_is_refused(checkpoint: Checkpoint) -> None:
    expected = (
        rf"{re.escape(str(checkpoint.folder))} is held by pid {os.getpid()} on .* since .*; stop it or give"
    )
    with Lease(checkpoint, None) as first:
        with pytest.raises(LeaseHeld, match=expected), Lease(checkpoint, None):
            pytest.fail("two hold it")
        first.confirm()


def test_checkpoints_do_not_know_each_other(checkpoint: Checkpoint, tmp_path: Path) -> None:
    with Lease(checkpoint, None), Lease(Checkpoint(tmp_path / "other"), None) as other:
        other.confirm()


def test_it_is_free_after_an_error_inside(checkpoint: Checkpoint) -> None:
    with pytest.raises(ZeroDivisionError), Lease(checkpoint, None):
        _ = 1 // 0
    with Lease(checkpoint, None) as lease:
        lease.confirm()


def test_a_living_process_keeps_others_out(checkpoint: Checkpoint, hold: Hold) -> None:
    process, said = hold()
    with pytest.raises(LeaseHeld, match=f"pid {said['pid']} .*pipeline holder"), Lease(checkpoint, None):
        pytest.fail("two hold it")
    process.communicate(timeout=30)
    with Lease(checkpoint, None) as lease:
        lease.confirm()


@pytest.mark.parametrize("way", ["exec", "stay"])
def test_a_child_does_not_keep_it_for_the_dead(checkpoint: Checkpoint, hold: Hold, way: str) -> None:
    process, said = hold("alone", "fork", way)
    process.kill()
    process.wait()
    with Lease(checkpoint, None) as lease:
        lease.confirm()
    assert psutil.pid_exists(said["child"])


def test_a_lock_folder_removed_by_hand_is_noticed(checkpoint: Checkpoint) -> None:
    with Lease(checkpoint, None) as first:
        for file in checkpoint.lease.iterdir():
            file.unlink()
        with pytest.raises(LeaseHeld, match="was lost"):
            first.confirm()
        with Lease(checkpoint, None) as second:
            second.confirm()
            with pytest.raises(LeaseHeld, match="was lost"):
                first.confirm()


def test_a_broken_holder_file_does_not_hide_the_lock(checkpoint: Checkpoint) -> None:
    with Lease(checkpoint, None):
        (checkpoint.lease / "holder.json").write_text("[]")
        with pytest.raises(LeaseHeld, match="another run"), Lease(checkpoint, None):
            pytest.fail("two hold it")


@pytest.mark.spark
def test_with_spark_it_is_taken_and_given_back(checkpoint: Checkpoint, spark: SparkSession) -> None:
    properties = spark.sparkContext._jvm.java.lang.System.getProperties()  # type: ignore[union-attr]
    before = properties.size()
    for _ in range(2):
        with Lease(checkpoint, spark) as lease:
            lease.confirm()
            assert properties.size() == before + 1
    assert properties.size() == before


@pytest.mark.spark
def test_two_of_one_jvm_are_refused(checkpoint: Checkpoint, spark: SparkSession) -> None:
    with Lease(checkpoint, spark) as first:
        with pytest.raises(LeaseHeld), Lease(checkpoint, spark):
            pytest.fail("two hold it")
        first.confirm()
        # Even if Python's half were free, its JVM would say no: it knows its own locks.
        (checkpoint.lease / "python.lock").unlink()
        with pytest.raises(LeaseHeld), Lease(checkpoint, spark, wait_seconds=0):
            pytest.fail("two hold it")
        with pytest.raises(LeaseHeld), Lease(checkpoint, None, wait_seconds=0):
            pytest.fail("fcntl's lock is the JVM's")
    with Lease(checkpoint, spark) as lease:
        lease.confirm()


@pytest.mark.spark
def test_a_jvm_whose_python_was_killed_is_waited_for(
    checkpoint: Checkpoint, hold: Hold, spark: SparkSession
) -> None:
    process, said = hold("spark", "workers")
    with pytest.raises(LeaseHeld, match=f"pid {said['pid']}"), Lease(checkpoint, spark):
        pytest.fail("two hold it")
    os.kill(said["jvm"], signal.SIGSTOP)
    process.kill()
    process.wait()
    # Python is dead and its lock free, the JVM cannot notice: it must not be robbed.
    with pytest.raises(LeaseHeld, match=f"pid {said['pid']}"), Lease(checkpoint, spark, wait_seconds=0.5):
        pytest.fail("the living was robbed")
    os.kill(said["jvm"], signal.SIGCONT)
    with Lease(checkpoint, spark) as lease:
        lease.confirm()
        wait_until_dead(said["jvm"])


# A child of Python, which inherits as much, is in test_a_child_does_not_keep_it_for_the_dead.
@pytest.mark.spark
@pytest.mark.heavy
def test_a_child_of_the_jvm_does_not_keep_it_for_the_dead(
    checkpoint: Checkpoint, hold: Hold, spark: SparkSession
) -> None:
    process, said = hold("spark", "jvm-child")
    os.kill(said["jvm"], signal.SIGKILL)
    process.kill()
    process.wait()
    wait_until_dead(said["jvm"])
    assert psutil.pid_exists(said["child"])
    with Lease(checkpoint, spark, wait_seconds=0) as lease:
        lease.confirm()


@pytest.mark.spark
def test_a_python_without_its_jvm_has_lost_the_lease_and_still_keeps_others_out(
    checkpoint: Checkpoint, hold: Hold
) -> None:
    process, said = hold("spark")
    os.kill(said["jvm"], signal.SIGKILL)
    wait_until_dead(said["jvm"])
    with pytest.raises(LeaseHeld, match=f"pid {said['pid']}"), Lease(checkpoint, None):
        pytest.fail("two hold it")
    process.communicate(timeout=30)
    assert process.returncode == 0, "letting go of a lock that died with its JVM is no error"
    with Lease(checkpoint, None) as lease:
        lease.confirm()
