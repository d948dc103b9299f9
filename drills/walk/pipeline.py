"""The pipeline that is walked: what its settings say now, its topics, and what its tables hold."""

from __future__ import annotations

import os
import random
import shutil
import uuid
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions
from drills.walk.model import APPENDED, TOLD, UPSERTED, Model, Place, Row
from drills.walk.sending import Fields, Sender
from drills.world import World
from tests.ingest.e2e.keyed import rows_of
from tests.ingest.e2e.pipeline_kit import PipelineKit

from distributary.ingest import failpoints
from distributary.ingest.quarantine.rows import of_quarantine
from distributary.ingest.quarantine.whose import whose_are
from distributary.ingest.storage.opening import open_files

AGGREGATE = {"rows": "count(*)", "total": "sum(score)", "last": "max(uid)"}

# Where everything is that a backup has, below the pipeline's folder.
_PLACES = ("lake", "checkpoints", "schemas")


@dataclass(frozen=True)
class Shape:
    """What the seed decides for a whole walk."""

    format: str
    evolution: str
    batch_rows: int
    commit_threads: int
    apart: dict[str, Any]

    @classmethod
    def thrown(cls, dice: random.Random) -> Shape:
        """By the dice."""
        return cls(
            format=dice.choice(("avro", "avro", "json")),
            evolution=dice.choice(("restart", "inline")),
            batch_rows=dice.choice((40, 1000)),
            commit_threads=dice.choice((1, 4)),
            apart=dice.choice(({}, {"partition_by": ["op"]}, {"cluster_by": ["who"]})),
        )


@dataclass
class Said:
    """What the settings say by now: the parts that operations change.

    number  how often everything was to be read once more, by which tables are called
    turns   how many checkpoints there were
    left_out the last letter of a topic that is not read for now
    """

    name: str = "walk"
    number: int = 0
    turns: int = 0
    start: str = "resume"
    confirmed: tuple[str, ...] = ()
    stuck: str = "stop"
    left_out: str = ""

    @property
    def checkpoint(self) -> str:
        """Where it is."""
        return f"./checkpoints/{self.turns}"


@dataclass
class Backup:
    """A copy of everything, and what was true then."""

    folder: Path
    said: Said
    model: Model
    left: dict[str, list[Row]]


@dataclass
class State:
    """What is known of a walk beside its model.

    whole    whether all that was taken is in its place, as no run has died since
    current  whether the derived tables are, too
    begun    the commands that died, each of which is to be said again before anything is held against the model
    upkept   whether files may be gone since that tell what a run has left that died
    left     rows of tables that no run writes to any more
    topics   how many partitions each has
    records  sent so far
    """

    whole: bool = True
    upkept: bool = False
    current: bool = False
    begun: set[str] = field(default_factory=set)
    left: dict[str, list[Row]] = field(default_factory=dict)
    topics: dict[str, int] = field(default_factory=dict)
    backup: Backup | None = None
    records: int = 0

    @property
    def is_settled(self) -> bool:
        """Whether what the model says has to be there now."""
        return self.whole and not self.begun


@dataclass
class Walk:
    """One walk under way."""

    world: World
    kit: PipelineKit
    shape: Shape
    sender: Sender
    model: Model = field(default_factory=Model)
    fields: Fields = field(default_factory=Fields)
    said: Said = field(default_factory=Said)
    state: State = field(default_factory=State)

    @classmethod
    def begun_by(cls, world: World, dice: random.Random) -> Walk:
        """A pipeline of a shape that the dice choose, over an empty topic."""
        shape = Shape.thrown(dice)
        topic = world.topic(f"walk-{uuid.uuid4().hex[:8]}-a")
        folder = world.folder / topic
        folder.mkdir()
        kit = PipelineKit(folder, topic, world.stack, world.spark)
        sender = Sender(kit.bootstrap_servers, kit.registry_options, shape.format)
        walk = cls(world, kit, shape, sender)
        walk.state.topics[topic] = 2
        walk.configure()
        return walk

    # Settings

    def configure(self) -> None:
        """Have the settings say what is said by now."""
        said, shape = self.said, self.shape
        expect = {} if self.model.limit is None else {"small": self._small(self.model.limit)}
        keyed = {"keys": ["who"], "sequence_by": ["at"], "deletes": "op = 'd'", "expect": expect}
        self.kit.configured(
            name=said.name,
            checkpoint=said.checkpoint,
            start=said.start,
            confirm_dead=list(said.confirmed),
            source={"topics": [f"/{self.prefix}[^{said.left_out or '-'}]/"]},
            route={"field": "game", "table": f"silver{said.number}_{{entity}}"},
            decode={
                "format": shape.format,
                "evolution": shape.evolution,
                "schema_location": "./schemas/walk",
                **({"schema_hints": "at timestamp"} if shape.format == "json" else {}),
            },
            limits={"batch_rows": shape.batch_rows, "commit_threads": shape.commit_threads},
            policies={"stuck_table": said.stuck},
            bronze={"table": f"bronze{said.number}"},
            tables=[
                {"match": f"{APPENDED}*", "expect": expect, **shape.apart},
                {"match": f"{UPSERTED}*", "mode": "upsert", **keyed},
                {"match": f"{TOLD}*", "mode": "history", "history": {"ignore": ["uid", "op"]}, **keyed},
            ],
            derive=[{"table": "gold_{entity}", "aggregate": {"by": ["who"], "columns": AGGREGATE}}],
        )

    @staticmethod
    def _small(limit: int) -> dict[str, str]:
        return {"condition": f"score < {limit}", "otherwise": "quarantine"}

    @property
    def prefix(self) -> str:
        """How the names of all its topics begin."""
        return self.kit.topic[: -len("a")]

    def table_of(self, entity: str) -> str:
        """The folder of an entity's table."""
        return f"silver{self.said.number}_{entity}"

    # Topics

    def add_topic(self) -> None:
        """One more that fits the pattern."""
        name = f"{self.prefix}{chr(ord('a') + len(self.state.topics))}"
        self.world.topic(name)
        self.state.topics[name] = 2

    def make_anew(self, topic: str) -> None:
        """Another one in the place of a topic, which has its name and none of its records."""
        self.world.delete_topic(topic)
        self.world.topic(topic)
        self.state.topics[topic] = 2

    def add_partition(self, topic: str) -> None:
        """One more of a topic."""
        count = self.state.topics[topic] + 1
        with AdminClient({"bootstrap.servers": self.kit.bootstrap_servers}) as admin:
            admin.create_partitions([NewPartitions(topic, count)])[topic].result(30)
            # The broker learns of the controller's deeds a moment later.
            while len(admin.list_topics(topic, timeout=30).topics[topic].partitions) < count:
                continue
        self.state.topics[topic] = count

    # Copies

    def copied(self, name: str) -> Path:
        """A copy of everything under this name."""
        to = self.kit.folder / name
        shutil.rmtree(to, ignore_errors=True)
        for place in _PLACES:
            if (self.kit.folder / place).is_dir():
                shutil.copytree(self.kit.folder / place, to / place)
        return to

    def put_back(self, copy: Path, *places: str) -> None:
        """What is in a copy in the place of what is there; by default everything."""
        for place in places or _PLACES:
            shutil.rmtree(self.kit.folder / place, ignore_errors=True)
            if (copy / place).is_dir():
                shutil.copytree(copy / place, self.kit.folder / place)

    # What the tables hold

    def rows(self, folder: str) -> list[Row]:
        """The rows of a table; none where it is not there."""
        return rows_of(self.kit, folder)

    def waiting(self) -> Counter[Place]:
        """Where the records are in Kafka that wait in quarantine, and how often each does."""
        settings = self.kit.settings
        root = open_files(settings.sink.root, settings.storage)
        found: Counter[Place] = Counter()
        for rows in of_quarantine(root, whose_are(settings, root)):
            found.update(place_of(row) for row in rows.to_pylist() if not row["resolved"])
        return found


def place_of(row: Row) -> Place:
    """Where a row's record is in Kafka."""
    return row["kafka_topic"], row["kafka_partition"], row["kafka_offset"]


def arm(point: str | None) -> None:
    """Have this process's next run end at this point; None: at none."""
    failpoints._fired.clear()
    if point is None:
        os.environ.pop(failpoints.VARIABLE, None)
    else:
        os.environ[failpoints.VARIABLE] = f"{point}=fail"
