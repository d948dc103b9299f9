"""What the Kafka cluster is asked besides its records: who it is, which partitions there are, how far they have come."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotInTime
from typing import Any, TypeVar

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec

from distributary.errors import BrokerUnavailable, ConfigError, PipelineError, SetupError
from distributary.ingest.kafka.librdkafka import librdkafka_options
from distributary.ingest.kafka.offsets import Positions
from distributary.ingest.settings.model import Settings

# A topic id of a broker that has none (before Kafka 2.8) is not compared.
UNKNOWN = ""

TIMEOUT_SECONDS = 15.0

_log = logging.getLogger(__name__)

# What a client says over and over while it cannot connect is told once, by the error that is raised; without a handler
# Python would print each line.
_log.addHandler(logging.NullHandler())

_SETTLE_SECONDS = 3.0

_ASK_AGAIN_SECONDS = 0.1

# A UUID of sixteen zero bytes: the broker is older than topic ids (Kafka 2.8).
_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"

_REFUSED = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.SASL_AUTHENTICATION_FAILED,
    KafkaError._AUTHENTICATION,
}

_LEADERLESS = {KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE}

T = TypeVar("T")


class _TopicMissing(SetupError, LookupError):
    """The cluster has no such topic; the message says how to make it."""


class _NoLeader(BrokerUnavailable):
    """A partition that nobody leads just now."""


class KafkaCluster:
    """The cluster a pipeline reads from. Every call may raise BrokerUnavailable, and SetupError for a missing topic."""

    def __init__(self, settings: Settings, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        self._servers = settings.source.kafka["bootstrap.servers"]
        self._topics = list(settings.source.topics)
        self._committed = settings.source.kafka.get("isolation.level") != "read_uncommitted"
        self._timeout = timeout_seconds
        self._last_error = ""
        options = librdkafka_options(settings.source.kafka)
        try:
            with_callback: dict[str, Any] = {**options, "error_cb": self._remember}
            # Its log, which goes to standard error otherwise.
            self._admin = AdminClient(with_callback, logger=_log)
        except KafkaException as error:
            raise ConfigError(f"source.kafka does not work: {_reason(error)}") from error

    def cluster_id(self) -> str:
        """The cluster's own id, made when it was formatted."""
        described = self._ask(lambda wait: self._admin.describe_cluster(request_timeout=wait))
        return str(described.cluster_id)

    def topic_ids(self) -> dict[str, str]:
        """Each topic's UUID, which is another one after the topic was made anew; empty from a broker without any."""
        found = {name: str(topic.topic_id) for name, topic in self._describe().items()}
        return {name: UNKNOWN if uuid == _NO_ID else uuid for name, uuid in found.items()}

    def partitions(self) -> dict[str, list[int]]:
        """The numbers of each topic's partitions."""
        described = self._describe()
        return {name: sorted(int(one.id) for one in topic.partitions) for name, topic in described.items()}

    def earliest_offsets(self) -> Positions:
        """The first offset still there in each partition."""
        return self._offsets(OffsetSpec.earliest())  # type: ignore[no-untyped-call]

    def end_offsets(self) -> Positions:
        """Where each partition ends for a reader with this pipeline's isolation level."""
        return self._offsets(OffsetSpec.latest())  # type: ignore[no-untyped-call]

    def _describe(self) -> dict[str, Any]:
        return _settled(self._describe_once)

    def _describe_once(self) -> dict[str, Any]:
        wanted = TopicCollection(self._topics)
        answers = self._start(lambda wait: self._admin.describe_topics(wanted, request_timeout=wait))
        return {name: self._result(answer, name) for name, answer in answers.items()}

    def _offsets(self, which: Any) -> Positions:
        return _settled(lambda: self._offsets_once(which))

    def _offsets_once(self, which: Any) -> Positions:
        level = IsolationLevel.READ_COMMITTED if self._committed else IsolationLevel.READ_UNCOMMITTED
        wanted = {
            TopicPartition(name, number): which
            for name, numbers in self.partitions().items()
            for number in numbers
        }
        answers = self._start(
            lambda wait: self._admin.list_offsets(wanted, isolation_level=level, request_timeout=wait)
        )
        found: Positions = {name: {} for name in self._topics}
        for place, answer in answers.items():
            found[place.topic][place.partition] = int(self._result(answer, place.topic).offset)
        return found

    def _ask(self, call: Callable[[float], Future[T]]) -> T:
        return self._result(self._start(call), "")

    def _start(self, call: Callable[[float], T]) -> T:
        try:
            return call(self._timeout)
        except KafkaException as error:
            raise self._explained(error, "") from error

    def _result(self, answer: Future[T], topic: str) -> T:
        try:
            # The request ends by its own timeout; this one is for a client that does not say so.
            return answer.result(self._timeout + 5.0)
        except (KafkaException, NotInTime) as error:
            raise self._explained(error, topic) from error

    def _explained(self, error: Exception, topic: str) -> PipelineError | SetupError:
        self._admin.poll(0)  # so that what went wrong with the connection is told
        code = error.args[0].code() if isinstance(error, KafkaException) else None
        if code == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return _TopicMissing(
                f"topic {topic!r} does not exist on {self._servers}; correct source.topics, or create it: "
                f"kafka-topics.sh --bootstrap-server {self._servers} --create --topic {topic} --partitions 4"
            )
        if code in _REFUSED:
            return SetupError(
                f"Kafka at {self._servers} refused ({_reason(error)}); give the user of source.kafka the right to "
                "describe the cluster and to read the topics"
            )
        told = f" ({self._last_error})" if self._last_error else ""
        kind = _NoLeader if code in _LEADERLESS else BrokerUnavailable
        return kind(
            f"Kafka at {self._servers} does not answer: {_reason(error)}{told}; check that it runs and that "
            "source.kafka.bootstrap.servers and security.protocol are right"
        )

    def _remember(self, error: KafkaError) -> None:
        # "All brokers down" follows every other error and says less.
        if error.code() != KafkaError._ALL_BROKERS_DOWN or not self._last_error:
            self._last_error = error.str()


def _settled(ask: Callable[[], T]) -> T:
    """The answer, once there is one: a topic just made, or any topic right after a broker's start, is unknown to the
    broker for a moment, and then without a leader.
    """
    until = time.monotonic() + _SETTLE_SECONDS
    while True:
        try:
            return ask()
        except (_TopicMissing, _NoLeader):
            if time.monotonic() >= until:
                raise
        time.sleep(_ASK_AGAIN_SECONDS)


def topic_identity(
    settings: Settings, timeout_seconds: float = TIMEOUT_SECONDS
) -> tuple[str, dict[str, str]]:
    """The cluster's id and each topic's UUID: what a checkpoint is compared with."""
    cluster = KafkaCluster(settings, timeout_seconds)
    return cluster.cluster_id(), cluster.topic_ids()


def lag(
    ends: Mapping[str, Mapping[int, int]], read: Mapping[str, Mapping[int, int]]
) -> dict[str, dict[int, int]]:
    """How many offsets are still to be read of each partition; of one never read, all of them."""
    return {
        topic: {
            number: max(0, end - read.get(topic, {}).get(number, 0)) for number, end in partitions.items()
        }
        for topic, partitions in ends.items()
    }


def _reason(error: Exception) -> str:
    return str(error.args[0].str()) if isinstance(error, KafkaException) else "no answer in time"
