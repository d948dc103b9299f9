"""What Kafka's client says within an error of Spark's: as it says it, and never a record's value or a secret."""

from __future__ import annotations

from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from distributary.ingest.kafka.java_errors import said_by_kafka
from distributary.ingest.supervisor import sentence

pytestmark = pytest.mark.spark

SECRET, VALUE = "planted-secret", "planted-value"
KAFKA = {"bootstrap.servers": "127.0.0.1:1", "sasl.password": SECRET}


class Raised(Exception):
    """An error with this exception of the JVM behind it."""

    def __init__(self, java_exception: Any) -> None:
        super().__init__(VALUE)
        self.java_exception = java_exception


def wrapped(spark: SparkSession, error: Any) -> Raised:
    """As a task's error reaches us: within others, which quote what they like."""
    java: Any = spark.sparkContext._jvm.java.util.concurrent  # type: ignore[union-attr]
    return Raised(java.ExecutionException(VALUE, error))


def test_a_broker_that_does_not_answer_is_told_as_kafka_says_it(spark: SparkSession) -> None:
    reading = spark.read.format("kafka").options(
        **{
            "kafka.bootstrap.servers": KAFKA["bootstrap.servers"],
            "subscribe": "events",
            "kafka.default.api.timeout.ms": "400",
            "kafka.request.timeout.ms": "200",
            "fetchOffset.numRetries": "1",
        }
    )
    with pytest.raises((PySparkException, Py4JJavaError)) as caught:
        reading.load().count()
    told = sentence(caught.value, KAFKA)
    assert "TimeoutException (Timed out waiting for a node assignment" in told
    assert told.endswith("; --debug shows all") and "\n" not in told


def test_what_the_cluster_says_is_told_without_the_secrets_that_it_quotes(spark: SparkSession) -> None:
    kafka: Any = spark.sparkContext._jvm.org.apache.kafka.common.errors  # type: ignore[union-attr]
    refused = wrapped(spark, kafka.SaslAuthenticationException(f"no user has the password {SECRET}"))
    told = sentence(refused, KAFKA)
    assert told.startswith("Spark failed: SaslAuthenticationException (no user has the password *")
    assert SECRET not in told and VALUE not in told
    unknown = wrapped(spark, kafka.UnknownTopicOrPartitionException("This server has no such topic"))
    assert said_by_kafka(unknown, KAFKA) == "This server has no such topic"


def test_what_may_quote_a_record_is_told_by_its_class_alone(spark: SparkSession) -> None:
    kafka: Any = spark.sparkContext._jvm.org.apache.kafka.common  # type: ignore[union-attr]
    for error in (kafka.errors.SerializationException(VALUE), kafka.config.ConfigException(VALUE)):
        told = sentence(wrapped(spark, error), KAFKA)
        assert error.getClass().getSimpleName() in told and VALUE not in told
    assert said_by_kafka(OSError(VALUE), KAFKA) == ""
