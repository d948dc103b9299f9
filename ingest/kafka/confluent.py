"""The cluster asked by librdkafka, through confluent-kafka: where there is no JVM of ours."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotInTime
from typing import Any, TypeVar

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined] # exported, though not for the checker
    AdminClient,
    OffsetSpec,
)

from distributary.errors import PipelineError, SetupError
from distributary.ingest.kafka.client import Complaints, Moment, Topic, topic_id
from distributary.ingest.kafka.offsets import Positions
from distributary.ingest.kafka.reachable import what_is_wrong_at
from distributary.ingest.settings.source.librdkafka import librdkafka_options
from distributary.passed_on_options import without_secrets

_log = logging.getLogger(__name__)

# What a client says over and over while it cannot connect is told once, by the error that is raised; without a handler
# Python would print each line.
_log.addHandler(logging.NullHandler())

# A UUID of sixteen zero bytes: the broker is older than topic ids (Kafka 2.8).
_NO_UUID = "AAAAAAAAAAAAAAAAAAAAAA"

_FORBIDDEN = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
}

_NO_LOGIN = {KafkaError.SASL_AUTHENTICATION_FAILED, KafkaError._AUTHENTICATION, KafkaError._SSL}

_LEADERLESS = {KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE}

# What Java's client leaves out of its lists by itself.
_OF_KAFKA = {"__consumer_offsets", "__transaction_state", "__share_group_state"}

T = TypeVar("T")


class ConfluentClient:
    """A `KafkaClient`. Raises ConfigError for options that librdkafka lacks or that do not work."""

    def __init__(self, kafka: Mapping[str, str], timeout_seconds: float, complaints: Complaints) -> None:
        self._complaints, self._timeout, self._kafka = complaints, timeout_seconds, kafka
        committed = kafka.get("isolation.level") != "read_uncommitted"
        self._level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        self._last_error: KafkaError | None = None
        try:
            with_callback: dict[str, Any] = {**librdkafka_options(kafka), "error_cb": self._remember}
            # Its log, which goes to standard error otherwise.
            self._admin = AdminClient(with_callback, logger=MaskedLog(_log, kafka))
        except KafkaException as error:
            raise complaints.unusable(self._reason(error)) from error

    def cluster_id(self) -> str:
        """The cluster's own id."""
        asked = self._start(lambda wait: self._admin.describe_cluster(request_timeout=wait))
        return str(self._result(asked, "").cluster_id)

    def names(self) -> list[str]:
        """The topics that there are, but for Kafka's own."""
        there = self._start(lambda wait: self._admin.list_topics(timeout=wait)).topics
        return [name for name in there if name not in _OF_KAFKA]

    def topics(self, names: Sequence[str]) -> dict[str, Topic]:
        """These topics. Raises TopicMissing."""
        wanted = TopicCollection(list(names))
        answers = self._start(lambda wait: self._admin.describe_topics(wanted, request_timeout=wait))
        return {name: as_topic(self._result(answer, name)) for name, answer in answers.items()}

    def offsets(self, partitions: Mapping[str, Sequence[int]], moment: Moment) -> Positions:
        """Where each of these partitions stands at a moment. Raises NoLeader."""
        wanted = {
            TopicPartition(name, number): _spec(moment)
            for name, numbers in partitions.items()
            for number in numbers
        }
        level = IsolationLevel.READ_UNCOMMITTED if moment == "end" else self._level
        answers = self._start(
            lambda wait: self._admin.list_offsets(wanted, isolation_level=level, request_timeout=wait)
        )
        found: Positions = {name: {} for name in partitions}
        for place, answer in answers.items():
            offset = int(self._result(answer, place.topic).offset)
            if offset >= 0:
                found[place.topic][place.partition] = offset
        return found

    def close(self) -> None:
        """End the connection: librdkafka's threads, which look for a broker that is away for ever, end with the last reference to its client."""
        del self._admin

    def _start(self, call: Callable[[float], T]) -> T:
        try:
            return call(self._timeout)
        except KafkaException as error:
            raise self._explained(error, "") from error

    def _result(self, answer: Future[T], topic: str) -> T:
        try:
            # The request ends by its own time limit; this one is for a client that does not say so.
            found = answer.result(self._timeout + 1.0)
        except (KafkaException, NotInTime) as error:
            raise self._explained(error, topic) from error
        self._last_error = None
        return found

    def _explained(self, error: Exception, topic: str) -> PipelineError | SetupError:
        self._admin.poll(0)  # so that what went wrong with the connection is told
        code = error.args[0].code() if isinstance(error, KafkaException) else None
        if code == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return self._complaints.missing(topic)
        if code in _FORBIDDEN:
            return self._complaints.forbidden(self._reason(error))
        if code in _NO_LOGIN:
            return self._no_login(self._reason(error))
        return self._no_answer(self._reason(error), code in _LEADERLESS)

    def _no_answer(self, reason: str, leaderless: bool) -> PipelineError | SetupError:
        last = self._last_error
        if last is not None and last.code() in _NO_LOGIN:
            return self._no_login(self._masked(last.str()))
        told = reason if last is None else f"{reason} ({self._masked(last.str())})"
        return self._complaints.leaderless(told) if leaderless else self._complaints.silent(told)

    def _no_login(self, reason: str) -> PipelineError | SetupError:
        """There is one error of librdkafka for a server of tokens that is not there and one that knows another secret."""
        url = self._kafka.get("sasl.oauthbearer.token.endpoint.url")
        trouble = what_is_wrong_at(url) if url else ""
        return self._complaints.no_login_server(trouble) if trouble else self._complaints.no_login(reason)

    def _reason(self, error: Exception) -> str:
        said = error.args[0].str() if isinstance(error, KafkaException) else "no answer in time"
        return self._masked(str(said))

    def _masked(self, said: str) -> str:
        return without_secrets(said, self._kafka)

    def _remember(self, error: KafkaError) -> None:
        # "All brokers down" follows every other error and says less, and so does the connection's end after a failed login.
        last = self._last_error
        if last is None or (error.code() != KafkaError._ALL_BROKERS_DOWN and last.code() not in _NO_LOGIN):
            self._last_error = error


def as_topic(described: Any) -> Topic:
    """A topic as an admin client describes it."""
    uuid = topic_id(str(described.topic_id))
    return Topic("" if uuid == _NO_UUID else uuid, sorted(int(one.id) for one in described.partitions))


def _spec(moment: Moment) -> Any:
    if isinstance(moment, int):
        return OffsetSpec.for_timestamp(moment)
    return OffsetSpec.earliest() if moment == "earliest" else OffsetSpec.latest()  # type: ignore[no-untyped-call]


class MaskedLog:
    """A log for librdkafka, which quotes what a server of tokens answers, without what the client's options keep secret."""

    def __init__(self, logger: logging.Logger, kafka: Mapping[str, str]) -> None:
        self._logger, self._kafka = logger, kafka

    def log(self, level: int, message: str, *arguments: object) -> None:
        """As librdkafka's binding calls it."""
        self._logger.log(level, without_secrets(message % arguments, self._kafka))
