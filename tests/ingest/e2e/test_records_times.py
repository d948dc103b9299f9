"""Records whose time in Kafka no timestamp holds: Spark's source ends at each, and none of its neighbours is lost or doubled."""

from __future__ import annotations

import ctypes
import json
import uuid
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import confluent_kafka
import pyarrow as pa
import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.ingest.e2e.handmade import (
    Schema,
    assert_each_record_in_one_place,
    quarantined,
    registered,
)
from tests.ingest.e2e.pipeline_kit import PipelineKit
from tests.ingest.e2e.test_outages import Watching

from distributary.errors import DistributaryError, PipelineError, PolicyStopped
from distributary.ingest.kafka import time_overflow
from distributary.ingest.kafka.source import TopicReader
from distributary.ingest.kafka.time_overflow import before_overflows
from distributary.producer_sim.stack.local import LocalStack

pytestmark = [pytest.mark.spark, pytest.mark.stack]

NOW = 1_700_000_000_000
LAST = (2**63 - 1) // 1000
NANOSECONDS = NOW * 10**6
YEAR_1, YEAR_9999 = -62_135_596_800_000, 253_402_300_799_999
# 15 October 1582, before which Java's old calendar is Caesar's, and its 29 February 1500, a day that today's does not have.
SWITCH, LEAP_DAY = -12_219_292_800_000, -14_830_992_000_000


class Librdkafka:
    """The C library itself: Python's client takes no header's name but a text."""

    def __init__(self, servers: str) -> None:
        (library,) = Path(confluent_kafka.__file__).parent.parent.glob("confluent_kafka.libs/librdkafka*")
        self.c = ctypes.CDLL(str(library))
        self.c.rd_kafka_conf_new.restype = self.c.rd_kafka_new.restype = ctypes.c_void_p
        self.c.rd_kafka_headers_new.restype = ctypes.c_void_p
        said = ctypes.create_string_buffer(512)
        options = ctypes.c_void_p(self.c.rd_kafka_conf_new())
        self.c.rd_kafka_conf_set(options, b"bootstrap.servers", servers.encode(), said, ctypes.c_size_t(512))
        self.producer = ctypes.c_void_p(self.c.rd_kafka_new(0, options, said, ctypes.c_size_t(512)))

    def send(self, topic: str, value: bytes, milliseconds: int, header: bytes) -> None:
        """One record of partition 0, with a header of this name."""
        headers = ctypes.c_void_p(self.c.rd_kafka_headers_new(ctypes.c_size_t(1)))
        self.c.rd_kafka_header_add(headers, header, ctypes.c_ssize_t(len(header)), b"", ctypes.c_ssize_t(0))
        # Tags of rd_kafka_vtype_t: topic 1, partition 3, value 4, flags 7 (2: the value is copied), time 8, headers 10, the end 0.
        given = (
            *(ctypes.c_int(1), ctypes.c_char_p(topic.encode()), ctypes.c_int(3), ctypes.c_int32(0)),
            *(ctypes.c_int(4), ctypes.c_char_p(value), ctypes.c_size_t(len(value)), ctypes.c_int(7), ctypes.c_int(2)),
            *(ctypes.c_int(8), ctypes.c_int64(milliseconds), ctypes.c_int(10), headers, ctypes.c_int(0)),
        )  # fmt: skip
        assert self.c.rd_kafka_producev(self.producer, *given) == 0
        assert self.c.rd_kafka_flush(self.producer, 30_000) == 0

    def close(self) -> None:
        """Let go of the broker."""
        self.c.rd_kafka_destroy(self.producer)


@pytest.fixture
def lenient(kit: PipelineKit, admin: AdminClient) -> PipelineKit:
    """The pipeline over a topic that takes any time, as all did before Kafka 3.6."""
    name = f"times-{uuid.uuid4().hex[:8]}"
    for setting in ("message.timestamp.after.max.ms", "message.timestamp.difference.max.ms"):
        topic = NewTopic(name, num_partitions=2, config={setting: str(2**63 - 1)})
        try:
            admin.create_topics([topic])[name].result(30)
            break
        except KafkaException:
            continue
    kit.topic = name
    return kit.configured(source={"topics": [name]})


def send(kit: PipelineKit, schema: Schema, times: Sequence[int], first: int = 0, partition: int = 0) -> None:
    """Players in order, each at its time."""
    producer = Producer({"bootstrap.servers": kit.bootstrap_servers})
    for number, milliseconds in enumerate(times, first):
        value = schema.value(game="chess", player=str(number))
        producer.produce(kit.topic, value, b"k", partition=partition, timestamp=milliseconds)
    assert producer.flush(30) == 0


def in_transaction(kit: PipelineKit, schema: Schema, times: Sequence[int], first: int) -> Producer:
    """The same in a transaction that is left open."""
    producer = Producer({"bootstrap.servers": kit.bootstrap_servers, "transactional.id": uuid.uuid4().hex})
    producer.init_transactions(30)
    producer.begin_transaction()
    for number, milliseconds in enumerate(times, first):
        value = schema.value(game="chess", player=str(number))
        producer.produce(kit.topic, value, b"k", partition=0, timestamp=milliseconds)
    assert producer.flush(30) == 0
    return producer


def players(kit: PipelineKit) -> list[int]:
    # Not by rows: Python has no date for the last of all times.
    return sorted(map(int, kit.rows(kit.folder_of("chess"))["player"].to_pylist()))


# Lighter: test_all_records_of_such_times_stop_nothing_unless_the_settings_say_so has such records.
@pytest.mark.heavy
def test_a_record_of_a_time_beyond_all_timestamps_is_quarantined_and_its_neighbours_land_once(
    lenient: PipelineKit, fail_at: Callable[..., None]
) -> None:
    schema = registered(lenient)
    send(lenient, schema, [NOW, LAST, LAST + 1, NOW, NANOSECONDS, NOW])
    send(lenient, schema, [NOW, NOW], 6, partition=1)
    lenient.configured(limits={"batch_rows": 5}, supervisor={"failures": {"max": 1}})
    # Decided and not finished: the next start meets the batch's records once more, or none of them.
    fail_at("after_manifest:1")
    lenient.run()
    send(lenient, schema, [NOW], 8)
    lenient.run()

    assert players(lenient) == [0, 1, 3, 5, 6, 7, 8]
    odd = quarantined(lenient)
    assert [(row["kafka_offset"], row["reason"], row["kafka_ts"]) for row in odd] == [
        (2, "timestamp_overflow", None),
        (4, "timestamp_overflow", None),
    ]
    assert [row["value"] for row in odd] == [schema.value(game="chess", player=n) for n in ("2", "4")]
    assert {row["kafka_key"] for row in odd} == {b"k"}
    assert_each_record_in_one_place(lenient)


def test_a_time_of_any_calendar_is_the_one_that_the_record_has_whoever_reads_it(lenient: PipelineKit) -> None:
    schema = registered(lenient)
    first = -LAST
    old = [
        first,
        YEAR_1,
        YEAR_1 - 1,
        *(SWITCH + n for n in (-(10**12), -86_400_000, -1, 0)),
        LEAP_DAY,
        LEAP_DAY + 86_400_000,
    ]
    times = [NOW, -2, *old, -2_208_988_800_000, NOW, YEAR_9999 + 1, LAST]
    send(lenient, schema, times)
    # Whatever is behind a time that none holds is read by another client.
    send(lenient, schema, [NANOSECONDS, *times], len(times), partition=1)
    send(lenient, schema, [-LAST - 1], 2 * len(times) + 1, partition=1)
    lenient.run()

    rows = lenient.rows(lenient.folder_of("chess"))
    found = rows.set_column(0, "ts", rows["kafka_ts"].cast(pa.int64())).select(
        ["kafka_partition", "kafka_offset", "ts"]
    )
    by_place = {(row["kafka_partition"], row["kafka_offset"]): row["ts"] for row in found.to_pylist()}
    assert [by_place[0, n] for n in range(len(times))] == [time * 1000 for time in times]
    assert [by_place[1, n + 1] for n in range(len(times))] == [time * 1000 for time in times]
    assert [row["kafka_offset"] for row in quarantined(lenient)] == [0, len(times) + 1]


def test_all_records_of_such_times_stop_nothing_unless_the_settings_say_so(lenient: PipelineKit) -> None:
    schema = registered(lenient)
    send(lenient, schema, [NANOSECONDS] * 50)
    lenient.configured(policies={"undecodable": "fail"})
    with pytest.raises(PolicyStopped, match=rf"50 timestamp_overflow \(first at {lenient.topic}/0/0\)"):
        lenient.run()
    lenient.configured(policies={"undecodable": "quarantine"})
    lenient.run()
    assert len(quarantined(lenient)) == 50


# Lighter: lost files are in test_crashes.py, such records in the tests above.
@pytest.mark.heavy
def test_lost_files_of_a_batch_with_such_a_record_are_written_again(
    lenient: PipelineKit, fail_at: Callable[..., None]
) -> None:
    schema = registered(lenient)
    send(lenient, schema, [NOW, NANOSECONDS, NOW])
    fail_at("after_manifest:1")
    with pytest.raises(DistributaryError):
        lenient.run()
    root = lenient.lake.root
    decided = lenient.manifests.last()
    assert decided is not None
    for table in (one for one in decided.tables if one.role in ("events", "quarantine")):
        root.delete(f"{table.folder}/{file.name}" for file in table.files)
    lenient.run()
    assert players(lenient) == [0, 2]
    assert [row["kafka_offset"] for row in quarantined(lenient)] == [1]
    assert_each_record_in_one_place(lenient)


def test_a_header_whose_name_is_no_text_behind_such_a_record_stops_nothing(lenient: PipelineKit) -> None:
    schema = registered(lenient)
    odd = [(NOW, b"odd\xff"), (NANOSECONDS, b"odd\xff"), (NOW, b"odd\xff"), (NOW, b"even")]
    with closing(Librdkafka(lenient.bootstrap_servers)) as by_c:
        for number, (milliseconds, header) in enumerate(odd):
            value = schema.value(game="chess", player=str(number))
            by_c.send(lenient.topic, value, milliseconds, header)
    lenient.run()
    # Spark reads the first one; behind the one that it cannot read headers are had by another client.
    assert players(lenient) == [0, 3]
    assert [(row["kafka_offset"], row["reason"]) for row in quarantined(lenient)] == [
        (1, "timestamp_overflow"),
        (2, "timestamp_overflow"),
    ]
    assert quarantined(lenient)[1]["value"] == schema.value(game="chess", player="2")
    assert_each_record_in_one_place(lenient)


# Lighter: test_all_records_of_such_times_stop_nothing_unless_the_settings_say_so has such records.
@pytest.mark.heavy
def test_such_records_of_transactions_are_there_once_they_are_committed_and_never_if_not(
    lenient: PipelineKit,
) -> None:
    schema = registered(lenient)
    in_transaction(lenient, schema, [NOW, NANOSECONDS, NOW], 0).commit_transaction(30)
    in_transaction(lenient, schema, [NANOSECONDS, NOW, NANOSECONDS], 3).abort_transaction(30)
    send(lenient, schema, [NOW, NANOSECONDS], 6)
    in_transaction(lenient, schema, [NOW, NANOSECONDS], 8).abort_transaction(30)
    left_open = in_transaction(lenient, schema, [NANOSECONDS, NOW], 10)
    in_transaction(lenient, schema, [NANOSECONDS], 12).abort_transaction(30)
    # Most batches end amid a transaction.
    lenient.configured(limits={"batch_rows": 3})
    lenient.run()
    assert (players(lenient), len(quarantined(lenient))) == ([0, 2, 6], 2)
    left_open.commit_transaction(30)
    lenient.run()
    assert (players(lenient), len(quarantined(lenient))) == ([0, 2, 6, 11], 3)
    assert_each_record_in_one_place(lenient)


# An outage while records of other times are read is in `make test`.
@pytest.mark.heavy
def test_a_broker_that_goes_away_while_such_records_are_read_costs_no_failure(
    lenient: PipelineKit, stack: LocalStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = registered(lenient)
    send(lenient, schema, [NOW, NANOSECONDS, NOW])
    # Where nothing may fail, whatever counts as a failure ends the run.
    lenient.configured(supervisor={"failures": {"max": 0}})
    monkeypatch.setattr(time_overflow, "_PATIENCE_SECONDS", 3.0)
    away = iter([True])
    consumer_for = time_overflow._consumer

    def stopped(*given: Any) -> Any:
        if next(away, False):
            stack.broker.stop()
        return consumer_for(*given)

    monkeypatch.setattr(time_overflow, "_consumer", stopped)
    watching = Watching()
    with lenient.running(watching) as run:
        try:
            assert watching.waited.wait(120)
        finally:
            stack.broker.start()
        run.wait_for(3)
    assert run.outcome().summary.failures == 0
    assert (players(lenient), len(quarantined(lenient))) == ([0, 2], 1)


def test_records_that_a_broker_does_not_show_yet_are_not_left_out(
    lenient: PipelineKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(lenient, registered(lenient), [NOW] * 3)
    settings = lenient.settings
    topics = TopicReader.of(lenient.spark, "games", settings.source, settings.route)
    assert before_overflows(topics, {lenient.topic: {0: (0, 3)}}) == {lenient.topic: {0: (0, 3)}}
    monkeypatch.setattr(time_overflow, "_PATIENCE_SECONDS", 1.0)
    # As where the one that leads now has not heard yet that the others have them, too.
    with pytest.raises(PipelineError, match="Timed out"):
        before_overflows(topics, {lenient.topic: {0: (0, 5)}})


# Lighter: test_a_time_of_any_calendar_is_the_one_that_the_record_has_whoever_reads_it reads beside such records.
@pytest.mark.heavy
def test_a_schema_is_inferred_beside_such_records(lenient: PipelineKit) -> None:
    lenient.configured(decode={"format": "json"}, route={"field": "game", "table": "t_{entity}"})
    producer = Producer({"bootstrap.servers": lenient.bootstrap_servers})
    for number, milliseconds in enumerate([NOW, NANOSECONDS, NOW]):
        value = json.dumps({"game": "go", "level": number}).encode()
        producer.produce(lenient.topic, value, b"%d" % number, partition=0, timestamp=milliseconds)
    assert producer.flush(30) == 0
    lenient.run()
    assert sorted(row["level"] for row in lenient.rows("t_go").to_pylist()) == [0, 2]
    assert len(quarantined(lenient)) == 1


@pytest.mark.heavy
def test_where_each_record_is_kept_as_it_came_its_time_alone_is_lacking(lenient: PipelineKit) -> None:
    schema = registered(lenient)
    # Of the last but one no partition has a day.
    send(lenient, schema, [NOW, NANOSECONDS, -3_000_000_000_000, YEAR_9999 + 1, NOW])
    lenient.configured(bronze={})
    lenient.run()
    rows = lenient.rows("bronze").sort_by("kafka_offset")
    assert rows["value"].to_pylist() == [schema.value(game="chess", player=str(n)) for n in range(5)]
    assert rows["kafka_ts"].is_null().to_pylist() == [False, True, False, False, False]
    assert rows["kafka_date"].is_null().to_pylist() == [False, True, False, True, False]
    assert str(rows["kafka_date"][2]) == "1874-12-07"
    assert_each_record_in_one_place(lenient)
