"""What a client of Kafka's answers to a pipeline, and the errors it gives.

Two pass the same tests: `java.py`, which is Spark's own client, and `confluent.py`, where there is no JVM of ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from distributary.errors import BrokerUnavailable, ConfigError, CredentialsRefused, SetupError
from distributary.ingest.kafka.offsets import Positions

# The first offset that is there; where a reader with the client's isolation level comes to an end; the offset behind the last
# record, whatever transactions it is in; or the first record's that was written at this time or later (milliseconds since the epoch).
Moment = Literal["earliest", "latest", "end"] | int


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as its cluster knows it.

    uuid        another one after the topic was made anew, as `topic_id` spells it; empty from a broker without any
                (before Kafka 2.8)
    partitions  their numbers, in order
    """

    uuid: str
    partitions: Sequence[int]


def topic_id(uuid: str) -> str:
    """A topic's UUID as Kafka spells it, in base64 for URLs; librdkafka spells it in the standard base64.

    https://kafka.apache.org/39/javadoc/org/apache/kafka/common/Uuid.html#toString()
    """
    return uuid.replace("+", "-").replace("/", "_")


class KafkaClient(Protocol):
    """A connection to one cluster. What it cannot answer it raises as `Complaints` words it."""

    def cluster_id(self) -> str:
        """The cluster's own id, made when it was formatted."""
        ...

    def names(self) -> Sequence[str]:
        """The topics that who asks may see, but for Kafka's own."""
        ...

    def topics(self, names: Sequence[str]) -> Mapping[str, Topic]:
        """These topics. Raises TopicMissing."""
        ...

    def offsets(self, partitions: Mapping[str, Sequence[int]], moment: Moment) -> Positions:
        """Where each of these partitions stands at a moment; those without a record so new are left out. Raises NoLeader."""
        ...

    def close(self) -> None:
        """End the connection; waits for nothing."""
        ...


@dataclass(frozen=True, slots=True)
class Assigned:
    """A client that knows only some partitions of each topic: those that a pipeline is to read."""

    client: KafkaClient
    partitions: Mapping[str, Sequence[int]]

    def cluster_id(self) -> str:
        """The cluster's own id."""
        return self.client.cluster_id()

    def names(self) -> Sequence[str]:
        """The topics that there are."""
        return self.client.names()

    def topics(self, names: Sequence[str]) -> Mapping[str, Topic]:
        """These topics, with those partitions. Raises ConfigError where one of them is not there, and TopicMissing."""
        found = self.client.topics(names)
        for name, topic in found.items():
            if strange := sorted(set(self.partitions[name]) - set(topic.partitions)):
                raise ConfigError(
                    f"source.partitions names {', '.join(map(str, strange))} of topic {name!r}, which has {len(topic.partitions)} "
                    "partitions, counted from 0; correct it"
                )
        return {name: Topic(topic.uuid, self.partitions[name]) for name, topic in found.items()}

    def offsets(self, partitions: Mapping[str, Sequence[int]], moment: Moment) -> Positions:
        """Where each of these partitions stands at a moment. Raises NoLeader."""
        return self.client.offsets(partitions, moment)

    def close(self) -> None:
        """End the connection."""
        self.client.close()


class TopicMissing(SetupError, LookupError):
    """The cluster has no such topic; the message says how to make it."""


class NoLeader(BrokerUnavailable):
    """A partition that nobody leads just now."""


@dataclass(frozen=True, slots=True)
class Complaints:
    """What is said of the cluster at these servers. A reason is a client's own words, without secrets."""

    servers: str

    def missing(self, topic: str) -> TopicMissing:
        """There is no such topic."""
        return TopicMissing(
            f"topic {topic!r} does not exist on {self.servers}; correct source.topics, or create it: "
            f"kafka-topics.sh --bootstrap-server {self.servers} --create --topic {topic} --partitions 4"
        )

    def none_fits(self, patterns: Sequence[str]) -> TopicMissing:
        """No topic has a name that is asked for."""
        return TopicMissing(
            f"no topic on {self.servers} fits {', '.join(patterns)}, as far as the user of source.kafka may see; correct source.topics, "
            "or start the pipeline once there is one"
        )

    def forbidden(self, reason: str) -> CredentialsRefused:
        """Who asks is known, and may not."""
        return CredentialsRefused(
            f"Kafka at {self.servers} refused ({reason}); give the user of source.kafka the right to "
            "describe the cluster and to read the topics"
        )

    def no_login(self, reason: str) -> CredentialsRefused:
        """Client and broker do not accept each other."""
        return CredentialsRefused(
            f"Kafka at {self.servers} cannot be logged in to with the options of source.kafka: {reason}; check "
            "security.protocol, sasl.* and ssl.* there"
        )

    def no_login_server(self, reason: str) -> BrokerUnavailable:
        """Logging in takes another server first, of tokens or of Kerberos, and that one is down."""
        return BrokerUnavailable(
            f"the server that source.kafka needs to log in to {self.servers} (of tokens, or Kerberos) does not answer: "
            f"{reason}; check that it runs, and that the options sasl.* name the right one"
        )

    def silent(self, reason: str) -> BrokerUnavailable:
        """No answer, whatever the cause."""
        return BrokerUnavailable(self._no_answer(reason))

    def quiet(self, seconds: float) -> str:
        """No answer yet."""
        return f"no answer from Kafka at {self.servers} for {seconds:.0f} s; it is waited for, if source.kafka.bootstrap.servers is right"

    def leaderless(self, reason: str) -> NoLeader:
        """A partition without a leader has no offsets."""
        return NoLeader(self._no_answer(reason))

    def unusable(self, reason: str) -> ConfigError:
        """No client can be made of these options."""
        return ConfigError(f"source.kafka does not work: {reason}")

    def _no_answer(self, reason: str) -> str:
        return (
            f"Kafka at {self.servers} does not answer: {reason}; check that it runs and that "
            "source.kafka.bootstrap.servers and security.protocol are right"
        )
