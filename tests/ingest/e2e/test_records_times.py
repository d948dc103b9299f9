"""Records whose time in Kafka no timestamp holds: Spark's source ends at each, and none of its neighbours is lost or doubled."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Sequence

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

from distributary.errors import DistributaryError, PolicyStopped

pytestmark = [pytest.mark.spark, pytest.mark.stack]

NOW = 1_700_000_000_000
LAST = (2**63 - 1) // 1000
NANOSECONDS = NOW * 10**6


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


def players(kit: PipelineKit) -> list[int]:
    # Not by rows: Python has no date for the last of all times.
    return sorted(map(int, kit.rows(kit.folder_of("chess"))["player"].to_pylist()))


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


def test_all_records_of_such_times_stop_nothing_unless_the_settings_say_so(lenient: PipelineKit) -> None:
    schema = registered(lenient)
    send(lenient, schema, [NANOSECONDS] * 50)
    lenient.configured(policies={"undecodable": "fail"})
    with pytest.raises(PolicyStopped, match=rf"50 timestamp_overflow \(first at {lenient.topic}/0/0\)"):
        lenient.run()
    lenient.configured(policies={"undecodable": "quarantine"})
    lenient.run()
    assert len(quarantined(lenient)) == 50


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
