"""Kafka as a source: its topics are the pipeline's, its offsets are the offsets."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager
from dataclasses import dataclass

from pyspark.sql import SparkSession

from distributary.ingest.kafka.cluster import TIMEOUT_SECONDS, KafkaCluster
from distributary.ingest.kafka.connection import connected
from distributary.ingest.kafka.offsets import Offsets, Positions
from distributary.ingest.kafka.source import TopicReader, warm_up
from distributary.ingest.kafka.time_overflow import ReadingAround, before_overflows, is_time_overflow
from distributary.ingest.reshaping.rule import NOTHING_BESIDE, Beside
from distributary.ingest.settings.groups import Route, Source
from distributary.ingest.source.contract import Channels, Reading, Tell
from distributary.ingest.source.ranges import next_range
from distributary.ingest.storage.contract import Files


@dataclass(frozen=True, slots=True)
class KafkaRecords(TopicReader):
    """The records of Kafka's topics, by Spark's own source, and around it where that cannot read one."""

    @property
    def streams(self) -> bool:
        """It has a stream of Spark's."""
        return True

    def next_range(self, read: Positions, ends: Positions, most: int) -> Offsets:
        """The next offsets of each partition, at most so many together."""
        return next_range(read, ends, most)

    def reading(self, place: Files) -> Reading:
        """Reads around Spark's source where that ends at a record's time."""
        return ReadingAround(self, place)

    def is_unreadable(self, error: BaseException) -> bool:
        """Whether it is a record's time."""
        return is_time_overflow(error)

    def readable(self, offsets: Offsets) -> Offsets:
        """What comes before the first record whose time Spark cannot read."""
        return before_overflows(self, offsets)

    def warm_up(self, channels: Channels) -> None:
        """Have Kafka's client loaded. Raises SetupError where the topics may not be read."""
        warm_up(self, channels)


class Kafka(KafkaCluster):
    """A cluster's topics."""

    holder = "Kafka"
    ends_by_itself = False

    def beginning(self) -> Positions:
        """The first record of each partition that is there: retention is no secret to who reads topics."""
        return self.earliest_offsets()

    def columns(self, ends: Positions | None = None) -> str | None:
        """Records tell."""
        return None

    def schemas(self) -> None:
        """A registry has them."""

    def records(
        self,
        spark: SparkSession,
        pipeline: str,
        source: Source,
        route: Route,
        beside: Beside = NOTHING_BESIDE,
    ) -> KafkaRecords:
        """Their records, as this session reads them."""
        return KafkaRecords.of(spark, pipeline, source, route, beside)


def open_kafka(
    source: Source,
    spark: SparkSession | None = None,
    stop: threading.Event | None = None,
    timeout_seconds: float = TIMEOUT_SECONDS,
    tell: Tell | None = None,
) -> AbstractContextManager[Kafka]:
    """The cluster that the topics are on, until the block ends; see `connect`."""
    return connected(Kafka, source, spark, stop, timeout_seconds, tell)
