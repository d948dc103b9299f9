"""What every source answers: the same tests for each of them."""

from __future__ import annotations

import io
import shutil
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession
from tests.codecs.containers.containers import container
from tests.ingest.kinesis.emulated import Emulated, served

from distributary.ingest.inputs.opening import open_source
from distributary.ingest.kafka.offsets import Offsets, Positions
from distributary.ingest.settings.model import Settings
from distributary.ingest.source.contract import Channels, Records
from distributary.ingest.source.moments import first_offsets, last_offsets
from distributary.producer_sim.stack.local import LocalStack

pytestmark = [pytest.mark.spark, pytest.mark.stack]

_COLUMNS = {"key", "value", "topic", "partition", "offset", "timestamp", "timestampType"}


def json_line(text: str) -> bytes:
    return f'{{"a": "{text}"}}\n'.encode()


def parquet_row(text: str) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table({"a": [text]}), file)
    return file.getvalue()


@dataclass
class World:
    """A source with something to read.

    settings  of a pipeline that reads it
    send      puts so many records into it
    remake    makes it anew, empty
    """

    settings: Settings
    send: Callable[[int], None]
    remake: Callable[[], None]


def settings_of(folder: Path, decode: dict[str, Any] | None = None, **source: Any) -> Settings:
    given: dict[str, Any] = {
        "name": "contract",
        "source": source,
        "decode": decode or {"format": "json"},
        "route": {"by": "topic"},
        "sink": {"root": "./lake"},
    }
    return Settings.from_dict(given, folder)


def of_kafka(folder: Path, stack: LocalStack) -> World:
    servers, topic = {"bootstrap.servers": stack.bootstrap_servers}, f"contract-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": stack.bootstrap_servers})

    def make() -> None:
        admin.create_topics([NewTopic(topic, 2, 1)])[topic].result(30)

    def send(count: int) -> None:
        producer = Producer(servers)
        for number in range(count):
            producer.produce(topic, b'{"a": 1}', partition=number % 2)
        assert producer.flush(30) == 0

    def remake() -> None:
        admin.delete_topics([topic])[topic].result(30)
        made = False
        while not made:
            try:
                make()
                made = True
            except Exception as error:  # noqa: BLE001 it is gone only a moment later
                assert "TOPIC_ALREADY_EXISTS" in str(error)

    make()
    return World(settings_of(folder, kafka=servers, topics=[topic]), send, remake)


def of_delta(folder: Path, _: LocalStack) -> World:
    place = folder / "table"
    columns = pa.schema([("a", pa.int64())])

    def make() -> None:
        DeltaTable.create(str(place), columns)

    def send(count: int) -> None:
        write_deltalake(str(place), pa.table({"a": list(range(count))}, schema=columns), mode="append")

    def remake() -> None:
        place.rename(folder / f"old-{uuid.uuid4().hex[:8]}")
        make()

    make()
    return World(settings_of(folder, delta={"paths": str(place)}), send, remake)


def of_files(folder: Path, written: Callable[[str], bytes] = json_line, **chosen: Any) -> World:
    """Files of one record each; `written` makes one of a text."""
    place = folder / "landing"
    place.mkdir()

    def send(count: int) -> None:
        for _ in range(count):
            name = uuid.uuid4().hex
            (place / name).write_bytes(written(name))

    def remake() -> None:
        shutil.rmtree(folder / "lake/.distributary/landed/landing")

    files = {"path": str(place), "max_files_a_batch": 4, **chosen}
    decode = {"format": "avro"} if chosen.get("format") == "avro" else {}
    return World(settings_of(folder, decode, files=files), send, remake)


def of_lines(folder: Path, _: LocalStack) -> World:
    return of_files(folder)


def of_avro(folder: Path, _: LocalStack) -> World:
    return of_files(folder, lambda text: container("string", [[text]], "deflate"), format="avro")


def of_parquet(folder: Path, _: LocalStack) -> World:
    return of_files(folder, parquet_row, format="parquet")


@contextmanager
def of_kinesis(folder: Path, _: LocalStack) -> Iterator[World]:
    stream = Emulated(shards=2, name="contract")

    def send(count: int) -> None:
        stream.put([(str(number), b'{"a": 1}') for number in range(count)])

    with served(stream) as endpoint:
        kinesis = {"stream": stream.name, "region": "eu-central-1", "endpoint": endpoint}
        yield World(settings_of(folder, kinesis=kinesis), send, lambda: stream.remake(2))


@pytest.fixture(
    params=[of_kafka, of_delta, of_lines, of_avro, of_parquet, of_kinesis],
    ids=["kafka", "delta", "files", "avro", "parquet", "kinesis"],
)
def world(
    request: pytest.FixtureRequest, tmp_path: Path, stack: LocalStack, monkeypatch: pytest.MonkeyPatch
) -> Iterator[World]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "anybody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "anything")
    made = request.param(tmp_path, stack)
    with nullcontext(made) if isinstance(made, World) else made as one:
        yield one


@pytest.fixture
def source(world: World, spark: SparkSession) -> Iterator[Channels]:
    with open_source(world.settings, spark) as channels:
        yield channels


def reader(channels: Channels, world: World, spark: SparkSession) -> Records:
    return channels.records(spark, "contract", world.settings.source, world.settings.route)


def whole(channels: Channels) -> Offsets:
    first, last = channels.earliest_offsets(), channels.end_offsets()
    return {
        topic: {number: (first[topic][number], end) for number, end in numbers.items()}
        for topic, numbers in last.items()
    }


def millis(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


def places(records: Records, offsets: Offsets) -> list[tuple[str, int, int, bytes]]:
    found = records.range(offsets).collect()
    return sorted((row["topic"], row["partition"], row["offset"], bytes(row["value"])) for row in found)


def behind(positions: Positions, offsets: Offsets) -> Positions:
    found = {topic: dict(numbers) for topic, numbers in positions.items()}
    for topic, ranges in offsets.items():
        for number, (begin, end) in ranges.items():
            assert begin == found[topic][number], "an extent begins where the one before ends"
            found[topic][number] = end
    return found


def test_the_records_of_an_extent_are_the_same_whenever_they_are_asked_for(
    world: World, source: Channels, spark: SparkSession
) -> None:
    world.send(5)
    records = reader(source, world, spark)
    extent = whole(source)
    before = places(records, extent)
    assert len(before) == len({place[:3] for place in before}) == 5
    assert all(
        extent[topic][partition][0] <= offset < extent[topic][partition][1]
        for topic, partition, offset, _ in before
    )
    world.send(3)
    assert places(records, extent) == before
    with open_source(world.settings, spark) as again:
        assert places(reader(again, world, spark), extent) == before


def test_records_have_the_columns_of_sparks_kafka_source(
    world: World, source: Channels, spark: SparkSession
) -> None:
    world.send(1)
    frame = reader(source, world, spark).range(whole(source))
    assert set(frame.columns) - {"headers"} == _COLUMNS
    (row,) = frame.collect()
    assert row["timestamp"] is not None
    types = dict(frame.dtypes)
    assert (types["value"], types["offset"], types["partition"]) == ("binary", "bigint", "int")


def test_extents_join_without_a_gap_and_come_to_the_end(
    world: World, source: Channels, spark: SparkSession
) -> None:
    for count in (3, 4, 2):
        world.send(count)
    records, read, ends = reader(source, world, spark), source.beginning(), source.end_offsets()
    found: list[tuple[str, int, int, bytes]] = []
    extents = 0
    while offsets := records.next_range(read, ends, 4):
        read = behind(read, offsets)
        found += places(records, offsets)
        extents += 1
        assert extents < 20
    assert read == ends
    assert extents > 1
    assert sorted(found) == places(records, whole(source))
    assert len(found) == 9


def test_what_waits_is_counted_and_nothing_waits_where_all_is_read(world: World, source: Channels) -> None:
    world.send(4)
    begin = source.beginning()
    assert sum(count for numbers in source.lag(begin).values() for count in numbers.values()) == 4
    middle = source.end_offsets()
    world.send(3)
    assert sum(count for numbers in source.lag(begin, middle).values() for count in numbers.values()) == 4
    assert sum(count for numbers in source.lag(middle).values() for count in numbers.values()) == 3
    end = source.end_offsets()
    assert sum(count for numbers in source.lag(end).values() for count in numbers.values()) == 0


def test_a_source_without_records_is_read_to_its_end(
    world: World, source: Channels, spark: SparkSession
) -> None:
    records = reader(source, world, spark)
    assert places(records, whole(source)) == []
    end = source.end_offsets()
    assert records.next_range(end, end, 10) == {}


def test_a_topic_that_is_made_anew_has_another_id(
    world: World, source: Channels, spark: SparkSession
) -> None:
    before = source.topic_ids()
    assert set(before) == set(source.names()) == set(source.partitions())
    assert before == source.topic_ids()
    world.remake()
    with open_source(world.settings, spark) as again:
        after = again.topic_ids()
        assert again.cluster_id() == source.cluster_id()
    assert set(after) == set(before)
    assert all(after[name] != before[name] for name in before)


def test_records_are_found_by_their_time(world: World, source: Channels, spark: SparkSession) -> None:
    for count in (2, 1, 3):
        world.send(count)
    rows = reader(source, world, spark).range(whole(source)).collect()
    read = [(one["topic"], one["partition"], one["offset"], millis(one["timestamp"])) for one in rows]
    for moment in {time for *_, time in read}:
        found = source.offsets_from(moment)
        for topic, partition, offset, time in read:
            first = found[topic].get(partition)
            assert first is None or (offset >= first) >= (time >= moment), (
                "none of then or later is before it"
            )
            assert time < moment or first is not None
            assert offset != first or time >= moment, "and the first one is of then"
    late = source.offsets_from(4_102_444_800_000)  # 2100
    assert not any(numbers for numbers in late.values())


def test_a_reading_may_begin_and_end_at_a_time(world: World, source: Channels, spark: SparkSession) -> None:
    for count in (2, 1, 3):
        world.send(count)
    records, extent = reader(source, world, spark), whole(source)
    times = sorted(one["timestamp"] for one in records.range(extent).collect())
    moment = times[3].astimezone(timezone.utc)
    begins, until = first_offsets(moment, source), last_offsets(moment, source) or {}
    before = {
        topic: {number: (begin, until[topic][number]) for number, (begin, _) in numbers.items()}
        for topic, numbers in extent.items()
    }
    behind = {
        topic: {number: (begins[topic][number], end) for number, (_, end) in numbers.items()}
        for topic, numbers in extent.items()
    }
    parts = [places(records, part) for part in (before, behind)]
    assert sorted([*parts[0], *parts[1]]) == places(records, extent)
    assert len(parts[0]) == sum(time < times[3] for time in times)


def stretches(extent: Offsets, found: list[tuple[str, int, int, bytes]]) -> Iterator[Offsets]:
    """An extent cut before each record: what has no record, and then one record each of every partition."""
    cuts = {
        (topic, number): [begin, *(place[2] for place in found if place[:2] == (topic, number)), end]
        for topic, numbers in extent.items()
        for number, (begin, end) in numbers.items()
    }
    for step in range(max(map(len, cuts.values())) - 1):
        yield {
            topic: {number: _pair(cuts[topic, number], step) for number in numbers}
            for topic, numbers in extent.items()
        }


def _pair(cuts: list[int], step: int) -> tuple[int, int]:
    return cuts[min(step, len(cuts) - 1)], cuts[min(step + 1, len(cuts) - 1)]


def test_offsets_that_no_record_has_are_read_as_nothing(
    world: World, source: Channels, spark: SparkSession
) -> None:
    for _ in range(2):
        world.send(2)
    records, extent = reader(source, world, spark), whole(source)
    found = places(records, extent)
    assert sorted(place for part in stretches(extent, found) for place in places(records, part)) == found
