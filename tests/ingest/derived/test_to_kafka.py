"""Records of a derived table's topic on the real broker: whoever sends later, nothing older comes behind it."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from distributary.errors import PipelineError
from distributary.ingest.derived.to_kafka import Topic, send, sending
from distributary.producer_sim.stack.local import LocalStack

pytestmark = [pytest.mark.stack]


@pytest.fixture
def place(stack: LocalStack, topic: str) -> Topic:
    admin = AdminClient({"bootstrap.servers": stack.bootstrap_servers})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result()
    return Topic(topic, {"bootstrap.servers": stack.bootstrap_servers}, f"sender-{topic}")


def committed(place: Topic) -> list[tuple[bytes | None, bytes | None]]:
    consumer = Consumer(
        {
            **place.kafka,
            "group.id": "tests",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
    )
    consumer.assign([TopicPartition(place.name, 0, 0)])
    found = list[tuple[bytes | None, bytes | None]]()
    while (message := consumer.poll(30)) is not None and not message.error():
        found.append((message.key(), message.value()))
    consumer.close()
    return found


def test_who_wakes_too_late_adds_nothing_behind_what_is_newer(place: Topic) -> None:
    with pytest.raises(PipelineError, match=r"topic .*transactional id"), sending(place) as old:
        old.begin_transaction()
        old.produce(place.name, key=b"k", value=b"old")
        with sending(place) as new:
            assert send(new, place.name, iter([(b"k", b"new"), (b"gone", None)])) == 2
        old.commit_transaction(30)
    assert committed(place) == [(b"k", b"new"), (b"gone", None)]


def test_what_fails_on_the_way_is_given_up_whole(place: Topic) -> None:
    def records():  # type: ignore[no-untyped-def]
        yield b"k", b"half"
        raise KeyError

    with pytest.raises(KeyError), sending(place) as producer:
        send(producer, place.name, records())
    assert committed(place) == []
    with sending(place) as producer:
        assert send(producer, place.name, iter([])) == 0
