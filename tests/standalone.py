"""A standalone cluster made from PySpark's own package: a master, and as many workers as are asked for."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from types import MappingProxyType

import pyspark
from tenacity import Retrying, stop_after_delay, wait_fixed

from distributary.producer_sim.stack.ports import free_port
from distributary.producer_sim.stack.processes import Children, ProcessId

# What says how a JVM of the tests is to run.
SHORT_LIVED_BY = ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS")

SPARK_HOME = Path(pyspark.__file__).parent

_DEPLOY = "org.apache.spark.deploy"


@dataclass
class Standalone:
    """A master on 127.0.0.1, and its workers by their names."""

    folder: Path
    port: int
    web: int
    workers: dict[str, ProcessId] = field(default_factory=dict)
    _children: Children = field(default_factory=Children)

    @property
    def url(self) -> str:
        """Spark's name for the cluster."""
        return f"spark://127.0.0.1:{self.port}"

    @property
    def log(self) -> Path:
        """What master and workers say."""
        return self.folder / "cluster.log"

    def start_worker(
        self,
        name: str,
        work: Path,
        within: Sequence[str] = (),
        home: Path = SPARK_HOME,
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Start a worker of one core whose applications run in the folder `work`; `within` is a program that starts it."""
        options = [
            "-h",
            "127.0.0.1",
            "--webui-port",
            str(free_port()),
            "-c",
            "1",
            "-m",
            "1g",
            "-d",
            str(work),
        ]
        command = self._command(f"{_DEPLOY}.worker.Worker", [*options, self.url], home, environment)
        before = self.alive()
        self.workers[name] = self._children.start([*within, *command], self.log, self.folder)
        self.wait_for(before + 1)

    def kill_worker(self, name: str) -> None:
        """End a worker's own process at once."""
        self._children.kill(self.workers.pop(name))

    def alive(self) -> int:
        """How many workers the master counts on."""
        return sum(worker["state"] == "ALIVE" for worker in self.state()["workers"])

    def wait_for(self, workers: int) -> None:
        """Wait until it counts on so many."""
        for attempt in Retrying(stop=stop_after_delay(200), wait=wait_fixed(0.3), reraise=True):
            with attempt:
                assert self.alive() == workers, self.log.read_text("utf-8")

    def state(self) -> dict[str, list[dict[str, object]]]:
        """What the master's page tells, as JSON."""
        with closing(HTTPConnection("127.0.0.1", self.web, timeout=10)) as connection:
            connection.request("GET", "/json/")
            found: dict[str, list[dict[str, object]]] = json.loads(connection.getresponse().read())
            return found

    def start_master(self) -> None:
        """Start the master and wait until it answers."""
        options = ["-h", "127.0.0.1", "-p", str(self.port), "--webui-port", str(self.web)]
        command = self._command(f"{_DEPLOY}.master.Master", options, SPARK_HOME, {})
        self.workers[""] = self._children.start(command, self.log, self.folder)
        for attempt in Retrying(stop=stop_after_delay(200), wait=wait_fixed(0.3), reraise=True):
            with attempt:
                assert self.state()["workers"] == []

    def stop(self) -> None:
        """End everything, the master last."""
        for process in reversed(list(self.workers.values())):
            self._children.stop(process, 20)

    @staticmethod
    def _command(main: str, options: Sequence[str], home: Path, environment: Mapping[str, str]) -> list[str]:
        told = {
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": os.environ[SHORT_LIVED_BY[0]],
            **environment,
        }
        given = [f"{name}={value}" for name, value in told.items()]
        return ["env", *given, str(home / "bin" / "spark-class"), main, *options]


@contextmanager
def standalone(folder: Path) -> Iterator[Standalone]:
    """A cluster that has no workers yet, until the block ends."""
    cluster = Standalone(folder, free_port(), free_port())
    try:
        cluster.start_master()
        yield cluster
    finally:
        cluster.stop()
