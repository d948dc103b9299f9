"""A real Apache Kafka, broker and controller in one process, on loopback, from jars alone."""

from __future__ import annotations

import os
import subprocess
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from distributary.errors import SetupError
from distributary.ingest.spark.artifact_list import read_artifact_list
from distributary.ingest.spark.artifacts import Report, resolve, to_stderr
from distributary.ingest.spark.java import find_java
from distributary.producer_sim.stack.ports import LOOPBACK, is_open
from distributary.producer_sim.stack.service import Service

BROKER_JARS = Path(__file__).with_name("broker_jars.lock")

LOG_SETTINGS = Path(__file__).with_name("broker_log4j2.xml")

# More options for the broker's Java; Kafka's own scripts read it too.
JAVA_OPTIONS_VARIABLE = "KAFKA_JVM_PERFORMANCE_OPTS"

# Nothing expires, so that what a test or a demo sent can be counted again at any later time. Topics are made
# on purpose: a typing error in a name must not quietly become a topic.
_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{host}:{controller}
listeners=PLAINTEXT://{host}:{main},CONTROLLER://{host}:{controller}
advertised.listeners=PLAINTEXT://{host}:{main}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={data}
num.partitions=4
auto.create.topics.enable=false
log.retention.ms=-1
log.cleaner.dedupe.buffer.size=16777216
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
"""


class KafkaBroker(Service):
    """The local stack's broker; its topics are kept in the folder."""

    name = "Kafka broker"
    port_option = "--broker-port"
    port_names: tuple[str, ...] = ("main", "controller")
    java_options: Sequence[str] = ()

    def __init__(self, folder: Path, port: int | None = None, report: Report = to_stderr) -> None:
        """Manage the broker of this folder; see `Service`."""
        super().__init__(folder, port)
        self._report = report

    @property
    def bootstrap_servers(self) -> str:
        """What Kafka clients take as `bootstrap.servers`."""
        return self._address(self.port)

    def prepare(self) -> Sequence[Path]:
        """The broker's jars, fetched if they are not there yet."""
        return resolve(read_artifact_list(BROKER_JARS), self._report)

    def _command(self, ports: Mapping[str, int]) -> Sequence[str]:
        properties = self.folder / "server.properties"
        properties.write_text(self._properties(ports), encoding="utf-8")
        java = [
            str(find_java().path),
            "-Xmx512m",
            *os.environ.get(JAVA_OPTIONS_VARIABLE, "").split(),
            *self.java_options,
            "-cp",
            str(self.prepare()[0].parent / "*"),
        ]
        java += [
            f"-Dlog4j2.configurationFile={LOG_SETTINGS.resolve().as_uri()}",
            "-XX:+ExitOnOutOfMemoryError",
        ]
        if not (self.folder / "data" / "meta.properties").is_file():
            self._format(java, properties)
        return [*java, self._mark, "kafka.Kafka", str(properties)]

    def _properties(self, ports: Mapping[str, int]) -> str:
        """The broker's settings; of two lines for one the last counts."""
        return _PROPERTIES.format(host=LOOPBACK, data=self.folder / "data", **ports)

    def _format(self, java: Sequence[str], properties: Path) -> None:
        # Kafka wants its cluster id as a UUID in URL-safe base64.
        cluster = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "A", 1)
        command = [
            *java,
            "-XX:TieredStopAtLevel=1",
            "kafka.tools.StorageTool",
            "format",
            "--ignore-formatted",
        ]
        answer = subprocess.run(
            [*command, "-t", cluster, "-c", str(properties)], capture_output=True, text=True, check=False
        )
        if answer.returncode != 0:
            said = (answer.stderr or answer.stdout).strip()[-2000:]
            raise SetupError(f"the {self.name} cannot set up {self.folder / 'data'}:\n{said}")

    def _address(self, port: int) -> str:
        return f"{LOOPBACK}:{port}"

    def _ready(self) -> bool:
        # Asked only once the port is open: librdkafka says on stderr what it cannot reach.
        if not is_open(self.port):
            return False
        with suppress(KafkaException):
            admin = AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})
            return bool(admin.describe_cluster(request_timeout=5).result().nodes)
        return False
