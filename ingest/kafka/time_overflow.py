"""Records whose time is beyond what Spark's timestamps hold, or that Spark misreads: they are read around Spark's source, which ends at the first of them.

Kafka keeps a record's time as the milliseconds that its producer says, and Spark makes microseconds of each before anybody sees the
record: nanoseconds sent as milliseconds are too many, and what is before 1901 it may move by days (`source.py`). From the first such record of a partition on a consumer of our own reads it, to
the end of the range: into files that workers read, in the place of Spark's source.
"""

from __future__ import annotations

import io
import logging
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from operator import methodcaller
from time import monotonic
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka import (
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)
from pyspark.sql import DataFrame

from distributary.errors import BrokerUnavailable, ConfigError, PipelineError
from distributary.ingest.kafka.confluent import MaskedLog
from distributary.ingest.kafka.offsets import Offsets
from distributary.ingest.kafka.records import TIMESTAMP
from distributary.ingest.kafka.source import FIRST_READ_RIGHT, TopicReader
from distributary.ingest.settings.source.librdkafka import librdkafka_options
from distributary.ingest.spark.error_classes import overflowed_in
from distributary.ingest.spark.tasks.parts import by_parts
from distributary.ingest.storage.contract import Files
from distributary.passed_on_options import without_secrets

_log = logging.getLogger(__name__)

T = TypeVar("T")

# Spark's source, and what is worked out right behind it, as they stand in the calls that their errors came through.
_SOURCE = ("org.apache.spark.sql.kafka010.", "org.apache.spark.sql.catalyst.expressions.")

# Microseconds are whole numbers of 64 bits.
_LAST_MILLISECOND = (2**63 - 1) // 1000

# Of Spark's columns those that workers read. The time of a record that has none that a table can hold is null.
_COLUMNS = pa.schema(
    [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", TIMESTAMP),
        pa.field("timestampType", pa.int32()),
        pa.field("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)

_DDL = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int, "
    "headers array<struct<key: string, value: binary>>"
)

# Of one file, which whoever reads it may have to hold whole.
_FILE_BYTES = 32 << 20

# What a record takes beside its value, while it is held.
_ROW_BYTES = 500

_AT_ONCE = 10_000

_PATIENCE_SECONDS = 60.0

_MOST_TOLD = 5

# What another try may not meet: no answer, a connection that broke, a partition whose leader changes.
_PASSING = {
    KafkaError._TIMED_OUT,
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._RESOLVE,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.BROKER_NOT_AVAILABLE,
    KafkaError.REPLICA_NOT_AVAILABLE,
    KafkaError.NETWORK_EXCEPTION,
}


def is_time_overflow(error: BaseException) -> bool:
    """Whether Spark's source ended because of a record's time, which is too large for it, or which it misreads."""
    return overflowed_in(error, *_SOURCE)


@dataclass(frozen=True, slots=True)
class ReadingAround:
    """Reads by Spark's source, and around it where it ends at a record's time; `place` is for what it cannot read."""

    topics: TopicReader
    place: Files

    def range(self, offsets: Offsets) -> DataFrame:
        """The records of a range of offsets."""
        return self.topics.range(offsets)

    def through(self, records: DataFrame, offsets: Offsets, use: Callable[[DataFrame], T]) -> T:
        """What `use` makes of the records. Raises PipelineError where they cannot be read in any way."""
        try:
            return use(records)
        except Exception as error:
            if not is_time_overflow(error):
                raise
            with read_around(self.topics, offsets, self.place) as readable:
                if readable is None:
                    raise
                return use(readable)


@contextmanager
def read_around(topics: TopicReader, offsets: Offsets, place: Files) -> Iterator[DataFrame | None]:
    """The records of a range, readable whatever their times are, while the `with` block lasts; None where all times are fine.

    Records of a time that no table holds have null for it. What Spark's source cannot read is kept in files at `place`. Raises
    PipelineError, with the partitions, where they cannot be read in another way either.
    """
    kept = _Kept(place.below(f"times-{uuid.uuid4().hex}"), topics.headers)
    try:
        found = _found(topics, offsets, kept.take)
        kept.flush()
        yield _joined(topics, offsets, found, kept) if found else None
    finally:
        kept.clear()


def before_overflows(topics: TopicReader, offsets: Offsets) -> Offsets:
    """The range without what comes, in each partition, from the first record that Spark cannot read on. Raises PipelineError."""
    return _cut(offsets, _found(topics, offsets, lambda _: None))


# Per partition, the offset of the first record that Spark cannot read.
_Firsts = dict[tuple[str, int], int]


def _joined(topics: TopicReader, offsets: Offsets, found: _Firsts, kept: _Kept) -> DataFrame:
    names = [name for name in _COLUMNS.names if name != "headers" or topics.headers]
    by_spark = topics.range(_cut(offsets, found)).select(*names)
    place = kept.place
    around = by_parts(topics.spark, kept.names, lambda name: _read(place, name), _DDL)
    return by_spark.union(around.select(*names))


def _cut(offsets: Offsets, firsts: _Firsts) -> Offsets:
    return {
        topic: {number: (begin, firsts.get((topic, number), end)) for number, (begin, end) in ranges.items()}
        for topic, ranges in offsets.items()
    }


def _read(place: Files, name: str) -> Iterator[pa.RecordBatch]:
    yield from pq.ParquetFile(pa.BufferReader(place.read(name))).iter_batches(_AT_ONCE)


@dataclass(slots=True)
class _Kept:
    """Records in files, and those that are on their way to the next one.

    headers  whether they are kept with their headers
    """

    place: Files
    headers: bool
    names: list[str] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)
    held: int = 0

    def take(self, message: Message) -> None:
        """Keep a record."""
        self.rows.append(_row(message, _headers(message) if self.headers else []))
        self.held += len(message) + _ROW_BYTES
        if self.held >= _FILE_BYTES:
            self.flush()

    def flush(self) -> None:
        """Have a file of what is held, if anything is."""
        if not self.rows:
            return
        data, name = io.BytesIO(), f"{len(self.names)}.parquet"
        pq.write_table(pa.Table.from_pylist(self.rows, _COLUMNS), data, compression="zstd")
        self.place.put(name, data.getbuffer(), named_later=True)
        self.names.append(name)
        self.rows, self.held = [], 0

    def clear(self) -> None:
        """Delete the files. What stays is deleted with all that waits for an answer, by the next start."""
        try:
            self.place.delete(self.names)
            self.place.remove_folder()
        except OSError as error:
            _log.warning("files with records of odd times stay in %s for now: %s", self.place, error)


# Each by its name and its value.
_Headers = list[dict[str, Any]]

# A plain call goes on with what the client has made of them so far where one has a name that is no UTF-8, which ends the process;
# Python looks at what came of this one.
_asked_for_headers = methodcaller("headers")


def _headers(message: Message) -> _Headers | None:
    """A record's headers; None where one of them has a name that is no UTF-8: the client gives none of them then."""
    try:
        found = _asked_for_headers(message)
    except (UnicodeDecodeError, SystemError):
        place = f"{message.topic()}/{message.partition()}/{message.offset()}"
        _log.warning(
            "%s: a header's name is no UTF-8. It is read around Spark's source, where such a record's headers cannot be had, and goes to "
            "quarantine (timestamp_overflow)",
            place,
        )
        return None
    return [{"key": key, "value": value} for key, value in list(found or ())]


def _row(message: Message, headers: _Headers | None) -> dict[str, Any]:
    """What is kept of a record. Without its headers nobody knows its schema and its table, and it may as well have no time."""
    milliseconds = _milliseconds(message)
    known = headers is not None and not _is_beyond(milliseconds)
    return {
        "key": message.key(),
        "value": message.value(),
        "topic": message.topic(),
        "partition": message.partition(),
        "offset": message.offset(),
        "timestamp": milliseconds * 1000 if known else None,
        # Spark's, who counts from the one of no time on.
        "timestampType": message.timestamp()[0] - 1,
        "headers": headers,
    }


def _offset(message: Message) -> int:
    # Nobody but a broker gives a record that is no error its place.
    return -1 if (offset := message.offset()) is None else offset


def _milliseconds(message: Message) -> int:
    kind, milliseconds = message.timestamp()
    # What Kafka itself says of a record without a time.
    return -1 if kind == TIMESTAMP_NOT_AVAILABLE else int(milliseconds)


def _is_beyond(milliseconds: int) -> bool:
    return abs(milliseconds) > _LAST_MILLISECOND


def _found(topics: TopicReader, offsets: Offsets, take: Callable[[Message], None]) -> _Firsts:
    """The first record of each partition that Spark cannot read; `take` is given it and all behind it. Tells of times too large."""
    firsts: _Firsts = {}
    beyond: _Firsts = {}
    count = 0
    with _consumer(topics, offsets) as consumer:
        for topic, ranges in sorted(offsets.items()):
            for number, (begin, end) in sorted(ranges.items()):
                for message in _messages(consumer, TopicPartition(topic, number, begin), end):
                    milliseconds = _milliseconds(message)
                    if _is_beyond(milliseconds):
                        count += 1
                        beyond.setdefault((topic, number), _offset(message))
                    if _is_beyond(milliseconds) or milliseconds < FIRST_READ_RIGHT:
                        firsts.setdefault((topic, number), _offset(message))
                    if (topic, number) in firsts:
                        take(message)
    if beyond:
        _log.warning(
            "records with a time that no table holds, in milliseconds since 1970 beyond %s: %s of them, first at %s. Their producer sends "
            "another unit than milliseconds. They go to quarantine (timestamp_overflow)",
            *(_LAST_MILLISECOND, count, ", ".join(_told(beyond))),
        )
    return firsts


def _told(firsts: _Firsts) -> list[str]:
    places = [f"{topic}/{number}/{offset}" for (topic, number), offset in sorted(firsts.items())]
    more = [f"and in {len(places) - _MOST_TOLD} partitions more"] if len(places) > _MOST_TOLD else []
    return [*places[:_MOST_TOLD], *more]


def _messages(consumer: Consumer, begin: TopicPartition, end: int) -> Iterator[Message]:
    """The records of one partition up to an offset. Raises KafkaException."""
    if begin.offset >= end:
        return
    consumer.assign([begin])
    heard = monotonic()
    while True:
        for message in _come(consumer):
            heard, error = monotonic(), message.error()
            at_its_end = error is not None and error.code() == KafkaError._PARTITION_EOF
            if error is not None and not at_its_end:
                raise KafkaException(error)
            # Behind the last record there may be marks of transactions up to there.
            if _offset(message) >= end:
                return
            # A broker that has just begun to lead may not know yet how far it has come: what is lacking is to come.
            if not at_its_end:
                yield message
                # That there is no more the broker tells only once it has waited for more.
                if _offset(message) == end - 1:
                    return
        if monotonic() - heard > _PATIENCE_SECONDS:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))


def _come(consumer: Consumer) -> list[Message]:
    """What is there, or comes within a second: several at once would be waited for until there are as many."""
    first = consumer.poll(1.0)
    return [] if first is None else [first, *consumer.consume(_AT_ONCE, timeout=0)]


@contextmanager
def _consumer(topics: TopicReader, offsets: Offsets) -> Iterator[Consumer]:
    """A consumer for these partitions. Raises PipelineError with what to do, for whatever keeps it from reading them.

    BrokerUnavailable where nobody answers, and another try may be answered.
    """
    kafka = topics.source.kafka
    where = ", ".join(
        f"{topic}/{number} offsets {begin} to {end}"
        for topic, ranges in sorted(offsets.items())
        for number, (begin, end) in sorted(ranges.items())
        if begin < end
    )
    trouble = (
        f"a record in {where} has a time that Spark cannot read (in milliseconds since 1970 it is beyond {_LAST_MILLISECOND}, or below {FIRST_READ_RIGHT}), and a "
        "consumer of our own, which would read around it, cannot either: {}. Repair that, or delete the records up to the one behind it "
        "(kafka-delete-records.sh) and have the producer send milliseconds"
    )
    try:
        options: dict[str, Any] = {
            **librdkafka_options(kafka),
            # Nothing is joined nor committed; the broker's tools show it.
            "group.id": f"distributary-{topics.pipeline}-{uuid.uuid4().hex}",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "isolation.level": kafka.get("isolation.level", "read_committed"),
        }
        consumer = Consumer(options, logger=MaskedLog(_log, kafka))
    except (ConfigError, KafkaException) as error:
        raise PipelineError(trouble.format(without_secrets(str(error), kafka))) from None
    try:
        yield consumer
    except KafkaException as error:
        kind = BrokerUnavailable if error.args[0].code() in _PASSING else PipelineError
        raise kind(trouble.format(without_secrets(error.args[0].str(), kafka))) from None
    finally:
        consumer.close()
