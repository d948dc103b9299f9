"""Machines that share nothing but a network: workers of a standalone cluster, each in a mount namespace of its own.

A worker sees neither the driver's folders nor another worker's: not the checkout, not the virtual environment with its
Python, not the home folder, not the folder for temporary files.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import psutil
import pytest
from tests.conftest import MEMORY
from tests.jvms import SHORT_LIVED
from tests.standalone import SPARK_HOME, Standalone, standalone

from distributary.ingest.spark.artifacts import cache_folder
from distributary.ingest.spark.java import find_java

ROOT = Path(__file__).resolve().parents[2]

NAMES = ("one", "two")

_SCRIPT = Path(__file__).with_name("node.sh")

# Where a machine has what it has.
SPARK, FOLDER = Path("/mnt/spark"), Path("/mnt/node")

_JAVA = Path("/mnt/java")

# Where tests may keep their folders: while they run, temporary files are in one of these.
_TEMPORARY = (Path(tempfile.gettempdir()), MEMORY)

# A system's own Python is the machine's, not the driver's.
_OF_THE_SYSTEM = ("/usr", "/usr/local")


@dataclass(frozen=True)
class Cluster:
    """A standalone cluster whose workers are nodes. What a node keeps is in its folder, which the driver could see."""

    spark: Standalone
    folder: Path

    @property
    def url(self) -> str:
        """Spark's name for the cluster."""
        return self.spark.url

    def kept_by(self, name: str) -> Path:
        """What a node keeps, as seen from here."""
        return self.folder / name

    def start(self, name: str) -> None:
        """Start a node."""
        kept = self.kept_by(name)
        (kept / "work").mkdir(parents=True, exist_ok=True)
        told = {"SPARK_LOCAL_DIRS": str(FOLDER / "local"), "SPARK_DAEMON_JAVA_OPTS": SHORT_LIVED}
        self.spark.start_worker(name, FOLDER / "work", elsewhere(kept), SPARK, told)

    def processes(self, name: str) -> list[psutil.Process]:
        """All that runs on a node: its worker, executors and their Python workers."""
        worker = psutil.Process(self.spark.workers[name].pid)
        return [worker, *worker.children(recursive=True)]

    def freeze(self, name: str) -> None:
        """Let a node stand still: to all others it looks as if it were busy."""
        for process in self.processes(name):
            process.send_signal(signal.SIGSTOP)

    def lose(self, name: str) -> None:
        """Take a node away at once, as when its plug is pulled."""
        for process in reversed(self.processes(name)):
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self.spark.kill_worker(name)

    def sees(self, name: str, path: Path) -> list[str]:
        """What a node finds in a folder."""
        inside = Path(f"/proc/{self.spark.workers[name].pid}/root", *path.parts[1:])
        return sorted(os.listdir(inside)) if inside.is_dir() else []


@contextmanager
def cluster(folder: Path) -> Iterator[Cluster]:
    """A cluster of two nodes. Skips, with the reason, where none can be made."""
    namespace()
    with standalone(folder) as spark:
        running = Cluster(spark, folder)
        for name in NAMES:
            running.start(name)
        yield running


def elsewhere(folder: Path) -> list[str]:
    """What runs a command as on another machine, of which this folder is the disk, and without this environment."""
    (folder / "local").mkdir(parents=True, exist_ok=True)
    place = [str(folder), str(SPARK_HOME), str(find_java().home), ":".join(map(str, hidden()))]
    own = {"PATH": "/usr/bin:/bin", "JAVA_HOME": str(_JAVA), "HOME": str(FOLDER)}
    clean = ["env", "-i", *(f"{variable}={value}" for variable, value in own.items())]
    return [*namespace(), "sh", str(_SCRIPT), *place, *clean]


def hidden() -> list[Path]:
    """The driver's folders; none is in another."""
    own = [
        ROOT,
        Path(sys.prefix),
        Path(sys.base_prefix),
        Path.home(),
        *_TEMPORARY,
        cache_folder(),
    ]
    there = {path.resolve() for path in own if path.is_dir() and str(path.resolve()) not in _OF_THE_SYSTEM}
    return sorted(path for path in there if not there.intersection(path.parents))


@cache
def namespace() -> Sequence[str]:
    """What runs a command with mounts of its own: as root, or as who is taken for root there."""
    try_ = ["mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    said = ""
    for command in (["unshare", "--mount"], ["unshare", "--map-root-user", "--mount"]):
        try:
            done = subprocess.run([*command, *try_], capture_output=True, text=True, check=False)
        except FileNotFoundError:
            pytest.skip("there is no `unshare` here, by which workers get mounts of their own")
        if done.returncode == 0:
            return command
        said = done.stderr.strip()
    pytest.skip(
        f"no mount namespace may be made here ({said}), so no worker can be kept from the driver's folders"
    )
