"""The cluster asked by Kafka's Java client, the one that Spark reads with: what connects the one connects the other.

https://kafka.apache.org/39/javadoc/org/apache/kafka/clients/admin/Admin.html
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from distributary.errors import ConfigError, CredentialsRefused, PipelineError, SetupError
from distributary.ingest.kafka import java_login
from distributary.ingest.kafka.client import Complaints, Moment, Topic
from distributary.ingest.kafka.java_errors import JavaErrors
from distributary.ingest.kafka.offsets import Positions
from distributary.ingest.kafka.reachable import what_is_wrong
from distributary.ingest.spark.error_classes import causes

_API, _COMMON = "org.apache.kafka.clients.admin", "org.apache.kafka.common"

_ERRORS = f"{_COMMON}.errors"

# From the particular to the general: an exception is what the first says whose class it has.
_MISSING = (f"{_ERRORS}.UnknownTopicOrPartitionException", f"{_ERRORS}.InvalidTopicException")
FORBIDDEN = (f"{_ERRORS}.AuthorizationException",)
_NO_LOGIN = (f"{_ERRORS}.AuthenticationException",)
_LEADERLESS = (f"{_ERRORS}.NotLeaderOrFollowerException", f"{_ERRORS}.LeaderNotAvailableException")
_NOT_IN_TIME = (f"{_ERRORS}.TimeoutException", "java.util.concurrent.TimeoutException")

# A login that needs a token asks a server for it, with no time limit unless one is set.
_LOGIN_TIMEOUTS = ("sasl.login.connect.timeout.ms", "sasl.login.read.timeout.ms")


def refused(error: BaseException, kafka: Mapping[str, str]) -> CredentialsRefused | None:
    """What an error of Spark's comes to whose cause is that the brokers do not accept who asks; None for any other error.

    `kafka` are the client's options.
    """
    complaints, gateway = Complaints(kafka.get("bootstrap.servers", "")), SparkContext._gateway
    errors = JavaErrors(gateway, kafka)
    for one in causes(error):
        if errors.is_any(one, FORBIDDEN):
            return complaints.forbidden(errors.reason(one))
        if errors.is_any(one, _NO_LOGIN):
            return complaints.no_login(errors.reason(one))
    return None


class JavaClient:
    """A `KafkaClient` within the session's JVM.

    Raises ConfigError for options that do not work, and BrokerUnavailable where a server that the login needs is down.
    """

    def __init__(
        self,
        spark: SparkSession,
        kafka: Mapping[str, str],
        timeout_seconds: float,
        complaints: Complaints,
    ) -> None:
        context: Any = spark.sparkContext
        self._gateway, self._jvm = context._gateway, context._jvm
        self._errors = JavaErrors(self._gateway, kafka)
        self._kafka, self._complaints = kafka, complaints
        self._classes: dict[str, Any] = {}
        self._milliseconds = int(timeout_seconds * 1000)
        self._committed = kafka.get("isolation.level") != "read_uncommitted"
        properties = self._properties()
        try:
            with java_login.unlogged(self._jvm):
                self._admin = self._java(f"{_API}.AdminClient").create(properties)
        except Py4JJavaError as error:
            raise self._no_client(error.java_exception, properties) from None

    def cluster_id(self) -> str:
        """The cluster's own id."""
        answer = self._admin.describeCluster(self._options("DescribeClusterOptions"))
        return str(self._result(answer.clusterId(), ""))

    def names(self) -> list[str]:
        """The topics that there are, but for Kafka's own."""
        answer = self._admin.listTopics(self._options("ListTopicsOptions"))
        return [str(name) for name in self._result(answer.names(), "")]

    def topics(self, names: Sequence[str]) -> dict[str, Topic]:
        """These topics. Raises TopicMissing."""
        wanted = self._java("java.util.ArrayList")()
        for name in names:
            wanted.add(name)
        answers = self._admin.describeTopics(wanted, self._options("DescribeTopicsOptions")).topicNameValues()
        return {name: self._topic(self._result(answers.get(name), name)) for name in names}

    def offsets(self, partitions: Mapping[str, Sequence[int]], moment: Moment) -> Positions:
        """Where each of these partitions stands at a moment. Raises NoLeader."""
        spec, wanted = self._spec(moment), self._java("java.util.HashMap")()
        places = {
            (name, number): self._java(f"{_COMMON}.TopicPartition")(name, number)
            for name, numbers in partitions.items()
            for number in numbers
        }
        for place in places.values():
            wanted.put(place, spec)
        answers = self._admin.listOffsets(
            wanted, self._listing(committed=self._committed and moment != "end")
        )
        found: Positions = {name: {} for name in partitions}
        for (name, number), place in places.items():
            offset = int(self._result(answers.partitionResult(place), name).offset())
            if offset >= 0:
                found[name][number] = offset
        return found

    def close(self) -> None:
        """End the connection; questions under way fail."""
        self._admin.close(self._java("java.time.Duration").ZERO)

    def _java(self, name: str) -> Any:
        """A class by its whole name, asked for once: by its parts the JVM would be asked for each of them, and go through all jars."""
        if name not in self._classes:
            self._classes[name] = getattr(self._jvm, name)
        return self._classes[name]

    def _properties(self) -> Any:
        """The options without those that only a consumer has, which an admin client would warn of."""
        consumer = self._options_of("org.apache.kafka.clients.consumer.ConsumerConfig")
        ours = self._options_of(f"{_API}.AdminClientConfig")
        limits = dict.fromkeys(("default.api.timeout.ms", "request.timeout.ms"), str(self._milliseconds))
        given = {name: value for name, value in self._kafka.items() if name in ours or name not in consumer}
        properties = self._java("java.util.HashMap")()
        for name, value in {
            **dict.fromkeys(_LOGIN_TIMEOUTS, str(self._milliseconds)),
            **given,
            **limits,
        }.items():
            properties.put(name, value)
        return properties

    def _options_of(self, config: str) -> set[str]:
        # As one text: a set of Java's would be asked twice for each of a hundred names.
        told = str(self._java(config).configNames().toString())
        return set(told.strip("[]").split(", "))

    def _options(self, kind: str) -> Any:
        return self._java(f"{_API}.{kind}")().timeoutMs(self._milliseconds)

    def _listing(self, committed: bool) -> Any:
        level = self._java(f"{_COMMON}.IsolationLevel")
        wanted = level.READ_COMMITTED if committed else level.READ_UNCOMMITTED
        return self._java(f"{_API}.ListOffsetsOptions")(wanted).timeoutMs(self._milliseconds)

    def _spec(self, moment: Moment) -> Any:
        spec = self._java(f"{_API}.OffsetSpec")
        if moment == "earliest":
            return spec.earliest()
        if moment in ("latest", "end"):
            return spec.latest()
        return spec.forTimestamp(self._java("java.lang.Long").valueOf(str(moment)))

    def _topic(self, described: Any) -> Topic:
        uuid = described.topicId()
        unknown = uuid.equals(self._java(f"{_COMMON}.Uuid").ZERO_UUID)
        # Kafka numbers a topic's partitions from nought without a gap.
        return Topic("" if unknown else str(uuid.toString()), list(range(described.partitions().size())))

    def _result(self, future: Any, topic: str) -> Any:
        try:
            # The request ends by its own time limit, unless the client hangs where it looks up a name.
            unit = self._java("java.util.concurrent.TimeUnit").MILLISECONDS
            return future.get(self._milliseconds + 1000, unit)
        except Py4JJavaError as error:
            raise self._explained(error.java_exception, topic) from None

    def _no_client(self, raised: Any, properties: Any) -> ConfigError | PipelineError:
        error, is_outage = java_login.failure(raised, self._jvm, self._gateway, properties, self._errors)
        told = self._complaints.no_login_server if is_outage else self._complaints.unusable
        return told(self._errors.reason(error))

    def _explained(self, raised: Any, topic: str) -> PipelineError | SetupError:
        error = raised.getCause() or raised
        if self._errors.is_any(error, _MISSING):
            return self._complaints.missing(topic)
        told: Callable[[str], PipelineError | SetupError] = self._complaints.silent
        if self._errors.is_any(error, FORBIDDEN):
            told = self._complaints.forbidden
        elif self._errors.is_any(error, _NO_LOGIN):
            told = self._complaints.no_login
        elif self._errors.is_any(error, _LEADERLESS):
            told = self._complaints.leaderless
        elif self._errors.is_any(error, _NOT_IN_TIME):
            return told(what_is_wrong(self._complaints.servers) or "no answer in time")
        return told(self._errors.reason(error))
