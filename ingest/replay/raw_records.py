"""A pipeline's records as bronze keeps them: which there are, and the same as Spark's Kafka source would give them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from itertools import starmap
from operator import or_
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake.exceptions import DeltaError
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sql

from distributary.errors import PipelineError
from distributary.ingest.bronze import rows as bronze
from distributary.ingest.kafka.kept_records import KeptFile, KeptRecords, Reading, rows_of
from distributary.ingest.kafka.offsets import Offsets
from distributary.ingest.merge import live_files, vectors
from distributary.ingest.merge.columns import DataColumns
from distributary.ingest.merge.found import partition_of
from distributary.ingest.merge.live_files import Action
from distributary.ingest.quarantine.chosen import Chosen
from distributary.ingest.replay.places import Partition, Span
from distributary.ingest.spark.tasks.parts import by_parts
from distributary.ingest.storage.contract import Files
from distributary.ingest.tables.handle import opened
from distributary.ingest.tables.log import has_log
from distributary.ingest.tables.state import state_of
from distributary.ingest.tables.state_by_spark import pattern_of, reader, spark_schema
from distributary.values import without_logins

PLACE = ("kafka_topic", "kafka_partition", "kafka_offset")

PLACE_AND_TIME = pa.schema([bronze.SCHEMA.field(name) for name in (*PLACE, "kafka_ts")])

_MOST_SPANS = 50_000


@dataclass(frozen=True, slots=True)
class RawFile:
    """A data file of a table that keeps records as they came."""

    place: Files
    name: str
    add: Action

    @property
    def key(self) -> tuple[str, str]:
        """What no other file has; nobody writes a file anew."""
        return self.place.url, self.name

    def may_have(self, offsets: Offsets) -> bool:
        """Whether any record of these may be in it, by what the log tells of it."""
        return may_have(json.loads(self.add.get("stats") or "{}"), PLACE, offsets)

    def rows(self) -> Iterator[tuple[pa.Table, pa.Array]]:
        """Where its records stand and when they came, and which of them are still there: others may be marked as gone."""
        file = DataColumns(self.place, self.name, self.add["size"], partition_of(self.add))
        stays = np.ones(file.rows, dtype=bool)
        if (vector := self.add.get("deletionVector")) is not None:
            stays[vectors.read(self.place, vector)] = False
        for number, first, count in file.groups():
            yield file.read(number, PLACE_AND_TIME), pa.array(stays[first : first + count])


def may_have(told: Mapping[str, Any], names: Sequence[str], offsets: Offsets) -> bool:
    """Whether a file may have any record of a range in columns of these names, by what its table's log tells of it."""
    low, high = (told.get(which, {}) for which in ("minValues", "maxValues"))
    topics, numbers, places = ((low.get(name), high.get(name)) for name in names)
    return any(
        _meets(topics, topic, topic) and _meets(numbers, number, number) and _meets(places, first, end - 1)
        for topic, ranges in offsets.items()
        for number, (first, end) in ranges.items()
    )


def _are_wanted(rows: pa.RecordBatch, offsets: Offsets, chosen: Chosen) -> pa.BooleanArray:
    """As `frame` chooses them. One place may have another record of another time, as of a topic that was made anew."""
    found, at = lie_in(rows, offsets), rows["kafka_ts"]
    if chosen.since is not None:
        found = pc.and_(found, pc.greater_equal(at, pa.scalar(chosen.since, at.type)))
    if chosen.until is not None:
        found = pc.and_(found, pc.less(at, pa.scalar(chosen.until, at.type)))
    return found


def lie_in(rows: pa.Table | pa.RecordBatch, offsets: Offsets) -> pa.Array:
    """Which of some rows are of a record of a range."""
    found = pa.repeat(pa.scalar(False), rows.num_rows)
    topics, numbers, places = (rows[name] for name in PLACE)
    for topic, ranges in offsets.items():
        of_topic = pc.equal(topics, topic)
        for number, (first, end) in ranges.items():
            here = pc.and_(pc.greater_equal(places, first), pc.less(places, end))
            found = pc.or_(found, pc.and_(pc.and_(of_topic, pc.equal(numbers, number)), here))
    return pc.fill_null(found, False)


def _meets(known: tuple[Any, Any], first: Any, last: Any) -> bool:
    low, high = known
    return low is None or high is None or (low <= last and high >= first)


@dataclass(slots=True)
class Learned:
    """Between which offsets the records of files lie, partition by partition, those that are marked as gone among them.

    Logs tell only of all partitions of a file together. Of more than fits in some ten megabytes nothing is kept.
    """

    of: dict[tuple[str, str], Mapping[Partition, Span]] = field(default_factory=dict)
    _count: int = 0

    def add(self, file: RawFile, spans: Mapping[Partition, Span]) -> None:
        """What was read of a file."""
        if self._count + len(spans) <= _MOST_SPANS and file.key not in self.of:
            self.of[file.key] = spans
            self._count += len(spans)

    def may_have(self, file: RawFile, offsets: Offsets) -> bool:
        """Whether any record of these may be in it."""
        if (spans := self.of.get(file.key)) is None:
            return file.may_have(offsets)
        ranges = ((offsets.get(topic, {}).get(number), span) for (topic, number), span in spans.items())
        return any(mine is not None and mine[0] <= last and mine[1] > first for mine, (first, last) in ranges)


@dataclass(frozen=True, slots=True)
class RawRecords:
    """All that is kept of a pipeline's records, as of one moment.

    learned  which offsets its files have
    """

    files: tuple[RawFile, ...]
    learned: Learned = field(default_factory=Learned)

    @classmethod
    def of(cls, root: Files, folders: Iterable[str], learned: Learned | None = None) -> RawRecords:
        """What these tables have now; with what was learned of their files before. Raises PipelineError where one is not there, or cannot be read."""
        found = list[RawFile]()
        for folder in sorted(folders):
            place = root.below(folder)
            if not has_log(place):
                raise PipelineError(
                    f"table {place}, which is to keep each record as it came, is not there: nothing can be made of it again. Read the topic "
                    "once more, while it has the records"
                )
            try:
                version = state_of(opened(place), place).version
                found += [RawFile(place, name, add) for name, add in live_files.read(place, version)]
            except (DeltaError, ValueError) as error:
                raise PipelineError(f"table {place} cannot be read: {without_logins(str(error))}") from error
        return cls(tuple(found), learned or Learned())

    def within(self, offsets: Offsets) -> RawRecords:
        """Those of its files that may have any of a range."""
        mine = tuple(one for one in self.files if self.learned.may_have(one, offsets))
        return RawRecords(mine, self.learned)

    def in_files(self, spark: SparkSession, offsets: Offsets, chosen: Chosen) -> KeptRecords:
        """The same as `frame`, for workers that read the files themselves; those that are kept several times come as often."""
        wanted = partial(_are_wanted, offsets=offsets, chosen=chosen)
        return KeptRecords(spark, self._kept(), Reading(wanted))

    def frame(self, spark: SparkSession, offsets: Offsets, chosen: Chosen, *, once: bool) -> DataFrame:
        """The records of a range, and of the time that is chosen, as Spark's Kafka source gives them; `once` leaves out those that are kept several times."""
        if self.files[0].place.remote:
            found = by_parts(spark, self._kept(), rows_of, spark_schema(bronze.RECORD))
        else:
            paths = [f"{pattern_of(one.place.url)}/{pattern_of(one.name)}" for one in self.files]
            found = reader(spark).schema(spark_schema(bronze.RECORD)).parquet(*paths)
        found = found.where(_lies_in(offsets))
        # One place may have another record of another time, as of a topic that was made anew.
        if chosen.since is not None:
            found = found.where(sql.col("kafka_ts") >= sql.lit(chosen.since))
        if chosen.until is not None:
            found = found.where(sql.col("kafka_ts") < sql.lit(chosen.until))
        found = found.dropDuplicates([*PLACE]) if once else found
        kind = (
            sql.when(sql.col("kafka_ts_type") == "create_time", 0)
            .when(sql.col("kafka_ts_type") == "log_append_time", 1)
            .otherwise(-1)
        )
        return found.select(
            sql.col("kafka_key").alias("key"),
            sql.col("value"),
            sql.col("kafka_topic").alias("topic"),
            sql.col("kafka_partition").alias("partition"),
            sql.col("kafka_offset").alias("offset"),
            sql.col("kafka_ts").alias("timestamp"),
            kind.alias("timestampType"),
            sql.col("headers"),
        )

    def _kept(self) -> list[KeptFile]:
        return [KeptFile(one.place, one.name, one.add["size"]) for one in self.files]


def _lies_in(offsets: Offsets) -> Column:
    # As text: each part of a condition that is put together is a call of the JVM, of hundreds of partitions thousands.
    mine = [
        (sql.col("kafka_topic") == topic) & sql.expr(" or ".join(starmap(_lies_between, ranges.items())))
        for topic, ranges in offsets.items()
    ]
    return reduce(or_, mine)


def _lies_between(number: int, offsets: tuple[int, int]) -> str:
    first, end = offsets
    return f"(kafka_partition = {number} and kafka_offset >= {first} and kafka_offset < {end})"
