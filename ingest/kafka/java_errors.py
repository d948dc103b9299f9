"""What exceptions of the session's JVM are and say, without the secrets of the options they came of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from py4j.java_gateway import is_instance_of
from py4j.protocol import Py4JError
from pyspark import SparkContext

from distributary.ingest.spark.error_classes import causes, chain
from distributary.passed_on_options import without_secrets

# What a cluster answers, or is not answered in time: names of topics, numbers and reasons, and nothing of a record.
# https://kafka.apache.org/39/javadoc/org/apache/kafka/common/errors/ApiException.html
_OF_THE_CLUSTER = ("org.apache.kafka.common.errors.ApiException",)

# What another try may not meet: no answer in time, a connection that broke, a partition whose leader changes.
_PASSING = ("org.apache.kafka.common.errors.RetriableException",)

# Spark's own word for records that did not come in time, from where it reads them.
_LATE, _READER = ("java.util.concurrent.TimeoutException",), "org.apache.spark.sql.kafka010."


def is_outage(error: BaseException) -> bool:
    """Whether an error of Spark's is that brokers did not answer in time. Raises what Py4J does where the JVM is gone."""
    errors = JavaErrors(SparkContext._gateway, {})
    return any(
        errors.is_any(one, _PASSING) or (errors.is_any(one, _LATE) and _of_reader(one))
        for one in causes(error)
    )


def _of_reader(raised: Any) -> bool:
    frames = raised.getStackTrace()
    return len(frames) > 0 and str(frames[0].getClassName()).startswith(_READER)


def said_by_kafka(error: BaseException, kafka: Mapping[str, str]) -> str:
    """What Kafka's client says within an error of Spark's, without secrets; empty where it is none of the client's.

    `kafka` are the client's options.
    """
    gateway: Any = SparkContext._gateway
    errors = JavaErrors(gateway, kafka)
    try:
        own = next((one for one in causes(error) if errors.is_any(one, _OF_THE_CLUSTER)), None)
        return "" if own is None else errors.reason(own)
    except (Py4JError, OSError):
        # The JVM is gone.
        return ""


class JavaErrors:
    """Exceptions of one JVM, where `kafka` are the options of the client that raised them."""

    def __init__(self, gateway: Any, kafka: Mapping[str, str]) -> None:
        self._gateway, self._kafka = gateway, kafka

    def is_any(self, error: Any, classes: Sequence[str]) -> bool:
        """Whether it is of one of these classes, or of a class below."""
        return any(is_instance_of(self._gateway, error, name) for name in classes)

    def any_cause(self, error: Any, classes: Sequence[str]) -> bool:
        """Whether it or one of its causes is."""
        return any(self.is_any(one, classes) for one in chain(error))

    def reason(self, error: Any) -> str:
        """What it and its causes say, from the outermost in, each once; its class where none says anything."""
        said: list[str] = []
        name = ""
        for one in chain(error):
            name, message, cause = one.getClass().getSimpleName(), one.getMessage(), one.getCause()
            # One that only wraps another repeats it as its own message.
            if message and (cause is None or not message.endswith(str(cause.getMessage()))):
                said.append(str(message).splitlines()[0])
        return without_secrets(": ".join(said) or name, self._kafka)
