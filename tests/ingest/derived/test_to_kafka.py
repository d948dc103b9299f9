"""Records of a derived table's topic on the real broker: whoever sends later, nothing older comes behind it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource

from distributary.errors import BrokerUnavailable, PipelineError
from distributary.ingest.derived import to_kafka
from distributary.ingest.derived.to_kafka import Topic, Uuids, most_bytes, send, sending
from distributary.producer_sim.stack.local import LocalStack

pytestmark = [pytest.mark.stack]


@pytest.fixture
def place(stack: LocalStack, make_topic: Callable[[int], str]) -> Topic:
    name = make_topic(1)
    return Topic(name, {"bootstrap.servers": stack.bootstrap_servers}, f"sender-{name}")


def committed(place: Topic) -> list[tuple[bytes | None, bytes | None]]:
    consumer = Consumer(
        {
            **place.kafka,
            "group.id": "tests",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            # Else the broker waits half a second for more before it says that there is none.
            "fetch.wait.max.ms": 10,
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
    def records() -> Iterator[tuple[bytes, bytes | None]]:
        yield b"k", b"half"
        raise KeyError

    with pytest.raises(KeyError), sending(place) as producer:
        send(producer, place.name, records())
    assert committed(place) == []
    with sending(place) as producer:
        assert send(producer, place.name, iter([])) == 0


def takes(place: Topic, most: int) -> None:
    """Have the topic take batches of at most so many bytes."""
    entry = ConfigEntry("max.message.bytes", str(most), incremental_operation=AlterConfigOpType.SET)
    wanted = ConfigResource(ConfigResource.Type.TOPIC, place.name, incremental_configs=[entry])
    admin = AdminClient(dict(place.kafka))
    admin.incremental_alter_configs([wanted])[wanted].result(30)
    # A broker hears of it a moment after it is answered.
    until = time.monotonic() + 30
    while most_bytes(place) != most:
        assert time.monotonic() < until


def rows(count: int, size: int) -> Iterator[tuple[bytes, bytes | None]]:
    return ((str(number).encode(), b"x" * size) for number in range(count))


def test_all_is_sent_that_a_topic_takes_however_much_that_is(place: Topic) -> None:
    takes(place, 20_000)
    assert most_bytes(place) == 20_000
    with sending(place) as producer:
        # Together they are more than one batch may be.
        assert send(producer, place.name, rows(40, 1_000)) == 40
    takes(place, 3_000_000)
    with sending(place) as producer:
        assert send(producer, place.name, rows(1, 2_500_000)) == 1
    assert [len(value or b"") for _, value in committed(place)] == [1_000] * 40 + [2_500_000]


def test_a_row_that_a_topic_does_not_take_is_told_or_has_a_record_without_a_value(place: Topic) -> None:
    takes(place, 20_000)
    records = [(b"a", b"a"), (b"large", b"x" * 20_000), (b"b", b"b")]

    def fails() -> None:
        raise PipelineError("one is too large")

    with pytest.raises(PipelineError, match="one is too large"), sending(place) as producer:
        send(producer, place.name, iter(records), fails)
    assert committed(place) == []
    found = list[int]()
    with sending(place) as producer:
        assert send(producer, place.name, iter(records), lambda: found.append(1)) == 3
    assert (len(found), committed(place)) == (1, [(b"a", b"a"), (b"large", None), (b"b", b"b")])
    with sending(replace(place, kafka={**place.kafka, "max.request.size": "1000"})) as producer:
        assert send(producer, place.name, rows(1, 1_001), lambda: found.append(1)) == 1
    assert len(found) == 2


def test_brokers_that_do_not_answer_are_waited_for_once_a_turn(
    place: Topic,
) -> None:
    """With a hundred tables, each of a minute, no batch would come for hours."""
    away = replace(place, kafka={"bootstrap.servers": "127.0.0.1:1"}, patience=0.5)
    uuids = Uuids()
    uuids.require_answering(away)
    with pytest.raises(to_kafka.BrokersSilent, match="transport failure"), sending(away):
        pass
    uuids.note_silent(away)
    with pytest.raises(BrokerUnavailable, match="did not answer for another table"):
        uuids.require_answering(replace(away, name="another"))
    uuids.require_answering(place)
