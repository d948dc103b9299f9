"""Where a reading begins and ends in the offsets of a real broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from confluent_kafka import Producer

from distributary.errors import ConfigError
from distributary.ingest.inputs.from_kafka import Kafka, open_kafka
from distributary.ingest.settings.groups import Source
from distributary.ingest.source.moments import begins_now, first_offsets, last_offsets
from distributary.producer_sim.stack.local import LocalStack

pytestmark = pytest.mark.stack


def at(milliseconds: float) -> datetime:
    return datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(milliseconds=milliseconds)


@pytest.fixture
def topic(make_topic: Callable[[int], str], stack: LocalStack) -> str:
    """Partition 0 has records of the milliseconds 1000, 3000, 5000, 7000, partition 1 of 2000, 4000, 6000, partition 2 none."""
    name = make_topic(3)
    producer = Producer({"bootstrap.servers": stack.bootstrap_servers})
    for number in range(7):
        producer.produce(name, b"x", partition=number % 2, timestamp=1_000 * (number + 1))
    assert producer.flush(30) == 0
    return name


@pytest.fixture
def kafka(topic: str, stack: LocalStack) -> Iterator[Kafka]:
    kafka = {"bootstrap.servers": stack.bootstrap_servers}
    with open_kafka(Source.model_validate({"kafka": kafka, "topics": [topic]})) as cluster:
        yield cluster


@pytest.mark.parametrize(
    ("begins", "expected"),
    [
        ("earliest", {0: 0, 1: 0, 2: 0}),
        ("latest", {0: 4, 1: 3, 2: 0}),
        (at(0), {0: 0, 1: 0, 2: 0}),
        (at(3_000), {0: 1, 1: 1, 2: 0}),
        (at(3_000.5), {0: 2, 1: 1, 2: 0}),
        (at(6_500), {0: 3, 1: 3, 2: 0}),
        (at(99_000), {0: 4, 1: 3, 2: 0}),
        ({0: 2, 1: 3}, {0: 2, 1: 3, 2: 0}),
    ],
)
def test_each_partition_begins_where_it_is_said(topic: str, kafka: Kafka, begins: Any, expected: Any) -> None:
    begins = {topic: begins} if isinstance(begins, dict) else begins
    assert first_offsets(begins, kafka) == {topic: expected}


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        (at(0), {0: 0, 1: 0, 2: 0}),
        (at(3_000), {0: 1, 1: 1, 2: 0}),
        (at(99_000), {0: 4, 1: 3, 2: 0}),
        ({0: 2}, {0: 2, 1: 3, 2: 0}),
        ({0: 99, 1: 0}, {0: 4, 1: 0, 2: 0}),
    ],
)
def test_each_partition_ends_where_it_is_said(topic: str, kafka: Kafka, ends: Any, expected: Any) -> None:
    ends = {topic: ends} if isinstance(ends, dict) else ends
    assert last_offsets(ends, kafka) == {topic: expected}
    assert last_offsets(None, kafka) is None


def test_offsets_that_are_not_there_are_no_beginning(topic: str, kafka: Kafka) -> None:
    with pytest.raises(ConfigError, match=f"{topic}/0 has offsets 0 to before 4, and is to begin at 5"):
        first_offsets({topic: {0: 5}}, kafka)
    for bound, ask in (("source.starting_offsets", first_offsets), ("source.until", last_offsets)):
        with pytest.raises(ConfigError, match=f"{bound} names {topic}/7, which is not read here"):
            ask({topic: {7: 0}}, kafka)


def test_what_is_gone_since_is_no_beginning_that_was_missed(topic: str, kafka: Kafka) -> None:
    earliest = {topic: {0: 2, 1: 2, 2: 0}}
    assert begins_now("earliest", kafka, earliest) == earliest
    assert begins_now("latest", kafka, earliest) == {}
    assert begins_now(at(6_500), kafka, earliest) == {topic: {0: 3, 1: 3, 2: 0}}
    assert begins_now({topic: {0: 1, 1: 3}}, kafka, earliest) == {topic: {0: 2, 1: 3, 2: 0}}
