"""Against a real broker and registry: what the truth says was sent is what the topic holds."""

from __future__ import annotations

import gc
import json
import uuid
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Message, TopicPartition

from distributary.errors import SetupError
from distributary.producer_sim.events.routes import Routed
from distributary.producer_sim.formats.base import FORMATS, corrupt_kinds, load_format
from distributary.producer_sim.formats.corruption import value_digest
from distributary.producer_sim.sending.simulate import SentSoFar, simulate
from distributary.producer_sim.stack.local import LocalStack
from distributary.producer_sim.traffic.simulation import Simulation
from distributary.producer_sim.truth.sent import PartitionOffset, Truth
from distributary.registry.confluent.options import RegistryOptions
from distributary.registry.confluent.registry import ConfluentRegistry
from distributary.registry.memory import MemoryRegistry

pytestmark = pytest.mark.stack


def settings(stack: LocalStack, **chosen: Any) -> Simulation:
    base = {"bootstrap_servers": stack.bootstrap_servers, "topic": f"games-{uuid.uuid4().hex[:8]}"}
    return Simulation.of(**{**base, "games": 4, "gamers": 100, "events": 1500, **chosen})


def messages(stack: LocalStack, truth: Truth) -> list[Message]:
    """Every record of the topic."""
    ends = {partition: runs[-1][1] for partition, runs in truth.offsets.items()}
    consumer = Consumer({"bootstrap.servers": stack.bootstrap_servers, "group.id": uuid.uuid4().hex})
    found: list[Message] = []
    count = sum(ends.values())
    try:
        consumer.assign([TopicPartition(truth.topic, partition, 0) for partition in ends])
        while len(found) < count:
            # Never more than there are: it would wait for them.
            some = consumer.consume(min(1000, count - len(found)), timeout=10)
            assert some, "the topic holds less than the truth says"
            assert not any(message.error() for message in some)
            found += some
    finally:
        consumer.close()
    return found


def read(stack: LocalStack, truth: Truth) -> dict[PartitionOffset, tuple[bytes, bytes | None]]:
    """Every record of the topic: key and value by place."""
    found: dict[PartitionOffset, tuple[bytes, bytes | None]] = {}
    for message in messages(stack, truth):
        place, key = PartitionOffset(message.partition() or 0, message.offset() or 0), message.key()
        assert key is not None
        found[place] = (key, message.value())
    return found


def headers_of(message: Message) -> dict[str, bytes]:
    found: Any = message.headers()
    return dict(found or ())


def version_of(value: bytes) -> int:
    return int.from_bytes(value[1:5], "big")


FRAMED = [name for name in FORMATS if load_format(name).schema_type]


@pytest.mark.parametrize("name", FRAMED)
def test_the_truth_is_what_the_topic_holds(stack: LocalStack, name: str) -> None:
    registry = ConfluentRegistry(RegistryOptions(url=stack.registry_url))
    shares = {"corrupt": 0.02, "tombstones": 0.01, "old_producers": 0.2}
    chosen = settings(stack, format=name, versions=3, partitions=3, **shares)
    truth = simulate(chosen, registry)
    records = read(stack, truth)
    assert len(records) == truth.records == chosen.total == 4500
    assert {place for place, (_, value) in records.items() if value is None} == truth.tombstones
    assert {*truth.corrupt_by_kind()} == {*corrupt_kinds(name)}
    for place, corrupt in truth.corrupt.items():
        value = records[place][1]
        assert value is not None
        assert value_digest(value) == corrupt.digest
    special = {*truth.corrupt, *truth.tombstones}
    good = Counter(
        version_of(value) for place, (_, value) in records.items() if value and place not in special
    )
    expected: Counter[int | None] = Counter()
    for group, sent in truth.sent.items():
        expected[group.schema_id] += sent.rows
    assert good == expected
    assert len(records) == truth.good + len(special)
    ids = [version.id for version in registry.versions(f"{chosen.target.topic}-value")]
    assert {group.schema_id for group in truth.sent} == set(ids)
    assert len(ids) == 3


@pytest.mark.parametrize("name", FRAMED)
def test_types_of_events_are_registered_under_their_records(stack: LocalStack, name: str) -> None:
    registry = ConfluentRegistry(RegistryOptions(url=stack.registry_url))
    chosen = settings(stack, format=name, event_types=3, versions=2, events=300)
    truth = simulate(chosen, registry)
    subjects = [
        f"{chosen.target.topic}-games.{record}" for record in ("GameEvent", "PurchaseEvent", "SessionEvent")
    ]
    ids = [version.id for subject in subjects for version in registry.versions(subject)]
    assert len(set(ids)) == 6
    assert {group.schema_id for group in truth.sent} == set(ids)
    assert {version_of(value or b"") for _, value in read(stack, truth).values()} == set(ids)


def test_records_that_name_no_schema_need_no_registry(stack: LocalStack) -> None:
    registry = MemoryRegistry()
    registry.down = True
    truth = simulate(settings(stack, format="json", versions=2, corrupt=0.02), registry)
    records = read(stack, truth)
    assert {group.schema_id for group in truth.sent} == {None}
    assert {sent.version for sent in truth.sent.values()} == {2}
    games = Counter(
        json.loads(v or b"")["game_name"] for p, (_, v) in records.items() if p not in truth.corrupt
    )
    assert games == {group.game: sent.rows for group, sent in truth.sent.items()}


def test_a_version_s_events_follow_those_of_the_one_before(stack: LocalStack) -> None:
    chosen = settings(stack, versions=3, events=600)
    truth = simulate(chosen, MemoryRegistry())
    by_partition: dict[int, list[int]] = {}
    for place, (_, value) in sorted(read(stack, truth).items()):
        assert value is not None
        by_partition.setdefault(place.partition, []).append(version_of(value))
    assert len(by_partition) == chosen.target.partitions
    assert all(ids == sorted(ids) for ids in by_partition.values())


def test_a_gamer_s_events_share_a_partition(stack: LocalStack) -> None:
    truth = simulate(settings(stack), MemoryRegistry())
    partitions: dict[bytes, set[int]] = {}
    for place, (key, _) in read(stack, truth).items():
        partitions.setdefault(key, set()).add(place.partition)
    assert all(len(found) == 1 for found in partitions.values())


def test_versions_sent_one_by_one_add_up(stack: LocalStack) -> None:
    registry = MemoryRegistry()
    whole = settings(stack, versions=2, corrupt=0.02, old_producers=0.3)
    together = simulate(whole, registry)
    apart = settings(stack, versions=2, corrupt=0.02, old_producers=0.3)
    first = simulate(apart.changed(versions=1), registry)
    both = first.merged(simulate(apart.changed(first_version=2), registry))
    assert both.sent == together.sent
    assert both.records == together.records == len(read(stack, both))
    assert all(len(runs) == 1 for runs in both.offsets.values())


def test_progress_tells_what_is_sent(stack: LocalStack) -> None:
    seen: list[SentSoFar] = []
    simulate(settings(stack, versions=2, events=300, rate=3000), MemoryRegistry(), seen.append)
    assert [(step.version, step.sent, step.total) for step in seen] == [(1, 300, 600), (2, 600, 600)]


def test_a_rate_is_kept(stack: LocalStack) -> None:
    seen: list[SentSoFar] = []
    simulate(settings(stack, events=300, rate=300), MemoryRegistry(), seen.append)
    assert seen[-1].seconds >= 0.95


def test_when_stopped_the_truth_covers_what_was_sent(stack: LocalStack) -> None:
    seen: list[SentSoFar] = []
    chosen = settings(stack, versions=2, events=1000, rate=5000, corrupt=0.05)
    truth = simulate(
        chosen.changed(events=20_000, rate=None), MemoryRegistry(), seen.append, lambda: bool(seen)
    )
    assert truth.records == seen[-1].sent == 10_000
    assert truth.good + len(truth.corrupt) == truth.records
    assert len(read(stack, truth)) == truth.records


def test_a_topic_that_is_there_keeps_its_partitions(stack: LocalStack, make_topic: Any) -> None:
    topic = make_topic(2)
    truth = simulate(settings(stack, topic=topic, partitions=6), MemoryRegistry())
    assert set(truth.offsets) == {0, 1}


def test_a_record_too_large_for_the_broker_is_an_error(stack: LocalStack) -> None:
    chosen = settings(stack, kafka={"message.max.bytes": 1000}, game_names=("g" * 2000,), events=5)
    with pytest.raises(SetupError, match=r"(?i)too large|size"):
        simulate(chosen, MemoryRegistry())


def test_no_broker_is_an_error_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("distributary.producer_sim.sending.delivery.ANSWER_SECONDS", 1.0)
    chosen = Simulation.of(bootstrap_servers="127.0.0.1:1", topic="games", kafka={"socket.timeout.ms": 1000})
    with pytest.raises(SetupError, match="distributary stack up"):
        simulate(chosen, MemoryRegistry())


def test_keys_and_headers_are_made_of_fields_and_what_routes_is_told(stack: LocalStack) -> None:
    chosen = settings(
        stack,
        events=300,
        versions=2,
        first_version=2,
        corrupt=0.2,
        tombstones=0.1,
        corrupt_kinds=("no_entity",),
        key="game_name",
        headers={"region": "season", "fan": "premium"},
        route=Routed("header", "region"),
    )
    truth = simulate(chosen, MemoryRegistry())
    found: dict[PartitionOffset, tuple[bytes | None, dict[str, bytes]]] = {}
    for message in messages(stack, truth):
        place = PartitionOffset(message.partition() or 0, message.offset() or 0)
        found[place] = (message.key(), headers_of(message))
    assert {key.decode() for key, _ in found.values() if key} == {group.game for group in truth.sent}
    assert {headers["fan"] for _, headers in found.values()} == {b"true", b"false"}
    assert all("region" not in found[place][1] for place in truth.corrupt)
    good = [found[place] for place in found if place not in truth.corrupt and place not in truth.tombstones]
    rows: Counter[tuple[str, object]] = Counter()
    for group, sent in truth.sent.items():
        rows[group.game, dict(group.told)["header:region"]] += sent.rows
    as_sent = Counter(
        ((key or b"").decode(), headers["region"].decode() if "region" in headers else None)
        for key, headers in good
    )
    assert rows == as_sent


def kafka_clients() -> set[str]:
    """The threads of clients of Kafka's C library that live in this process: each has one of this name."""
    found = set()
    for task in Path("/proc/self/task").iterdir():
        with suppress(OSError):  # a thread that has ended by now
            if (task / "comm").read_text(encoding="utf-8").strip() == "rdk:main":
                found.add(task.name)
    return found


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="threads have their names in /proc")
def test_no_client_outlives_a_simulation(stack: LocalStack) -> None:
    """One that did would go on telling that nobody answers when the broker has stopped."""
    gc.collect()
    before = kafka_clients()
    gc.disable()
    try:
        simulate(settings(stack, versions=2), MemoryRegistry())
        # One of an earlier test may take until now to end.
        assert kafka_clients() <= before
    finally:
        gc.enable()
