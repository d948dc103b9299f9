"""Records that change what is true of keys, and what is true of each by the topic alone: for tests of tables with one row a key."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Consumer, TopicPartition
from tests.ingest.e2e.pipeline_kit import PipelineKit
from typing_extensions import Self

from distributary.ingest.tables.state_by_spark import path_for_spark
from distributary.producer_sim.verify.lake import batches

GAMES = ("chess", "go")

PARTITIONS = 2

Body = dict[str, Any]


@dataclass(frozen=True)
class Kept:
    """A record as the topic has it."""

    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    body: Body | None

    @property
    def position(self) -> tuple[int, int]:
        """Where it is."""
        return self.partition, self.offset


def topic_of(kit: PipelineKit) -> list[Kept]:
    """All that the topic has, by partitions."""
    # At the end of one partition the broker would wait for more while the next one is to be read.
    options = {"bootstrap.servers": kit.bootstrap_servers, "group.id": "nobody", "fetch.wait.max.ms": 10}
    consumer = Consumer(options)
    try:
        found = [kept for number in range(PARTITIONS) for kept in _read(consumer, kit.topic, number)]
    finally:
        consumer.close()
    return found


def _read(consumer: Consumer, topic: str, number: int) -> Iterator[Kept]:
    _, end = consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=30)
    consumer.assign([TopicPartition(topic, number, 0)])
    at = 0
    while at < end:
        (message,) = consumer.consume(1, timeout=30)
        assert message.error() is None, message.error()
        value, offset = message.value(), message.offset()
        assert offset is not None
        at = offset + 1
        body = None if value is None else json.loads(value)
        yield Kept(number, offset, message.timestamp()[1], message.key(), body)


@dataclass
class Keyed:
    """Sends changes of a few players of two games, each player's to one partition, a seed a test.

    deletes  which part of them says so of itself: their `op` is d, and u of the others
    """

    kit: PipelineKit
    seed: int = 1
    at: int = 0
    deletes: float = 0.0
    _random: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def configured(self, rule: Mapping[str, Any], **more: Any) -> Self:
        """The pipeline with this rule for all tables."""
        self.kit.configured(
            decode={"format": "json", "evolution": "inline"},
            route={"field": "game", "table": "{entity}"},
            tables=[{"match": "*", **rule}],
            **more,
        )
        return self

    def send(self, count: int = 60, players: int = 8, **more: Any) -> None:
        """Send so many changes: mostly whole ones, some without a key or a time, some late, some tombstones."""
        with self.kit.together():
            for _ in range(count):
                self.send_one(self._random.randrange(players), self._changed(), **more)

    def send_one(self, player: int, body: Body | None, **more: Any) -> None:
        """Send one change of a player."""
        key = None if body is not None and body.get("player") is None else f"p{player}".encode()
        if body is not None:
            body = {**body, "player": None if key is None else {"id": player}, **more}
            value = json.dumps(body).encode()
        else:
            value = None
        self.kit.send([value], key=key, partition=player % PARTITIONS)  # type: ignore[arg-type]

    def _changed(self) -> Body | None:
        self.at += 1
        drawn = self._random.random()
        if drawn < 0.05:
            return None
        body: Body = {"game": self._random.choice(GAMES), "player": 1, "score": self._random.randrange(1000)}
        if drawn < 0.1:
            body["player"] = None
        # Some are late, and some of one time.
        body["at"] = None if drawn > 0.95 else max(self.at - self._random.choice([0, 0, 0, 1, 5, 40]), 0)
        if self.deletes:
            body["op"] = "d" if self._random.random() < self.deletes else "u"
        return body


def rows_of(kit: PipelineKit, folder: str) -> list[Body]:
    """The rows of a table as Spark reads them, which on S3 is not let near; none where it is not there."""
    place = kit.lake.root.below(folder)
    if not place.has_files("_delta_log"):
        return []
    if place.remote:
        return [row for batch in batches(kit.delta(folder)) for row in batch.to_pylist()]
    found = kit.spark.read.format("delta").load(path_for_spark(place)).collect()
    return [row.asDict(recursive=True) for row in found]


def newest(
    kit: PipelineKit, order: Callable[[Kept], Any], takes: Callable[[Kept], bool] = lambda _: True
) -> dict[tuple[str, Any], Kept]:
    """Per game and player the record that is newest by `order`, of those that have a place."""
    found: dict[tuple[str, Any], Kept] = {}
    for kept in topic_of(kit):
        if kept.body is None or not takes(kept):
            continue
        key = (kept.body["game"], kept.body["player"]["id"])
        if key not in found or order(kept) > order(found[key]):
            found[key] = kept
    return found


def held(kit: PipelineKit) -> dict[tuple[str, Any], tuple[int, int]]:
    """Per game and player where the row's record is; each has one row."""
    rows = [(game, row) for game in GAMES for row in rows_of(kit, game)]
    found = {(game, row["player"]["id"]): (row["kafka_partition"], row["kafka_offset"]) for game, row in rows}
    assert len(found) == len(rows), "a key has two rows"
    return found


def counted(kit: PipelineKit) -> dict[str, int]:
    """What the ledger has of all batches together."""
    rows = kit.rows("ledger_batches").to_pylist()
    merged = [
        f"rows_{name}" for name in ("inserted", "updated", "deleted", "older", "duplicate", "unchanged")
    ]
    for row in rows:
        assert sum(row[name] or 0 for name in merged) == row["rows_tables"]
    names = [*merged, "rows_tables", "rows_read", "rows_quarantined", "rows_dropped"]
    return {name.removeprefix("rows_"): sum(row[name] or 0 for row in rows) for name in names}
