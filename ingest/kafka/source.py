"""Kafka's records as Spark reads them: the stream, and any range of offsets once more."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from typing_extensions import Self

from distributary.errors import CheckpointMismatch
from distributary.ingest.kafka.java import refused
from distributary.ingest.kafka.offsets import (
    Offsets,
    Positions,
    Stretches,
    ends,
    positions_to_json,
    starts,
    stretches_within,
)
from distributary.ingest.reshaping.rule import NOTHING_BESIDE, Beside
from distributary.ingest.settings.groups import Route, Source

# Laid under the user's own options. Kafka hands out 500 records a poll unless told otherwise, and asking so often takes a
# third of the source's time; and a broker with nothing new keeps a reader at a topic's end waiting for half a second.
READ_WITH = {"kafka.max.poll.records": "10000", "kafka.fetch.max.wait.ms": "50"}

# Milliseconds since 1970. Spark takes a record's time for one of Java's old calendar, which had other days before 1582 and other local
# times before 1900, and gives another instant of before then.
FIRST_READ_RIGHT = -2_177_452_800_000  # 1901

# From any time before, so far down that microseconds of it are no whole number of 64 bits.
_TOO_FAR = 9_000_000_000_000_000_000

# Enough to bring everything into being, and no work.
_WARM_UP_RECORDS = 100


@dataclass(frozen=True, slots=True)
class Lost:
    """Offsets of a partition whose records whoever holds them has no more, and that were not read: from the first to before another."""

    topic: str
    partition: int
    first: int
    before: int
    holder: str = "Kafka"

    def __str__(self) -> str:
        """As people read it."""
        return (
            f"{self.holder} has no more of {self.topic}/{self.partition} from offset {self.first} to before {self.before}, "
            "of which nothing was read"
        )

    def but(self, had: Stretches) -> list[Lost]:
        """Those of them that do not stand in one of these stretches."""
        here: Offsets = {self.topic: {self.partition: (self.first, self.before)}}
        found, at = list[Lost](), self.first
        for first, end in stretches_within(had, here).get(self.topic, {}).get(self.partition, ()):
            found += [replace(self, first=at, before=first)] if first > at else []
            at = end
        return [*found, replace(self, first=at)] if at < self.before else found


@dataclass(frozen=True, slots=True)
class TopicReader:
    """A pipeline's topics, as its Spark session reads them.

    pipeline  the pipeline's name, which the broker's tools show
    source    where the events come from
    headers   whether records come with their headers
    """

    spark: SparkSession
    pipeline: str
    source: Source
    headers: bool

    @classmethod
    def of(
        cls,
        spark: SparkSession,
        pipeline: str,
        source: Source,
        route: Route,
        beside: Beside = NOTHING_BESIDE,
    ) -> Self:
        """With headers where schemas or entities are named in them, or columns are made of them, or they are kept as they came."""
        headers = source.headers or route.by == "header" or bool(beside.headers) or beside.every_header
        return cls(spark, pipeline, source, headers)

    def stream(self, batch_rows: int, starting_offsets: Positions, wait_seconds: float = 0.0) -> DataFrame:
        """The topics as a stream, in batches of at most so many offsets; one of fewer waits for others for up to `wait_seconds`.

        `starting_offsets` counts where Spark has no files of the query yet; it names every partition (see `complete`).
        """
        # A trigger's own interval would keep batches waiting also while a million records do.
        waits = {
            "minOffsetsPerTrigger": str(batch_rows),
            "maxTriggerDelay": f"{int(wait_seconds * 1000)}ms",
        }
        options = {
            **self._options(),
            **self._topics_of(starting_offsets),
            "startingOffsets": _as_text(starting_offsets),
            "maxOffsetsPerTrigger": str(batch_rows),
            **(waits if wait_seconds else {}),
        }
        return _read_right(self.spark.readStream.format("kafka").options(**options).load())

    def range(self, offsets: Offsets) -> DataFrame:
        """The records of a range of offsets, as often as wanted; the columns are the stream's."""
        options = {
            **self._options(),
            "assign": json.dumps({topic: sorted(ranges) for topic, ranges in offsets.items()}),
            "startingOffsets": _as_text(starts(offsets)),
            "endingOffsets": _as_text(ends(offsets)),
        }
        return _read_right(self.spark.read.format("kafka").options(**options).load())

    def _topics_of(self, offsets: Positions) -> dict[str, str]:
        # What Spark is assigned it never looks for new partitions of.
        if self.source.partitions:
            return {"assign": json.dumps({topic: sorted(numbers) for topic, numbers in offsets.items()})}
        return {"subscribe": ",".join(self.source.topics)}

    def _options(self) -> dict[str, str]:
        return {
            **READ_WITH,
            **self.source.spark_options(),
            "includeHeaders": str(self.headers).lower(),
            "failOnDataLoss": "true",
            # Seen in the broker's tools; every query gets a group of its own.
            "groupIdPrefix": f"distributary-{self.pipeline}",
        }


def _read_right(records: DataFrame) -> DataFrame:
    """The records; one whose time Spark misreads ends them as one whose time it cannot read does: by Java's overflow."""
    millis = "unix_millis(`timestamp`)"
    misread = f"timestamp_millis({millis} - {_TOO_FAR})"
    right = f"CASE WHEN {millis} >= {FIRST_READ_RIGHT} THEN `timestamp` ELSE {misread} END"
    return records.withColumn("timestamp", sql.expr(right))


def complete(positions: Positions, partitions: Mapping[str, Sequence[int]]) -> Positions:
    """The positions of exactly these partitions, as Spark demands. Those without any came later, and are read from offset 0.

    Not from the earliest offset that there is: where retention has taken records before they were read, that has to be told.
    """
    return {
        topic: {number: positions.get(topic, {}).get(number, 0) for number in numbers}
        for topic, numbers in partitions.items()
    }


def lost(positions: Positions, earliest: Positions, holder: str = "Kafka") -> list[Lost]:
    """What comes next and is not there any more; `earliest` is the first offset still there of each partition."""
    return [
        Lost(topic, number, position, earliest[topic][number], holder)
        for topic, numbers in sorted(positions.items())
        for number, position in sorted(numbers.items())
        if position < earliest.get(topic, {}).get(number, 0)
    ]


def gone_back(positions: Positions, ends: Positions, holder: str = "Kafka") -> list[str]:
    """The partitions that end before what was read of them, in words; `ends` is where each ends."""
    return [
        f"{holder} has {topic}/{number} up to before offset {ends[topic][number]}, and it was read up to before {position}"
        for topic, numbers in sorted(positions.items())
        for number, position in sorted(numbers.items())
        if position > ends.get(topic, {}).get(number, position)
    ]


_LOST_RECORDS = (
    "the broker lost records, as when one leads that lacked them, or its files were put back from a copy. To go on from where the topic ends now, "
    "give this pipeline a new checkpoint with `start: from_tables`; with `start: again` what is there is read once more"
)

# Who fills a table goes on from its own copy, and brings in again what the table lost: that would be read twice.
_WENT_BACK = {
    "Delta": "the table was put back from an older copy. Restore its newest one; or put the tables and the checkpoint of this pipeline back from a copy "
    "of the same time, too. Where there is none, move its tables away, and read all again with a new checkpoint and `start: again`; or, where nobody brings "
    "in again what the table lost, go on from where it ends with `start: from_tables`"
}


def require_not_back(positions: Positions, ends: Positions, holder: str = "Kafka") -> None:
    """Raises CheckpointMismatch where offsets went back: those between will be given to other records, which would be taken for read."""
    if found := gone_back(positions, ends, holder):
        raise CheckpointMismatch(f"{'; '.join(found)}: {_WENT_BACK.get(holder, _LOST_RECORDS)}")


def require_there(positions: Positions, earliest: Positions, holder: str = "Kafka") -> None:
    """Raises CheckpointMismatch where records that come next are gone, as by the topic's retention: no reader gets past that."""
    if passed := lost(positions, earliest, holder):
        raise CheckpointMismatch(
            f"{'; '.join(map(str, passed))}: retention took these records, or somebody deleted them, and they are lost. To go on with those "
            "that are there, and have the ledger tell of these, write `source: {on_data_loss: record}`"
        )


class Cluster(Protocol):
    """What a warm-up asks."""

    def earliest_offsets(self) -> Positions:
        """The first offset still there in each partition."""
        ...

    def end_offsets(self) -> Positions:
        """Where each partition ends."""
        ...


def warm_up(topics: TopicReader, cluster: Cluster) -> None:
    """Have Kafka's client loaded, and handed its first records on to Python workers, before the first batch.

    The first batch of a cold session costs seconds more than a warm one. Raises SetupError where the topics may not be read.
    """
    first, last = cluster.earliest_offsets(), cluster.end_offsets()
    offsets: Offsets = {
        topic: {
            # A partition may have been added between the two questions.
            number: (max(first[topic].get(number, 0), end - _WARM_UP_RECORDS), end)
            for number, end in partitions.items()
        }
        for topic, partitions in last.items()
    }
    records = topics.range(offsets).select("partition", "offset", "key", "value")
    try:
        records.mapInArrow(lambda batches: batches, records.schema).write.format("noop").mode(
            "overwrite"
        ).save()
    except (PySparkException, Py4JError) as error:
        # Whatever else it is, the query meets it too, and may be tried again.
        _require_right(topics, error)


def _require_right(topics: TopicReader, error: Exception) -> None:
    """Raises CredentialsRefused where it is that who asks may describe a topic and not read it."""
    if (why := refused(error, topics.source.kafka)) is not None:
        raise why from None


def _as_text(positions: Positions) -> str:
    return json.dumps(positions_to_json(positions))
