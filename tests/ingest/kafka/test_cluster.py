"""The cluster's identity and offsets, from a real broker, and what is said when there is none."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from distributary.errors import BrokerUnavailable, ConfigError, SetupError
from distributary.ingest.kafka.cluster import KafkaCluster, lag, topic_identity
from distributary.ingest.settings.model import Settings
from distributary.producer_sim.stack.local import LocalStack


def settings(servers: str, topics: list[str], **kafka: str) -> Settings:
    return Settings.model_validate(
        {
            "name": "games",
            "source": {"kafka": {"bootstrap.servers": servers, **kafka}, "topics": topics},
            "registry": {"url": "http://127.0.0.1:1"},
            "route": {"by": "field", "field": "game"},
            "sink": {"root": "/lake"},
            "checkpoint": "/checkpoint",
        }
    )


@pytest.fixture
def silent_port() -> Iterator[str]:
    """An address where connections are taken and nothing is ever said."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def test_a_broker_that_does_not_answer_is_named(silent_port: str) -> None:
    with pytest.raises(BrokerUnavailable, match=f"Kafka at {re.escape(silent_port)} does not answer"):
        topic_identity(settings(silent_port, ["events"]), timeout_seconds=1.0)


def test_a_refused_connection_is_told_as_such() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        free = f"127.0.0.1:{server.getsockname()[1]}"
    with pytest.raises(BrokerUnavailable, match=r"Connection refused.*check that it runs"):
        KafkaCluster(settings(free, ["events"]), timeout_seconds=1.0).end_offsets()


def test_options_that_do_not_work_are_the_settings_fault() -> None:
    wrong = settings(
        "127.0.0.1:1",
        ["events"],
        **{
            "security.protocol": "SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": "/no/such/file",
        },
    )
    with pytest.raises(ConfigError, match=r"source\.kafka does not work: .*ssl\.ca\.location"):
        KafkaCluster(wrong)


def test_lag_counts_what_was_never_read_too() -> None:
    ends = {"a": {0: 10, 1: 5}, "b": {0: 3}}
    assert lag(ends, {"a": {0: 4, 1: 9}}) == {"a": {0: 6, 1: 0}, "b": {0: 3}}


@pytest.mark.stack
def test_a_topic_made_anew_has_another_id(stack: LocalStack, admin: AdminClient, topic: str) -> None:
    cluster, before = topic_identity(settings(stack.bootstrap_servers, [topic]))
    assert topic_identity(settings(stack.bootstrap_servers, [topic])) == (cluster, before)
    admin.delete_topics([topic])[topic].result(30)
    made = admin.create_topics([NewTopic(topic, num_partitions=2, replication_factor=1)])[topic]
    made.result(30)
    again, after = topic_identity(settings(stack.bootstrap_servers, [topic]))
    while after == before:  # the broker learns of the controller's deeds a moment later
        again, after = topic_identity(settings(stack.bootstrap_servers, [topic]))
    assert again == cluster
    assert after[topic] != before[topic] and len(before[topic]) == len(after[topic]) == 22


@pytest.mark.stack
def test_a_missing_topic_comes_with_the_command_that_makes_it(stack: LocalStack, topic: str) -> None:
    with pytest.raises(SetupError, match=r"'no-such-topic' does not exist .*--create --topic no-such-topic"):
        topic_identity(settings(stack.bootstrap_servers, [topic, "no-such-topic"]))


@pytest.mark.stack
def test_offsets_of_every_partition(stack: LocalStack, make_topic: Callable[[int], str]) -> None:
    one, other = make_topic(2), make_topic(1)
    producer = Producer({"bootstrap.servers": stack.bootstrap_servers})
    for number in range(7):
        producer.produce(one, b"x", partition=number % 2)
    producer.flush(30)
    cluster = KafkaCluster(settings(stack.bootstrap_servers, [one, other]))
    assert cluster.partitions() == {one: [0, 1], other: [0]}
    assert cluster.earliest_offsets() == {one: {0: 0, 1: 0}, other: {0: 0}}
    assert cluster.end_offsets() == {one: {0: 4, 1: 3}, other: {0: 0}}


@pytest.mark.stack
def test_an_open_transaction_is_not_the_end_for_who_reads_what_is_committed(
    stack: LocalStack, topic: str
) -> None:
    producer = Producer({"bootstrap.servers": stack.bootstrap_servers, "transactional.id": topic})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"x", partition=0)
    producer.flush(30)
    reads_all = settings(stack.bootstrap_servers, [topic], **{"isolation.level": "read_uncommitted"})
    assert KafkaCluster(settings(stack.bootstrap_servers, [topic])).end_offsets()[topic][0] == 0
    assert KafkaCluster(reads_all).end_offsets()[topic][0] == 1
    producer.abort_transaction(30)


@pytest.mark.stack
def test_a_partition_that_gets_its_leader_in_a_moment_is_waited_for(
    stack: LocalStack, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = KafkaCluster(settings(stack.bootstrap_servers, [topic]))
    answer, asked = KafkaCluster._result, list[str]()

    def late(self: KafkaCluster, future: Future[Any], name: str) -> Any:
        asked.append(name)
        if len(asked) == 2:  # the first is what partitions there are
            future = Future()
            future.set_exception(KafkaException(KafkaError(KafkaError.NOT_LEADER_FOR_PARTITION)))
        return answer(self, future, name)

    monkeypatch.setattr(KafkaCluster, "_result", late)
    assert set(cluster.end_offsets()[topic].values()) == {0}
    assert len(asked) > 3
