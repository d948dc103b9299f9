"""Where everything is measured: a broker and a registry of its own, one Spark session, a folder thrown away."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from benchmarks.sizes import Sizes
from benchmarks.watching import Watch
from pyspark.sql import SparkSession

from distributary.ingest.inputs.opening import open_source
from distributary.ingest.run import schemas_of
from distributary.ingest.schemas.subjects import inferred_subject, value_subjects
from distributary.ingest.session import spark_conf
from distributary.ingest.settings.model import Settings
from distributary.ingest.spark.session import spark_session
from distributary.producer_sim.sending.simulate import SentSoFar, simulate
from distributary.producer_sim.stack.local import LocalStack
from distributary.producer_sim.traffic.simulation import Simulation
from distributary.producer_sim.truth.sent import Truth
from distributary.registry.base import Schema
from distributary.registry.confluent.options import RegistryOptions
from distributary.registry.confluent.registry import ConfluentRegistry

# The persisted batches of the ways to compare with must never be short of memory.
DRIVER_MEMORY = "4g"


@dataclass(frozen=True)
class Topic:
    """A topic that is full, what is in it, and the schema that all of it was written with."""

    truth: Truth
    schema: Schema

    @property
    def name(self) -> str:
        """The topic's name in Kafka."""
        return self.truth.topic

    @cached_property
    def rows(self) -> dict[str, int]:
        """How many events each game has."""
        found: Counter[str] = Counter()
        for group, sent in self.truth.sent.items():
            found[group.game] += sent.rows
        return dict(found)


class World:
    """Makes topics, folders and pipelines' settings for whoever measures. Made by `open_world`."""

    def __init__(  # noqa: PLR0913, PLR0917 - one value each of what a world is made of
        self,
        sizes: Sizes,
        watch: Watch,
        stack: LocalStack,
        registry: ConfluentRegistry,
        folder: Path,
        format_name: str,
    ) -> None:
        self.sizes, self.watch, self.stack, self.registry = sizes, watch, stack, registry
        self._folder, self._format = folder, format_name
        self._count = 0
        self._topics: dict[int, Topic] = {}
        self.spark = self._session()

    def topic(self, games: int) -> Topic:
        """The topic of this many games and all the benchmark's events, filled on first use."""
        if games not in self._topics:
            self._topics[games] = self.new_topic(games, self.sizes.events)
        return self._topics[games]

    def new_topic(self, games: int, events: int) -> Topic:
        """A topic of its own, full."""
        truth = self.send(self.simulation(self.new_name(f"events-{games}"), games=games, events=events))
        return Topic(truth, self._schema_of(truth.topic))

    def _schema_of(self, topic: str) -> Schema:
        settings = self.settings(topic, self._folder, self.sizes.batch_rows)
        with (
            open_source(settings, self.spark) as kafka,
            schemas_of(settings, self.spark, kafka) as schemas,
        ):
            decode = settings.decode
            subject = inferred_subject(settings.name, decode)
            subject = subject or value_subjects(settings.source, settings.registry, decode)[0]
            (version,) = schemas.versions(subject)
            return schemas.by_ref(version.id)

    def simulation(self, topic: str, **chosen: Any) -> Simulation:
        """What to send to a topic; as everywhere here without a corrupt record."""
        given = {
            "format": self._format,
            "partitions": self.sizes.partitions,
            "seed": self.sizes.seed,
            **chosen,
        }
        return Simulation.of(bootstrap_servers=self.stack.bootstrap_servers, topic=topic, **given)

    def send(self, simulation: Simulation) -> Truth:
        """Send it, and say how far it is."""
        title = f"sending {simulation.total:,} events to {simulation.target.topic}"
        with self.watch.step(title, simulation.total) as move:

            def progress(so_far: SentSoFar) -> None:
                move(so_far.sent)

            return simulate(simulation, self.registry, progress)

    def new_name(self, kind: str) -> str:
        """A name that nothing had before."""
        self._count += 1
        return f"{kind}-{self._count}"

    def new_folder(self, name: str) -> Path:
        """An empty folder."""
        folder = self._folder / name
        folder.mkdir()
        return folder

    def settings(self, topic: str, folder: Path, batch_rows: int, **changed: Any) -> Settings:
        """A pipeline's settings, everything at its default but what must be said."""
        return Settings.model_validate(self.told(topic, folder, batch_rows, **changed))

    def told(self, topic: str, folder: Path, batch_rows: int, **changed: Any) -> dict[str, Any]:
        """The same as a user writes them into a file."""
        return {
            "name": topic,
            "source": {"kafka": {"bootstrap.servers": self.stack.bootstrap_servers}, "topics": [topic]},
            "registry": {"url": self.stack.registry_url},
            "route": {"field": "game_name", "table": "silver_{entity}_events"},
            "sink": {"root": str(folder / "lake")},
            "checkpoint": str(folder / "checkpoint"),
            "decode": {"format": self._format, "schema_location": str(self._folder / "schemas" / topic)},
            "trigger": {"available_now": True, "interval_seconds": 0},
            # Spark rounds each partition's share down: without some more a batch of a few records would be left at the end.
            "limits": {"batch_rows": batch_rows + self.sizes.partitions},
            **changed,
        }

    def renew_session(self) -> None:
        """Stop Spark's workers and start with new ones."""
        self.spark.stop()
        self.spark = self._session()

    def _session(self) -> SparkSession:
        told = self.settings("any", self._folder / "any", self.sizes.batch_rows)
        usual = spark_conf(told.spark, told.limits)
        own = {
            "spark.driver.memory": DRIVER_MEMORY,
            "spark.sql.warehouse.dir": str(self._folder / "warehouse"),
        }
        return spark_session("benchmark", conf={**usual, **own})


@contextmanager
def open_world(sizes: Sizes, watch: Watch, format_name: str = "protobuf") -> Iterator[World]:
    """A world of events in one format for as long as the block lasts; nothing of it stays."""
    with tempfile.TemporaryDirectory(prefix="distributary-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        watch.say("starting a broker, a registry and Spark")
        with (
            LocalStack(folder / "stack", broker_port=0, registry_port=0, report=watch.say) as stack,
            ConfluentRegistry(RegistryOptions(url=stack.registry_url)) as registry,
        ):
            world = World(sizes, watch, stack, registry, folder, format_name)
            try:
                yield world
            finally:
                world.spark.stop()
