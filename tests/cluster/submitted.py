"""A pipeline of a test's own that is submitted to a cluster with the very commands of docs/how-to/clusters/standalone.md."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable
from contextlib import closing, suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, cast

import psutil
from pyspark.sql import SparkSession
from tenacity import Retrying, stop_after_delay, wait_fixed
from tests.cluster.nodes import ROOT, Cluster
from tests.conftest import INTERPRETED
from tests.ingest.e2e.pipeline_kit import PipelineKit
from tests.ingest.storage.stores import Store
from tests.jvms import SHORT_LIVED
from tests.standalone import SHORT_LIVED_BY

from distributary.ingest.failpoints import VARIABLE
from distributary.packing.archive import ARCHIVE, PROGRAM
from distributary.producer_sim.stack.local import LocalStack
from distributary.producer_sim.stack.ports import free_port

PAGE = ROOT / "docs/how-to/clusters/standalone.md"

_MASTER = "spark://master.example.com:7077"

# Far longer than anything takes, with eight processes of Java and Python that start: what hangs fails instead.
PATIENCE_SECONDS = 800.0

# What must be told nowhere.
SECRETS = {"S3_SECRET": "planted-3f9a", "KEYSTORE_PASSWORD": "planted-77c1"}


def environment(**more: str) -> dict[str, str]:
    """That of a user who has activated the virtual environment; the packages' source is this checkout's."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    kept |= {name: os.environ[name] for name in SHORT_LIVED_BY}
    path = os.pathsep.join((f"{sys.prefix}/bin", os.environ["PATH"]))
    own = {"PATH": path, "PYTHONPATH": str(ROOT / "src"), "SPARK_LOCAL_IP": "127.0.0.1"}
    return kept | own | SECRETS | more


def blocks(page: Path = PAGE) -> list[str]:
    """The commands that a page shows."""
    found = re.findall(r"(?:^ {4}.*\n)+", page.read_text(encoding="utf-8"), re.MULTILINE)
    return [re.sub(r"^ {4}", "", block, flags=re.MULTILINE) for block in found]


def first_block() -> str:
    """The command that makes the archive."""
    (found,) = [block for block in blocks() if block.startswith("distributary package")]
    return found


def _block_of(what: str) -> str:
    (found,) = [block for block in blocks() if what in block]
    return found


def program() -> str:
    """The program that the page shows."""
    (found,) = re.findall(
        r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    return str(found)


class ClusterKit(PipelineKit):
    """`PipelineKit`, run on a cluster."""

    def __init__(self, folder: Path, topic: str, stack: LocalStack, cluster: Cluster, packed: Path) -> None:
        # The driver is another process: this one has no session.
        super().__init__(folder, topic, stack, cast("SparkSession", None))
        self.cluster, self.ui = cluster, free_port()
        self._running: list[subprocess.Popen[str]] = []
        for name in (ARCHIVE, PROGRAM):
            (folder / name).symlink_to(packed / name)
        (folder / "ingest.py").write_text(program(), encoding="utf-8")
        self.events.mkdir()
        self.configured(spark={"master": self.cluster.url, "conf": self._conf()})

    def _conf(self) -> dict[str, Any]:
        return {
            "spark.driver.memory": "1g",
            "spark.executor.memory": "800m",
            "spark.executor.extraJavaOptions": SHORT_LIVED,
            # These machines have one address, and Spark would look for another one's files on the own disk.
            "spark.shuffle.readHostLocalDisk": "false",
            "spark.ui.enabled": "true",
            "spark.ui.port": str(self.ui),
            "spark.eventLog.enabled": "true",
            "spark.eventLog.compress": "false",
            "spark.eventLog.dir": self.events.as_uri(),
            **INTERPRETED,
        }

    @property
    def events(self) -> Path:
        """Where Spark keeps what it tells its history server."""
        return self.folder / "events"

    def in_s3(self, store: Store) -> ClusterKit:
        """With tables and inferred schemas in a store, reached with a secret of the driver's environment."""
        given, place = store.options_by(store.port).s3, f"{store.url}/{uuid.uuid4().hex}"
        login = {"access_key_id": "anybody", "secret_access_key": "${S3_SECRET}"}
        self.configured(
            sink={"root": f"{place}/lake"},
            storage={"s3": {"endpoint": given.endpoint, "region": given.region, "login": login}},
        )
        return self

    # Running

    def submit(self, failpoints: str = "") -> subprocess.Popen[str]:
        """`spark-submit` with the settings' file."""
        return self._start(_block_of("run games.yaml"), failpoints)

    def submit_program(self) -> subprocess.Popen[str]:
        """`spark-submit` with a program of one's own."""
        return self._start(_block_of("ingest.py"))

    def run_directly(self, failpoints: str = "", **conf: str) -> subprocess.Popen[str]:
        """`distributary run` with all that the cluster needs in the settings."""
        sent = {
            "spark.archives": f"{ARCHIVE}#distributary",
            "spark.pyspark.python": "./distributary/bin/python",
        }
        self.configured(spark={"conf": conf or sent})
        return self._start(f"exec {sys.executable} -m distributary run games.yaml --json", failpoints)

    def _start(self, commands: str, failpoints: str = "") -> subprocess.Popen[str]:
        assert self.settings_file.name == "games.yaml"
        commands = commands.replace(_MASTER, self.cluster.url)
        with (self.folder / "driver.log").open("a", encoding="utf-8") as log:
            started = subprocess.Popen(
                ["bash", "-ec", commands],
                cwd=self.folder,
                env=environment(**{VARIABLE: failpoints}),
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                # To be killed whole: Python and its JVM.
                start_new_session=True,
            )
        self._running.append(started)
        return started

    def end(self) -> None:
        """Kill what still runs."""
        for started in self._running:
            kill_group(started)
            started.communicate()

    @property
    def said(self) -> str:
        """What drivers have written to stderr so far."""
        return (self.folder / "driver.log").read_text(encoding="utf-8")

    def done(self, started: subprocess.Popen[str], code: int = 0) -> str:
        """What it prints, once it has ended."""
        printed, _ = started.communicate(timeout=PATIENCE_SECONDS)
        assert started.returncode == code, self.said
        return printed

    def wait_until(self, met: Callable[[], bool], started: subprocess.Popen[str]) -> None:
        """Wait for something to become so, while a driver runs."""
        for attempt in Retrying(stop=stop_after_delay(PATIENCE_SECONDS), wait=wait_fixed(0.3), reraise=True):
            assert started.poll() is None, self.said
            with attempt:
                assert met(), self.said

    # What Spark tells of a driver that runs

    def told(self, path: str) -> str:
        """A page of the driver's own web server."""
        with closing(HTTPConnection("127.0.0.1", self.ui, timeout=30)) as connection:
            connection.request("GET", path)
            answer = connection.getresponse()
            assert answer.status == 200, (path, answer.status)
            return answer.read().decode()

    @property
    def application(self) -> str:
        """Where the web server tells of the one application."""
        (found,) = json.loads(self.told("/api/v1/applications"))
        return f"/api/v1/applications/{found['id']}"

    def tasks_of(self, name: str) -> int:
        """How many tasks a node has at the moment."""
        mine = {int(path.name) for path in self.cluster.kept_by(name).glob(f"work/{self.application[21:]}/*")}
        stages = json.loads(self.told(f"{self.application}/stages?status=active&details=true"))
        tasks = [task for stage in stages for task in stage.get("tasks", {}).values()]
        return sum(task["status"] == "RUNNING" and int(task["executorId"]) in mine for task in tasks)


def kill_group(started: subprocess.Popen[str]) -> None:
    """`kill -9` for a driver and its JVM at once."""
    with suppress(ProcessLookupError):
        os.killpg(started.pid, signal.SIGKILL)


def has_stopped(started: subprocess.Popen[str]) -> bool:
    """Whether a process of a driver stands still."""
    driver = psutil.Process(started.pid)
    running = [driver, *driver.children(recursive=True)]
    return any(process.status() == psutil.STATUS_STOPPED for process in running)
