"""What changed in a derived table, as records of a topic: one a key that has another row, one without a value for each that went.

Records go in transactions of one transactional id a table. Who begins to send takes the id over, so that what somebody else
had under way is never read behind what is newer. A crash between the last transaction and the mark, or between two of them, leaves
records that no mark tells of: whoever sends next sees by where the topic ends that they are there, and has all rows sent once more.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import TimeoutError as NotInTime
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.admin._listoffsets import OffsetSpec
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sql

from distributary.errors import BrokerUnavailable, ConfigError, PipelineError, RegistryUnavailable
from distributary.ingest.kafka.confluent import MaskedLog, as_topic
from distributary.ingest.kafka.source import READ_WITH
from distributary.ingest.settings.refused_kafka_options import spark_options
from distributary.ingest.settings.source.librdkafka import librdkafka_options
from distributary.passed_on_options import without_secrets

_log = logging.getLogger(__name__)

_PATIENCE_SECONDS = 60.0

# How long a turn waits that has nothing to send.
_LOOK_SECONDS = 5.0

GONE = "gone"
"""In the place of the UUID of a topic that is not there."""

# Brokers give a transaction 15 minutes at most, and readers wait for its end.
_MOST_SECONDS, _MOST_RECORDS, _TIMEOUT_SECONDS = 30.0, 100_000, 600

# librdkafka's own: how large a record may be, and how much it sends as one batch, of which a topic's limit is.
_LEAST_BYTES, _MOST_BYTES, _BATCH_BYTES = 1_000, 1_000_000_000, 1_000_000

# What a batch of one record has beside key and value, at the most.
_AROUND_BYTES = 128

# What librdkafka counts of each record beside key and value, at the most that it may be.
_OWN_BYTES = 36

# Among those that do not answer it is beside clusters, whose names are longer.
_REGISTRY = "registry"

# Spark's word for where a partition begins.
_EARLIEST = -2

# What librdkafka itself says where nobody answers.
_SILENT = (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._RESOLVE)


class BrokersSilent(BrokerUnavailable):
    """No broker answers, whatever topic one asks for."""


# Without these a time loses its last digits, and a null its name.
_AS_JSON = {
    "timeZone": "UTC",
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}


@dataclass(frozen=True, slots=True)
class Topic:
    """Where records go.

    kafka     the clients' options
    sender    tells who sends from others; two with the same name take each other's place
    patience  for how many seconds an answer is waited for
    """

    name: str
    kafka: Mapping[str, str]
    sender: str
    patience: float = field(default_factory=lambda: _PATIENCE_SECONDS)


@dataclass(frozen=True, slots=True)
class Seen:
    """A topic as it is: its UUID, empty where nobody says it, and where its partitions end, nothing where nobody says that."""

    uuid: str = ""
    ends: Mapping[int, int] = field(default_factory=dict)


class Uuids:
    """The UUIDs of topics, each of which tells a topic from one of its name that was made anew; one client a cluster asks for all of a round's."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._clients: dict[str, AdminClient | None] = {}
        self._silent, self._slow = set[str](), set[str]()
        self._partitions: dict[tuple[str, str], Sequence[int]] = {}

    def of(self, topic: Topic, patience: float = _LOOK_SECONDS) -> str:
        """A topic's; empty from a broker that has none, and where nobody answers: then those that are asked for later are, too."""
        cluster = _cluster(topic)
        with self._lock:
            if cluster not in self._clients:
                self._clients[cluster] = _admin(topic)
            client = self._clients[cluster]
        if client is None:
            return ""
        try:
            wanted = TopicCollection([topic.name])
            asked = client.describe_topics(wanted, request_timeout=patience)[topic.name]
            found = as_topic(asked.result(patience + 1))
            self._partitions[cluster, topic.name] = found.partitions
            return found.uuid
        except KafkaException as error:
            if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                return GONE
            if not issubclass(_kind(error.args[0]), BrokerUnavailable):
                # One that may not be asked about is no matter of the others.
                return ""
        except NotInTime:
            pass
        self._clients[cluster] = None
        return ""

    def seen(self, topic: Topic) -> Seen:
        """A topic as it is now."""
        return Seen(self.of(topic), self._ends(topic))

    def _ends(self, topic: Topic, patience: float = _LOOK_SECONDS) -> dict[int, int]:
        """Where the partitions end of a topic whose UUID was asked for before."""
        client = self._clients.get(_cluster(topic))
        numbers = self._partitions.get((_cluster(topic), topic.name), ())
        if client is None or not numbers:
            return {}
        wanted = {TopicPartition(topic.name, number): OffsetSpec.latest() for number in numbers}  # type: ignore[no-untyped-call]
        try:
            asked = client.list_offsets(wanted, request_timeout=patience)
            return {place.partition: int(one.result(patience + 1).offset) for place, one in asked.items()}
        except (KafkaException, NotInTime):
            return {}

    def require_answering(self, topic: Topic) -> None:
        """Raises BrokerUnavailable where its brokers did not answer who had something to send to another topic of theirs: with many tables all waits together would hold a run up for long."""
        if _cluster(topic) in self._silent:
            raise BrokerUnavailable(
                f"topic {topic.name}: its brokers did not answer for another table of this turn, and the next one asks again"
            )

    def note_silent(self, topic: Topic) -> None:
        """Take note that its brokers do not answer."""
        self._silent.add(_cluster(topic))

    def note_slow(self, topic: Topic) -> None:
        """Take note that some of its brokers do not answer."""
        self._slow.add(_cluster(topic))

    def patience_with(self, topic: Topic) -> float:
        """For how long its brokers are waited for: where some did not answer for another table of this turn, no longer than one that is well takes."""
        return _LOOK_SECONDS if _cluster(topic) in self._slow else topic.patience

    def require_registry(self) -> None:
        """Raises RegistryUnavailable where it did not answer for another table of this turn, for the same reason."""
        if _REGISTRY in self._silent:
            raise RegistryUnavailable(
                "the registry did not answer for another table of this turn, and the next one asks again"
            )

    def note_silent_registry(self) -> None:
        """Take note that it does not answer."""
        self._silent.add(_REGISTRY)


def keys_in(
    spark: SparkSession, topic: Topic, begins: Mapping[int, int], ends: Mapping[int, int]
) -> DataFrame:
    """The keys in a stretch of each of a topic's partitions, as readers of committed records see it, and whether they have a value `there`."""
    options = {
        **READ_WITH,
        **spark_options(topic.kafka),
        "assign": json.dumps({topic.name: sorted(ends)}),
        "startingOffsets": json.dumps({topic.name: {str(one): begins.get(one, _EARLIEST) for one in ends}}),
        "endingOffsets": json.dumps({topic.name: {str(one): end for one, end in ends.items()}}),
        # What compaction has taken is missed by nobody.
        "failOnDataLoss": "false",
        "kafka.isolation.level": "read_committed",
        "groupIdPrefix": topic.sender,
    }
    records = spark.read.format("kafka").options(**options).load().where("key IS NOT NULL")
    return records.groupBy("key", "partition").agg(sql.expr("max_by(value IS NOT NULL, offset) AS there"))


def _cluster(topic: Topic) -> str:
    return repr(sorted(topic.kafka.items()))


def _admin(topic: Topic) -> AdminClient | None:
    try:
        return AdminClient(dict(librdkafka_options(topic.kafka)), logger=MaskedLog(_log, topic.kafka))
    except (KafkaException, ConfigError):
        # Who has something to send says why.
        return None


def as_json(columns: Sequence[str]) -> Column:
    """A row's columns as a JSON object, null fields among them."""
    return sql.to_json(sql.struct(*map(_column, columns)), _AS_JSON)


def changes(
    now: DataFrame,
    before: DataFrame | None,
    keys: Sequence[str],
    *,
    whole: bool = False,
    beside: DataFrame | None = None,
) -> DataFrame:
    """The rows that are not as they were: their `key`, their `text` as JSON and themselves as `row`, both null where a key's went.

    Of a table that is there for the first time, and if `whole`, these are all rows. Rows that both times are there may be left out of both; `beside`
    are such as may have keys of those that are not. Raises PipelineError where keys do not tell rows apart.
    """
    there = now.select(
        as_json(keys).alias("key"),
        as_json(now.columns).alias("text"),
        sql.struct(*map(_column, now.columns)).alias("row"),
    )
    several = there.groupBy("key").count().where("count > 1").select("key")
    if beside is not None:
        several = several.union(
            there.select("key").join(beside.select(as_json(keys).alias("key")), "key", "left_semi")
        )
    if several.limit(1).count():
        raise PipelineError(
            f"sink.kafka.keys: several rows have the same {', '.join(keys)}; name columns that tell rows apart"
        )
    if before is None:
        return there
    had = before.select(as_json(keys).alias("had_key"), as_json(before.columns).alias("had"))
    both = there.join(had, there["key"] == had["had_key"], "full_outer")
    changed = both if whole else both.where("NOT (text <=> had)")
    return changed.select(sql.coalesce("key", "had_key").alias("key"), "text", "row")


@contextmanager
def sending(topic: Topic) -> Iterator[Producer]:
    """A producer that alone sends for this sender from now on. Raises PipelineError, BrokerUnavailable where it is not answered in time, BrokersSilent where nobody answers."""
    try:
        options: dict[str, Any] = librdkafka_options(topic.kafka)
        admin = AdminClient(dict(options), logger=MaskedLog(_log, topic.kafka))
        _require_there(topic, admin)
        transactional = {
            **options,
            **_sizes(topic, admin),
            "transactional.id": topic.sender,
            "transaction.timeout.ms": _TIMEOUT_SECONDS * 1000,
            "acks": "all",
        }
        producer = Producer(transactional, logger=MaskedLog(_log, topic.kafka))
        producer.init_transactions(topic.patience)
        yield producer
    except KafkaException as error:
        said = without_secrets(error.args[0].str(), topic.kafka)
        raise _kind(error.args[0])(
            f"topic {topic.name}: {said}; check the topic, and that source.kafka's user may write into it and use the "
            f"transactional id {topic.sender}"
        ) from None
    except ConfigError as error:
        raise PipelineError(f"topic {topic.name}: {error}") from None


def _kind(said: KafkaError) -> type[PipelineError]:
    """What an error is of. One partition without a leader, or one sender's coordinator, is no matter of other topics."""
    if said.code() in _SILENT:
        return BrokersSilent
    is_away = said.retriable() or said.code() == KafkaError._TIMED_OUT
    return BrokerUnavailable if is_away else PipelineError


def _sizes(topic: Topic, admin: AdminClient | None = None) -> dict[str, Any]:
    """How large records and batches may be, so that all is sent that the topic takes, and nothing that it does not."""
    told = topic.kafka.get("max.request.size", "")
    most = int(told) if told.isdecimal() else most_bytes(topic, admin)
    if most is None:
        return {}
    most = min(max(most - _AROUND_BYTES, _LEAST_BYTES), _MOST_BYTES)
    return {"message.max.bytes": most, "batch.size": min(most, _BATCH_BYTES)}


def most_bytes(topic: Topic, admin: AdminClient | None = None) -> int | None:
    """How large a batch the topic takes; None where nobody says so, as to who may not ask."""
    try:
        admin = admin or AdminClient(
            dict(librdkafka_options(topic.kafka)), logger=MaskedLog(_log, topic.kafka)
        )
        asked = ConfigResource(ConfigResource.Type.TOPIC, topic.name)
        found = admin.describe_configs([asked], request_timeout=_PATIENCE_SECONDS)[asked]
        return int(found.result(_PATIENCE_SECONDS + 1)["max.message.bytes"].value)
    except (KafkaException, NotInTime, KeyError, TypeError, ValueError):
        return None


def require_fitting(topic: Topic, records: DataFrame, told: Callable[[], PipelineError]) -> None:
    """Raises what is told where one of these records, each a `key` and a `value`, is larger than the topic takes."""
    if not records.where(f"length(key) + coalesce(length(value), 0) > {most_of_one(topic)}").isEmpty():
        raise told()


def most_of_one(topic: Topic) -> int:
    """How many bytes a record's key and value have at the most that is sent."""
    most: int = _sizes(topic).get("message.max.bytes", _BATCH_BYTES)
    return most - _OWN_BYTES


def too_large(topic: Topic, table: str, version: int, keys: Sequence[str]) -> PipelineError:
    """What is said of a row that a topic does not take: where it is, and nothing of what it holds."""
    most, named = most_bytes(topic), ", ".join(f"`{name}`" for name in keys)
    limit = "its max.message.bytes" if most is None else f"{most:,} bytes, its max.message.bytes"
    largest = f"SELECT {named} FROM {table} ORDER BY length(to_json(struct(*))) DESC LIMIT 10"  # noqa: S608 - it is for people
    return PipelineError(
        f"topic {topic.name}: table {table} has a row at version {version} that is larger than the topic takes ({limit}), and nothing newer goes there. "
        f"Raise that, or write sink.kafka.too_large: drop. The largest rows' keys: {largest}"
    )


def send(  # noqa: PLR0913, PLR0917 - what is sent where, and who is told what of it
    producer: Producer,
    topic: str,
    records: Iterator[tuple[bytes, bytes | None]],
    too_large: Callable[[], object] = lambda: None,
    ends: dict[int, int] | None = None,
    undone: Callable[[], object] = lambda: None,
) -> int:
    """How many records were sent, every one of which the brokers have. Raises KafkaException.

    too_large  called for each that is larger than the topic takes; unless it raises, a record without a value takes its place
    ends       is given where each partition ends behind what was sent
    undone     called where this fails, and readers see nothing of what was sent
    """
    count, began = 0, 0.0
    open_now = is_final = False
    known = {} if ends is None else ends

    def delivered(error: KafkaError | None, record: Message) -> None:
        if error is None:
            # Behind it there is the mark that ends its transaction.
            known[record.partition() or 0] = (record.offset() or 0) + 2

    try:
        for key, value in records:
            if not open_now:
                producer.begin_transaction()
                open_now, began = True, time.monotonic()
            if not _is_produced(producer, topic, key, value, delivered):
                too_large()
                _is_produced(producer, topic, key, None, delivered)
            count += 1
            if count % _MOST_RECORDS == 0 or time.monotonic() - began > _MOST_SECONDS:
                is_final = True
                producer.commit_transaction(_PATIENCE_SECONDS)
                open_now = False
        if open_now:
            is_final = True
            producer.commit_transaction(_PATIENCE_SECONDS)
    except BaseException:
        if open_now:
            with suppress(KafkaException):
                producer.abort_transaction(_PATIENCE_SECONDS)
                # Of a commit that failed nobody knows what became.
                if not is_final:
                    undone()
        raise
    return count


def _is_produced(
    producer: Producer,
    topic: str,
    key: bytes,
    value: bytes | None,
    delivered: Callable[[KafkaError | None, Message], None],
) -> bool:
    """Whether a record is on its way; it is not where its value is too large."""
    while True:
        try:
            producer.produce(topic, value=value, key=key, on_delivery=delivered)
        except BufferError:
            producer.poll(0.1)
        except KafkaException as error:
            if value is None or error.args[0].code() != KafkaError.MSG_SIZE_TOO_LARGE:
                raise
            return False
        else:
            producer.poll(0)
            return True


def _require_there(topic: Topic, admin: AdminClient) -> None:
    # All of them: who asks for one may have it made.
    if topic.name not in admin.list_topics(timeout=topic.patience).topics:
        servers = topic.kafka["bootstrap.servers"]
        raise PipelineError(
            f"topic {topic.name} is not there; make it: kafka-topics.sh --bootstrap-server {servers} --create --topic {topic.name} "
            "--partitions 4 --config cleanup.policy=compact"
        )


def _column(name: str) -> Column:
    return sql.col(f"`{name}`")
