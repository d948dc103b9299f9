"""What Kafka's client says within an error of Spark's: as it says it, and never a record's value or a secret."""

from __future__ import annotations

from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from distributary.ingest.kafka.java_errors import is_outage, said_by_kafka
from distributary.ingest.supervision.sentences import sentence

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
    said = "cannot be logged in to with the options of source.kafka: no user has the password *"
    assert told.startswith(f"Kafka at {KAFKA['bootstrap.servers']} {said}")
    assert SECRET not in told and VALUE not in told
    unknown = wrapped(spark, kafka.UnknownTopicOrPartitionException("This server has no such topic"))
    assert said_by_kafka(unknown, KAFKA) == "This server has no such topic"


def test_what_may_quote_a_record_is_told_by_its_class_alone(spark: SparkSession) -> None:
    kafka: Any = spark.sparkContext._jvm.org.apache.kafka.common  # type: ignore[union-attr]
    for error in (kafka.errors.SerializationException(VALUE), kafka.config.ConfigException(VALUE)):
        told = sentence(wrapped(spark, error), KAFKA)
        assert error.getClass().getSimpleName() in told and VALUE not in told
    assert said_by_kafka(OSError(VALUE), KAFKA) == ""


def test_who_may_not_read_a_topic_is_told_which_right_is_missing(spark: SparkSession) -> None:
    kafka: Any = spark.sparkContext._jvm.org.apache.kafka.common.errors  # type: ignore[union-attr]
    told = sentence(
        wrapped(spark, kafka.TopicAuthorizationException("Not authorized to access topics")), KAFKA
    )
    assert told.startswith(f"Kafka at {KAFKA['bootstrap.servers']} refused (Not authorized to access topics)")


def test_brokers_that_do_not_answer_in_time_are_told_from_whatever_else_takes_too_long(
    spark: SparkSession,
) -> None:
    jvm: Any = spark.sparkContext._jvm
    gateway: Any = spark.sparkContext._gateway
    errors = jvm.org.apache.kafka.common.errors
    for error in (errors.TimeoutException("x"), errors.DisconnectException("x")):
        assert is_outage(wrapped(spark, error))
    assert not is_outage(wrapped(spark, errors.SaslAuthenticationException("x")))
    assert not is_outage(
        wrapped(
            spark, jvm.org.apache.kafka.clients.consumer.OffsetOutOfRangeException(jvm.java.util.HashMap())
        )
    )
    late = jvm.java.util.concurrent.TimeoutException("Cannot fetch record for offset 7")
    assert not is_outage(wrapped(spark, late)), "it says nothing of where it was raised"
    frames = gateway.new_array(jvm.java.lang.StackTraceElement, 1)
    frames[0] = jvm.java.lang.StackTraceElement(
        "org.apache.spark.sql.kafka010.consumer.KafkaDataConsumer", "fetch", "KafkaDataConsumer.scala", 1
    )
    late.setStackTrace(frames)
    assert is_outage(wrapped(spark, late))
    assert not is_outage(OSError(VALUE))
