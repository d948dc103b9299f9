"""Where examples are played: a broker and a registry of their own, and a folder that is thrown away."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from confluent_kafka import OFFSET_END, Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from deltalake import DeltaTable, QueryBuilder

from distributary.errors import CheckFailed
from distributary.producer_sim.stack.local import LocalStack

_PATIENCE_SECONDS = 300.0

HERE = Path(__file__).resolve().parent

# As docs/how-to/names-in-a-catalog.md has it.
_BY_NAME = """
import json, sys
from distributary import spark_session

conf = {
    "spark.sql.catalogImplementation": "hive",
    "spark.sql.warehouse.dir": "metastore/warehouse",
    "spark.hadoop.javax.jdo.option.ConnectionURL": "jdbc:derby:;databaseName=metastore/derby",
}
print(json.dumps(spark_session("reading", conf=conf).sql(sys.argv[1]).toJSON().collect()))
"""


@dataclass(frozen=True, slots=True)
class Sent:
    """A record as it stands in Kafka."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None


@dataclass(frozen=True, slots=True)
class Stage:
    """One example's place.

    folder  a copy of the example's own, in which its commands run
    """

    folder: Path
    bootstrap_servers: str
    registry_url: str

    def distributary(self, *arguments: str) -> str:
        """A command as a user says it; what it printed. Raises CheckFailed where it did not end well."""
        done = subprocess.run(
            [sys.executable, "-m", "distributary", *arguments],
            cwd=self.folder,
            env={**os.environ, "KAFKA": self.bootstrap_servers, "REGISTRY": self.registry_url},
            capture_output=True,
            text=True,
            timeout=_PATIENCE_SECONDS,
            check=False,
        )
        if done.returncode:
            said = done.stderr.strip().splitlines()[-3:]
            raise CheckFailed(
                f"distributary {' '.join(arguments)} ended with {done.returncode}: {' '.join(said)}"
            )
        return done.stdout

    def by_name(self, query: str) -> list[dict[str, Any]]:
        """The rows that another program finds by the names of the catalog. Raises CheckFailed where it finds none of that name."""
        done = subprocess.run(
            [sys.executable, "-c", _BY_NAME, query],
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=_PATIENCE_SECONDS,
            check=False,
        )
        if done.returncode:
            raise CheckFailed(f"{query} ended with {done.returncode}: {done.stderr}")
        return [json.loads(row) for row in json.loads(done.stdout.splitlines()[-1])]

    def send(self, topic: str, records: Iterable[tuple[bytes | None, bytes | None]]) -> None:
        """Send keys and values, each key to a partition of its own choice."""
        producer = Producer({"bootstrap.servers": self.bootstrap_servers, "acks": "all", "log_level": 3})
        for key, value in records:
            producer.produce(topic, value=value, key=key)
            producer.poll(0)
        if left := producer.flush(60):
            raise CheckFailed(f"{left} records could not be sent to {topic}")

    def make_topic(self, name: str, partitions: int = 2, *, compacted: bool = False) -> None:
        """Make an empty topic, which keeps the newest record of each key if it is to be `compacted`."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 3})
        policy = {"cleanup.policy": "compact"} if compacted else {}
        topic = NewTopic(name, num_partitions=partitions, replication_factor=1, config=policy)
        admin.create_topics([topic])[name].result()

    def forget(self, topic: str) -> None:
        """Have Kafka forget all that the topic has, as it does in time."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 3})
        numbers = admin.list_topics(topic, timeout=30).topics[topic].partitions
        ends = [TopicPartition(topic, number, OFFSET_END) for number in numbers]
        for done in admin.delete_records(ends).values():
            done.result(30)

    def sent(self, topic: str) -> list[Sent]:
        """All that the topic has, in the order of its partitions."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap_servers,
                "group.id": "examples",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
            }
        )
        try:
            numbers = sorted(consumer.list_topics(topic, timeout=30).topics[topic].partitions)
            return [one for number in numbers for one in _partition(consumer, topic, number)]
        finally:
            consumer.close()

    def table(self, name: str, lake: str = "lake") -> DeltaTable:
        """A table of the example's lake, or of another one of its folders."""
        return DeltaTable(str(self.folder / lake / name))

    def rows(self, name: str, lake: str = "lake") -> pa.Table:
        """All its rows, those that are marked as gone left out."""
        found = QueryBuilder().register("rows", self.table(name, lake)).execute("SELECT * FROM rows")
        return pa.table(found.read_all() if hasattr(found, "read_all") else found)


def _partition(consumer: Consumer, topic: str, number: int) -> Iterator[Sent]:
    first, end = consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=30)
    consumer.assign([TopicPartition(topic, number, first)])
    while first < end:
        message = consumer.poll(30)
        error = None if message is None else message.error()
        if error is not None and error.code() == KafkaError._PARTITION_EOF:
            # Behind the last record there are only the ends of transactions.
            return
        if message is None or error is not None:
            raise CheckFailed(f"{topic}/{number} cannot be read from offset {first}")
        offset = message.offset()
        assert offset is not None
        first = offset + 1
        yield Sent(number, offset, message.key(), message.value())


def jsons(values: Iterable[Any]) -> list[bytes]:
    """Values as JSON."""
    return [json.dumps(value).encode() for value in values]


def require(holds: bool, what: str) -> None:
    """Raises CheckFailed, in words, where something does not hold."""
    if not holds:
        raise CheckFailed(what)


def require_same(what: str, found: Sequence[Any], expected: Sequence[Any]) -> None:
    """Raises CheckFailed with the first difference between what was found and what a recomputation says."""
    for place, (one, other) in enumerate(zip(found, expected, strict=False)):
        require(one == other, f"{what}: number {place} is {one}, and should be {other}")
    require(len(found) == len(expected), f"{what}: there are {len(found)}, and should be {len(expected)}")


@contextmanager
def staged(names: Sequence[str]) -> Iterator[dict[str, Stage]]:
    """A stage for each of these examples, on one stack."""
    with tempfile.TemporaryDirectory(prefix="examples-", ignore_cleanup_errors=True) as folder:
        root = Path(folder)
        with LocalStack(root / "stack", broker_port=0, registry_port=0, report=lambda _: None) as stack:
            for name in names:
                shutil.copytree(
                    HERE / name, root / name, ignore=shutil.ignore_patterns("*.py", "__pycache__")
                )
            yield {name: Stage(root / name, stack.bootstrap_servers, stack.registry_url) for name in names}
