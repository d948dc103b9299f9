"""Where drills take place: one warm stack and one warm session for all of them, and a pipeline of its own for each round."""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pyspark.sql import SparkSession
from tests.ingest.e2e.pipeline_kit import PipelineKit
from tests.jvms import make_jvms_start_fast

from distributary.ingest.spark.session import spark_session
from distributary.producer_sim.sending.registration import Registration
from distributary.producer_sim.stack.local import LocalStack
from distributary.registry.confluent.registry import ConfluentRegistry

# Each round is of the next of these, from one that the seed chooses; formats without a registry of schemas come last.
REGISTERED = ("protobuf", "avro", "jsonschema")
FORMATS = (*REGISTERED, "json")
MODES = ("restart", "inline")

# More than a few, so that batches are several, and not so many that a round takes long.
EVENTS = 3_000


@dataclass
class World:
    """Where a drill takes place.

    rounds  how often a drill that throws dice is done
    """

    folder: Path
    stack: LocalStack
    spark: SparkSession
    seed: int
    rounds: int
    random: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self._turn = self.seed

    def pipeline(self, *, registered: bool = False, **settings: Any) -> Rounds:
        """A pipeline of the next format and the next way to evolve, over an empty topic.

        `registered`: only of those formats whose schemas a registry has.
        """
        formats = REGISTERED if registered else FORMATS
        name, mode = formats[self._turn % len(formats)], MODES[self._turn // len(formats) % len(MODES)]
        self._turn += 1
        folder = self.folder / f"{self._turn - self.seed:04d}-{name}-{mode}"
        folder.mkdir()
        kit = Rounds(folder, self.topic(), self.stack, self.spark)
        kit.format = name
        # Small, so that a file takes more than one piece, and that a run is amid one of several batches.
        limits = {"batch_rows": 1_000, "commit_threads": 1}
        kit.configured(decode={"format": name, "evolution": mode}, limits=limits)
        return kit.configured(**settings) if settings else kit

    def topic(self, name: str | None = None) -> str:
        """An empty topic with two partitions."""
        made = name or f"drill-{uuid.uuid4().hex[:8]}"
        with AdminClient({"bootstrap.servers": self.stack.bootstrap_servers}) as admin:
            admin.create_topics([NewTopic(made, num_partitions=2, replication_factor=1)])[made].result(30)
        return made

    def delete_topic(self, name: str) -> None:
        """Delete it with its records."""
        with AdminClient({"bootstrap.servers": self.stack.bootstrap_servers}) as admin:
            admin.delete_topics([name])[name].result(30)


class Rounds(PipelineKit):
    """The kit of a drill: what it sends is of its format."""

    format = "protobuf"

    def send_version(self, version: int = 1, events: int = EVENTS, **more: Any) -> None:
        """Send events of a version, some of them corrupt and some without a value."""
        chosen = {"corrupt": 0.01, "tombstones": 0.01, "games": 4, **more}
        self.simulate(version, events=events, format=self.format, **chosen)

    def registered(self, version: int) -> set[int]:
        """The ids of a version's schemas, which are registered now. The registry gives a schema that it has its old id."""
        simulation = self.simulation(version, format=self.format)
        with ConfluentRegistry(self.registry_options) as registry:
            registration = Registration(simulation, registry)
            stage = simulation.stages[-1]
            ids = {registration.register(stage, record) for record in simulation.records}
        return {one for one in ids if one is not None}


@contextmanager
def open_world(folder: Path, seed: int, rounds: int) -> Iterator[World]:
    """A broker, a registry and a session until the block ends."""
    make_jvms_start_fast()
    stack = LocalStack(folder / "stack", broker_port=0, registry_port=0, report=lambda _: None)
    stack.up()
    try:
        spark = spark_session(
            "drills",
            "local[2]",
            {
                "spark.sql.warehouse.dir": str(folder / "warehouse"),
                "spark.sql.shuffle.partitions": "2",
                "spark.default.parallelism": "2",
            },
        )
        # What fails is meant to, and what was not is told by its drill.
        spark.sparkContext.setLogLevel("OFF")
        try:
            world = World(folder, stack, spark, seed, rounds)
            _warm_up(world)
            yield world
        finally:
            spark.stop()
    finally:
        # Nobody needs any more what they hold.
        stack.broker.kill()
        stack.registry.kill()


def _warm_up(world: World) -> None:
    """The first run of a session takes three times as long as all others, and is no drill's recovery."""
    kit = world.pipeline()
    kit.send_version(1, events=300)
    kit.run()
