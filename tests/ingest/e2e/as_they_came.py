"""What a topic holds, as Kafka's own client reads it, beside what is kept of it as it came."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta, timezone
from typing import Any
from uuid import uuid4

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from tests.ingest.e2e.pipeline_kit import PipelineKit

from distributary.ingest.bronze.rows import SCHEMA

Place = tuple[str, int, int]

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)

# By Kafka's numbers, as its client counts them.
_TYPES = {1: "create_time", 2: "log_append_time"}


def in_kafka(kit: PipelineKit, topics: Iterable[str] = ()) -> dict[Place, dict[str, Any]]:
    """Every record of these topics, by default the kit's, as a row that keeps it as it came."""
    found: dict[Place, dict[str, Any]] = {}
    for topic in topics or [kit.topic]:
        for message in _messages(kit, topic):
            kind, milliseconds = message.timestamp()
            at = _EPOCH + timedelta(milliseconds=milliseconds)
            headers = [{"key": key, "value": value} for key, value in message.headers() or ()]
            place = (topic, message.partition(), message.offset())
            found[place] = {
                **dict(zip(("kafka_topic", "kafka_partition", "kafka_offset"), place, strict=True)),
                "kafka_ts": at,
                "kafka_ts_type": _TYPES[kind],
                "kafka_key": message.key(),
                "value": message.value(),
                "headers": headers or None,
                "kafka_date": at.date(),
            }
    return found


def _messages(kit: PipelineKit, topic: str) -> list[Any]:
    options = {
        "bootstrap.servers": kit.bootstrap_servers,
        "group.id": uuid4().hex,
        "enable.partition.eof": True,
        "auto.offset.reset": "earliest",
        # So long a partition's end is waited for.
        "fetch.wait.max.ms": 10,
    }
    found: list[Any] = []
    consumer = Consumer(options)
    try:
        partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
        consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
        left = set(partitions)
        while left:
            # Several at once are waited for until there are as many, or the time is over.
            message = consumer.poll(30)
            assert message is not None, f"{topic} {left}: nothing came"
            error = message.error()
            if error is None:
                found.append(message)
            else:
                assert error.code() == KafkaError._PARTITION_EOF, error
                left.discard(message.partition())
    finally:
        consumer.close()
    return found


def kept(kit: PipelineKit, *tables: str) -> list[dict[str, Any]]:
    """The rows of tables that keep records as they came, by default of `bronze`, in Kafka's order."""
    rows = [row for table in tables or ("bronze",) for row in kit.rows(table).to_pylist()]
    return sorted(rows, key=lambda row: (row["kafka_topic"], row["kafka_partition"], row["kafka_offset"]))


def assert_all_kept(kit: PipelineKit, *tables: str, topics: Iterable[str] = ()) -> None:
    """Every record of the topics is kept once, and byte for byte."""
    wanted = in_kafka(kit, topics)
    assert wanted
    rows = kept(kit, *tables)
    assert [(row["kafka_topic"], row["kafka_partition"], row["kafka_offset"]) for row in rows] == sorted(
        wanted
    )
    for row in rows:
        place = (row["kafka_topic"], row["kafka_partition"], row["kafka_offset"])
        assert {name: row[name] for name in SCHEMA.names} == wanted[place]


def send(
    kit: PipelineKit,
    value: bytes | None,
    headers: Iterable[tuple[str, bytes | None]] = (),
    **more: Any,
) -> None:
    """One record with these headers, in this order; `more` is the producer's."""
    producer = Producer({"bootstrap.servers": kit.bootstrap_servers, "acks": "all"})
    refused: list[Any] = []

    def told(error: Any, _: Any) -> None:
        refused.extend([] if error is None else [error])

    given: Mapping[str, Any] = {"topic": kit.topic, "partition": 0, **more}
    producer.produce(value=value, headers=list(headers), on_delivery=told, **given)
    assert producer.flush(60) == 0
    assert not refused
