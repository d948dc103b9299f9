"""One connection to the cluster for a whole run, by the client that is there."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TypeVar

from pyspark.sql import SparkSession

from distributary.ingest.kafka.client import Assigned, Complaints, KafkaClient
from distributary.ingest.kafka.cluster import TIMEOUT_SECONDS, KafkaCluster, Tell
from distributary.ingest.kafka.confluent import ConfluentClient
from distributary.ingest.kafka.java import JavaClient
from distributary.ingest.settings.groups import Source

Cluster = TypeVar("Cluster", bound=KafkaCluster)


def connect(
    source: Source,
    spark: SparkSession | None = None,
    stop: threading.Event | None = None,
    timeout_seconds: float = TIMEOUT_SECONDS,
    tell: Tell | None = None,
) -> AbstractContextManager[KafkaCluster]:
    """The cluster that the topics are on, until the block ends; asked within the session's JVM where there is one.

    With `tell` an outage is told of and waited for. Raises ConfigError for options that do not work, and Stopped once `stop` is set and there is no answer.
    """
    return connected(KafkaCluster, source, spark, stop, timeout_seconds, tell)


@contextmanager
def connected(  # noqa: PLR0913, PLR0917 - as `connect`
    made: type[Cluster],
    source: Source,
    spark: SparkSession | None = None,
    stop: threading.Event | None = None,
    timeout_seconds: float = TIMEOUT_SECONDS,
    tell: Tell | None = None,
) -> Iterator[Cluster]:
    """The same, as a kind of cluster that knows more."""
    complaints = Complaints(source.kafka["bootstrap.servers"])
    cluster = made(
        lambda: _client(spark, source, timeout_seconds, complaints),
        source.topics,
        complaints,
        stop,
        timeout_seconds,
        tell,
    )
    try:
        yield cluster
    finally:
        cluster.close()


def _client(
    spark: SparkSession | None, source: Source, timeout_seconds: float, complaints: Complaints
) -> KafkaClient:
    client = _any_client(spark, source, timeout_seconds, complaints)
    return Assigned(client, source.partitions) if source.partitions else client


def _any_client(
    spark: SparkSession | None, source: Source, timeout_seconds: float, complaints: Complaints
) -> KafkaClient:
    # A session of Spark Connect is another class: its JVM is another machine's.
    if isinstance(spark, SparkSession):
        return JavaClient(spark, source.kafka, timeout_seconds, complaints)
    return ConfluentClient(source.kafka, timeout_seconds, complaints)
