"""Records sent to one topic, each confirmed by all replicas, with the offsets where they came to lie."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from distributary.errors import ConfigError, SetupError
from distributary.ingest.kafka.confluent import MaskedLog
from distributary.passed_on_options import without_secrets
from distributary.producer_sim.formats.corruption import value_digest
from distributary.producer_sim.traffic.envelopes import Headers
from distributary.producer_sim.traffic.simulation import Simulation
from distributary.producer_sim.truth.sent import Corrupt, PartitionOffset, joined

Options = dict[str, str | int | float | bool]

Made = TypeVar("Made", AdminClient, Producer)

log = logging.getLogger(__name__)

# What a client says while it tries again is told by the error in the end; without a handler Python prints each line.
log.addHandler(logging.NullHandler())

ANSWER_SECONDS = 15.0

TOPIC_EXISTS = "TOPIC_ALREADY_EXISTS"


def make_topic(settings: Simulation) -> None:
    """The topic is there afterwards; one that was there before keeps its partitions.

    Raises ConfigError for options that do not work, and SetupError where the broker gives no topic.
    """
    admin = _made(AdminClient, _client_options(settings), settings)
    try:
        known = admin.list_topics(timeout=ANSWER_SECONDS).topics
        if settings.target.topic not in known:
            topic = NewTopic(settings.target.topic, num_partitions=settings.target.partitions)
            admin.create_topics([topic], request_timeout=ANSWER_SECONDS)[settings.target.topic].result()
    except KafkaException as error:
        if error.args[0].name() != TOPIC_EXISTS:  # another producer may have been faster
            raise SetupError(
                f"no topic {settings.target.topic!r} at {settings.target.bootstrap_servers}: {error.args[0].str()}; "
                "is the broker running? `distributary stack up` starts a local one"
            ) from error


class Delivery:
    """Sends records and keeps where they lie; `finish` or the end of a `with` waits until all are confirmed.

    Raises ConfigError for options that do not work.
    """

    def __init__(self, settings: Simulation) -> None:
        self.corrupt: dict[PartitionOffset, Corrupt] = {}
        self.tombstones: set[PartitionOffset] = set()
        self._runs: dict[int, list[tuple[int, int]]] = {}
        self._failures = 0
        self._first_failure = ""
        self._topic = settings.target.topic
        self._producer = _made(Producer, _producer_options(settings), settings)

    @property
    def offsets(self) -> dict[int, tuple[tuple[int, int], ...]]:
        """The stretches of offsets that the records fill, by partition."""
        return {partition: joined(runs) for partition, runs in sorted(self._runs.items())}

    def send(self, key: bytes | None, value: bytes, headers: Headers = ()) -> None:
        """Sends a good record."""
        self._produce(key, value, headers, self._delivered)

    def send_corrupt(self, key: bytes | None, value: bytes, kind: str, headers: Headers = ()) -> None:
        """Sends a record of which the truth keeps kind, place and digest."""
        about = Corrupt(kind, value_digest(value))
        self._produce(key, value, headers, partial(self._corrupt_delivered, about))

    def send_tombstone(self, key: bytes | None, headers: Headers = ()) -> None:
        """Sends a null value."""
        self._produce(key, None, headers, self._tombstone_delivered)

    def poll(self) -> None:
        """Takes in what the broker confirmed so far. Raises SetupError if it refused a record."""
        self._producer.poll(0)
        if self._failures:
            raise SetupError(
                f"{self._failures} records did not get into topic {self._topic!r}: {self._first_failure}; "
                "the topic now holds records that no truth tells of, so simulate into a new one"
            )

    def finish(self) -> None:
        """Waits until every record sent is confirmed. Raises SetupError if one was refused."""
        while self._producer.flush(1.0):
            self.poll()
        self.poll()

    def _produce(
        self,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
        confirmed: Callable[[Any, Any], None],
    ) -> None:
        while True:
            try:
                self._producer.produce(
                    self._topic, key=key, value=value, headers=list(headers) or None, on_delivery=confirmed
                )
            except BufferError:
                self._producer.poll(0.1)  # the queue is full: let the broker catch up
            except KafkaException as error:
                self._failed(error.args[0].str())
                return
            else:
                return

    def _delivered(self, error: Any, message: Any) -> None:
        self._lies(error, message)

    def _corrupt_delivered(self, about: Corrupt, error: Any, message: Any) -> None:
        if self._lies(error, message):
            self.corrupt[PartitionOffset(message.partition(), message.offset())] = about

    def _tombstone_delivered(self, error: Any, message: Any) -> None:
        if self._lies(error, message):
            self.tombstones.add(PartitionOffset(message.partition(), message.offset()))

    def _lies(self, error: Any, message: Any) -> bool:
        """Whether the record is in the topic at a known place, which is then kept."""
        if error is not None:
            return self._failed(error.str())
        offset = message.offset()
        if offset is None or offset < 0:  # after some retries the broker only says that it has the record
            return self._failed("the broker confirmed it without telling its offset")
        runs = self._runs.setdefault(message.partition(), [])
        if runs and runs[-1][1] == offset:
            runs[-1] = (runs[-1][0], offset + 1)
        else:
            runs.append((offset, offset + 1))
        return True

    def _failed(self, why: str) -> bool:
        self._failures += 1
        self._first_failure = self._first_failure or why
        return False


def _made(client: Callable[..., Made], options: Options, settings: Simulation) -> Made:
    try:
        return client(options, logger=MaskedLog(log, settings.target.kafka))
    except KafkaException as error:
        reason = without_secrets(error.args[0].str(), settings.target.kafka)
        raise ConfigError(f"target.kafka does not work: {reason}; the options are librdkafka's") from None


def _client_options(settings: Simulation) -> Options:
    return {**settings.target.kafka, "bootstrap.servers": settings.target.bootstrap_servers}


def _producer_options(settings: Simulation) -> Options:
    return {
        "linger.ms": 20,
        "batch.num.messages": 10_000,
        "queue.buffering.max.messages": 200_000,
        "delivery.timeout.ms": 120_000,
        "partitioner": "murmur2_random",  # as Java's producers do: one gamer, one partition
        "compression.type": settings.target.compression,
        **_client_options(settings),
        "enable.idempotence": True,
        "acks": "all",
    }
