"""Spark's JVM dies: everything that needs it says so in one sentence, whatever it was just asked."""

from __future__ import annotations

import fcntl
import os
import socket
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml
from py4j.java_gateway import GatewayParameters, JavaClass, JavaGateway
from pyspark import SparkContext
from pyspark.sql import SparkSession

from distributary.errors import ConfigError
from distributary.ingest.interruptible import Stopped
from distributary.ingest.routing.read_ahead import _command, read_ahead
from distributary.ingest.spark.jvm import _ASKED_FOR, JvmDied, jvm_needed, require_jvm, sifted
from distributary.ingest.spark.session import spark_session
from distributary.producer_sim.stack.ports import LOOPBACK, free_port

PATIENCE_SECONDS = 240

SAID = "Spark's JVM died, and no other can be started in this process; start the run again, it goes on where it was"


def settings(folder: Path, servers: str, topic: str, registry: str) -> Path:
    file = folder / "games.yaml"
    document = {
        "name": "games",
        "source": {"kafka": {"bootstrap.servers": servers}, "topics": [topic]},
        "registry": {"url": registry},
        "decode": {"format": "protobuf"},
        "route": {"by": "field", "field": "game_name"},
        "sink": {"root": str(folder / "lake")},
        "trigger": {"available_now": True},
        "spark": {"master": "local[2]"},
    }
    file.write_text(yaml.safe_dump(document))
    return file


def the_jvm_of(process: int) -> psutil.Process:
    (found,) = [child for child in psutil.Process(process).children() if child.name() == "java"]
    return found


# A JVM of its own; lighter: test_whatever_a_dead_jvm_makes_fail_is_told_alike says the sentence of every question.
@pytest.mark.heavy
@pytest.mark.spark
def test_a_jvm_that_dies_while_kafka_is_asked_ends_the_command_with_a_sentence(tmp_path: Path) -> None:
    with socket.create_server((LOOPBACK, free_port())) as silent:
        silent.settimeout(PATIENCE_SECONDS)
        file = settings(tmp_path, f"127.0.0.1:{silent.getsockname()[1]}", "events", "http://127.0.0.1:1")
        command = [sys.executable, "-m", "distributary", "run", str(file)]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as running, silent.accept()[0]:
            the_jvm_of(running.pid).kill()
            said = running.communicate(timeout=PATIENCE_SECONDS)[1]
    assert running.returncode == 1
    assert f"error: {SAID}" in " ".join(said.split())
    assert "Traceback" not in said
    assert "Errno" not in said


def test_where_there_was_no_jvm_none_died(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SparkContext, "_gateway", None)
    require_jvm()
    with pytest.raises(OSError, match="of its own"), jvm_needed():
        raise OSError("of its own")


@pytest.fixture
def process_jvm(monkeypatch: pytest.MonkeyPatch) -> Iterator[subprocess.Popen[str]]:
    """A JVM with Py4J alone, which counts as this process's."""
    with subprocess.Popen(
        _command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        port, token = (process.stdout.readline().strip() for _ in range(2))
        gateway = JavaGateway(gateway_parameters=GatewayParameters(port=int(port), auth_token=token))
        monkeypatch.setattr(SparkContext, "_gateway", gateway)
        yield process
        gateway.close()
        process.kill()


def died(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait(PATIENCE_SECONDS)


@pytest.mark.spark
def test_whatever_a_dead_jvm_makes_fail_is_told_alike(process_jvm: subprocess.Popen[str]) -> None:
    gateway: Any = SparkContext._gateway
    system = gateway.jvm.java.lang.System
    require_jvm()
    with pytest.raises(ZeroDivisionError), jvm_needed():
        system.nanoTime()
        raise ZeroDivisionError
    died(process_jvm)
    with pytest.raises(JvmDied, match=f"^{SAID}$"), jvm_needed():
        system.nanoTime()
    with pytest.raises(JvmDied, match=f"^{SAID}$"), jvm_needed():
        gateway.jvm.java.util.HashMap()
    with pytest.raises(JvmDied):
        require_jvm()
    with pytest.raises(JvmDied):
        read_ahead("lower(a)", native=True)
    with pytest.raises(JvmDied):
        spark_session("x")


@pytest.mark.spark
def test_what_is_raised_on_purpose_is_told_though_the_jvm_died(process_jvm: subprocess.Popen[str]) -> None:
    died(process_jvm)
    for error in (ConfigError("wrong"), Stopped()):
        with pytest.raises(type(error)), jvm_needed():
            raise error


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("Picked up options\nnoise\nnoise\nlast words", "Picked up options\nnoise\nlast words"),
        ("noise\n", ""),
        ("", ""),
        ("no end", "no end"),
        ("  spaces \\n\\t%s\n-n\n", "  spaces \\n\\t%s\n-n\n"),
        ("line\n" * 20 + "noise\n", "line\n" * 20 + "noise\n"),
    ],
)
def test_of_what_a_process_says_one_of_its_first_lines_is_left_out(said: str, told: str) -> None:
    reading, writing = os.pipe()
    with sifted_into(writing) as standard_error:
        process = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=standard_error)
    os.close(writing)
    process.communicate(said.encode())
    with open(reading, encoding="utf-8") as heard:
        assert heard.read() == told


def test_what_is_said_after_something_could_not_be_written_is_told() -> None:
    """A disk that was full for a moment silenced the JVM for the rest of its life."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with sifted_into(writing) as standard_error:
        say(standard_error, b"noise\n")
        full = filled(writing)
        # Once the second is taken, the first could not be written.
        say(standard_error, b"lost\n")
        say(standard_error, b"as this may be\n")
        while full:
            full -= len(os.read(reading, full))
        say(standard_error, b"last words\n")
    os.close(writing)
    with open(reading, encoding="utf-8") as heard:
        assert heard.read().endswith("last words\n")


def test_it_ends_where_nobody_listens_any_more() -> None:
    reading, writing = os.pipe()
    with sifted_into(writing) as standard_error:
        os.close(writing)
        say(standard_error, b"noise\n")
        os.close(reading)
        os.write(standard_error, b"to nobody\n")
        with pytest.raises(BrokenPipeError):
            until(lambda: not os.write(standard_error, b"to nobody\n"))


@contextmanager
def sifted_into(writing: int) -> Iterator[int]:
    """A handle by which a process says there all but its first lines of noise."""
    ours = os.dup(2)
    with ExitStack() as held:
        try:
            os.dup2(writing, 2)
            standard_error = held.enter_context(sifted("noise"))
        finally:
            os.dup2(ours, 2)
            os.close(ours)
        assert standard_error is not None
        yield standard_error


def say(standard_error: int, what: bytes) -> None:
    """Say it, and wait until it was taken."""
    os.write(standard_error, what)
    until(lambda: not int.from_bytes(fcntl.ioctl(standard_error, termios.FIONREAD, bytes(4)), sys.byteorder))


def until(met: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not met():
        assert time.monotonic() < end
        time.sleep(0.01)


def filled(pipe: int) -> int:
    """Fill a pipe, and how many bytes that took."""
    size = 0
    with suppress(BlockingIOError):
        while True:
            size += os.write(pipe, bytes(4_096))
    return size


def test_what_pyspark_asks_for_by_a_name_alone_is_there_by_it(spark: SparkSession) -> None:
    jvm: Any = spark.sparkContext._jvm
    assert all(isinstance(getattr(jvm, name), JavaClass) for name in _ASKED_FOR)
