"""What a source answers to a pipeline: who it is and how far it has come, and the records of a range of offsets.

Every source has topics of numbered partitions, in each of which a record has a place: an offset, a whole number of 64 bits that only
grows, and of which some may be no record's. A Kafka topic is one, and so are a table and a folder of files. Manifest, sums and log
speak of topics, partitions and offsets, and know no source by name.

The columns of records are those of Spark's Kafka source: key, value, topic, partition, offset, timestamp, timestampType and, where
they are asked for, headers. https://spark.apache.org/docs/latest/structured-streaming-kafka-integration.html
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

from pyspark.sql import DataFrame, SparkSession

from distributary.ingest.kafka.offsets import Offsets, Positions
from distributary.ingest.reshaping.rule import NOTHING_BESIDE, Beside
from distributary.ingest.settings.groups import Route, Source
from distributary.ingest.storage.contract import Files
from distributary.registry.base import SchemaRegistry

T = TypeVar("T")

# Told why a source is waited for, and for how many seconds nobody asks it again.
Tell = Callable[[str, float], None]


class Reading(Protocol):
    """Records of the topics, for one batch."""

    def range(self, offsets: Offsets) -> DataFrame:
        """The records of a range of offsets."""
        ...

    def through(self, records: DataFrame, offsets: Offsets, use: Callable[[DataFrame], T]) -> T:
        """What `use` makes of the records of a range, once more of the same where they cannot be read in the usual way."""
        ...


class Records(Protocol):
    """The records of a source, as a Spark session reads them."""

    @property
    def spark(self) -> SparkSession:
        """The session."""
        ...

    @property
    def source(self) -> Source:
        """What the settings say of where they come from."""
        ...

    @property
    def streams(self) -> bool:
        """Whether there is a stream of Spark's; what has none is read range by range."""
        ...

    def range(self, offsets: Offsets) -> DataFrame:
        """The records of a range of offsets: the same ones each time it is asked for, whenever that is."""
        ...

    def next_range(self, read: Positions, ends: Positions, most: int) -> Offsets:
        """Where the next batch ends: what comes next before these ends, about so many records; nothing where all is read."""
        ...

    def stream(
        self, batch_rows: int, starting_offsets: Positions, wait_seconds: float = 0.0
    ) -> DataFrame | None:
        """The topics as a stream of Spark's, in batches of at most so many offsets; None where there is none."""
        ...

    def reading(self, place: Files) -> Reading:
        """How batches read; what cannot be read in the usual way may be kept at this place meanwhile."""
        ...

    def is_unreadable(self, error: BaseException) -> bool:
        """Whether reading a range ended because of a record that cannot be read in the usual way."""
        ...

    def readable(self, offsets: Offsets) -> Offsets:
        """The range without what comes, in each partition, from the first record on that cannot be read in the usual way."""
        ...

    def warm_up(self, channels: Channels) -> None:
        """Have loaded what the first batch needs. Raises SetupError where the records may not be read."""
        ...


class Channels(Protocol):
    """The topics of a source, open as long as a run lasts.

    Every question may raise BrokerUnavailable, SetupError for what is missing or not allowed, and Stopped where the run is to end
    while there is no answer. One that is told how to tell waits instead, however long an outage lasts.

    holder          who has the records, as sentences about them begin
    ends_by_itself  whether a run that ends at what is there is told of that bit by bit, as batches take it, by `Records.next_range`: then nobody
                    knows its end in offsets before
    """

    holder: str
    ends_by_itself: bool

    def close(self) -> None:
        """Let go of it."""
        ...

    def cluster_id(self) -> str:
        """What holds the topics, by an id that no other one has; another one is another source."""
        ...

    def topic_ids(self) -> dict[str, str]:
        """Each topic's id, which is another one after the topic was made anew; empty where nobody can tell."""
        ...

    def was_away(self) -> bool:
        """Wait until it answers; whether it did not at once."""
        ...

    def names(self) -> tuple[str, ...]:
        """The topics that are read."""
        ...

    def look(self) -> bool:
        """Whether other topics are to be read by now; those are read then."""
        ...

    def is_found(self, topic: str) -> bool:
        """Whether a topic is read since it fits a pattern, not by its name."""
        ...

    def partitions(self) -> dict[str, Sequence[int]]:
        """The numbers of each topic's partitions."""
        ...

    def beginning(self) -> Positions:
        """Where a reading begins that is to have all. Raises ConfigError where nobody could tell that something is gone."""
        ...

    def earliest_offsets(self) -> Positions:
        """The first offset still there in each partition."""
        ...

    def end_offsets(self) -> Positions:
        """Where each partition ends for a reader."""
        ...

    def ends(self) -> Positions:
        """Where each partition ends, what no reader may see yet included."""
        ...

    def offsets_from(self, milliseconds: int) -> Positions:
        """The first record of each partition that was written at this time (since the epoch) or later, where there is one."""
        ...

    def require_had(self, read: Positions) -> None:
        """Raises CheckpointMismatch where what gives the offsets has not come to these, of which a log tells: it would give them to other records.

        Of one that is not kept beside the tables its ends tell that.
        """
        ...

    def lag(self, read: Mapping[str, Mapping[int, int]], ends: Positions | None = None) -> Positions:
        """How many records, or offsets, are still to be read of each partition, where these were read, up to these ends or to now."""
        ...

    def columns(self, ends: Positions | None = None) -> str | None:
        """What records are made of before these ends, or now, as a StructType's JSON; None where only the records tell."""
        ...

    def schemas(self) -> SchemaRegistry | None:
        """The schemas that records name, where the source has them itself; None where a registry has them, or records name none."""
        ...

    def records(
        self,
        spark: SparkSession,
        pipeline: str,
        source: Source,
        route: Route,
        beside: Beside = NOTHING_BESIDE,
    ) -> Records:
        """The records of these topics in a session, with headers where settings or `beside`, what rules make columns of, want them."""
        ...
