"""Kafka's records through Spark, from a real broker: the stream, its checkpoint files, and ranges read again."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from distributary.errors import CheckpointMismatch
from distributary.ingest.checkpoint.spark_files import SparkFiles, batch_offsets
from distributary.ingest.kafka.connection import connect
from distributary.ingest.kafka.offsets import Offsets, Positions
from distributary.ingest.kafka.source import (
    Lost,
    TopicReader,
    complete,
    require_not_back,
    require_there,
    warm_up,
)
from distributary.ingest.settings.model import Settings
from distributary.producer_sim.stack.local import LocalStack


def settings(stack: LocalStack, topics: list[str], batch_rows: int = 20, **source: object) -> Settings:
    return Settings.model_validate(
        {
            "name": "games",
            "source": {"kafka": {"bootstrap.servers": stack.bootstrap_servers}, "topics": topics, **source},
            "registry": {"url": "http://127.0.0.1:1"},
            "route": {"by": "field", "field": "game"},
            "sink": {"root": "/lake"},
            "checkpoint": "/checkpoint",
            "limits": {"batch_rows": batch_rows},
        }
    )


def topics_of(spark: SparkSession, chosen: Settings) -> TopicReader:
    return TopicReader.of(spark, chosen.name, chosen.source, chosen.route)


def produce(stack: LocalStack, topic: str, values: list[str], partitions: int = 2) -> None:
    producer = Producer({"bootstrap.servers": stack.bootstrap_servers})
    for number, value in enumerate(values):
        headers: list[tuple[str, str | bytes | None]] = [("__value_schema_id", b"id")] if number == 0 else []
        producer.produce(topic, value.encode(), partition=number % partitions, headers=headers)
    producer.flush(30)


def values(frame: DataFrame) -> list[str]:
    return sorted(bytes(row.value).decode() for row in frame.collect())


def run(
    spark: SparkSession, pipeline: Settings, spark_files: SparkFiles, start: Positions | None = None
) -> list[list[str]]:
    """Run to the end of the topics; the values of each batch."""
    batches: list[list[str]] = []
    if start is None:
        start = complete({}, {topic: [0, 1] for topic in pipeline.source.topics})
    query = (
        topics_of(spark, pipeline)
        .stream(pipeline.limits.batch_rows, start)
        .writeStream.foreachBatch(lambda frame, batch_id: batches.append(values(frame)))
        .option("checkpointLocation", str(spark_files.folder))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(200), "it did not reach the end in time"
    return batches


def test_records_that_are_gone_before_they_were_read_are_told_of_with_what_to_do() -> None:
    read = {"a": {0: 7, 1: 5}, "left": {0: 1}}
    require_there(read, {"a": {0: 7, 1: 0, 2: 9}})
    with pytest.raises(
        CheckpointMismatch,
        match=r"Kafka has no more of a/1 from offset 5 to before 6, .*`source: {on_data_loss: record}`",
    ):
        require_there(read, {"a": {0: 7, 1: 6}})


def test_a_partition_that_ends_before_what_was_read_of_it_is_told_of_with_what_to_do() -> None:
    read = {"a": {0: 7, 1: 5, 3: 2}}
    require_not_back(read, {"a": {0: 7, 1: 6, 2: 0}})
    with pytest.raises(
        CheckpointMismatch,
        match=r"Kafka has a/0 up to before offset 6, and it was read up to before 7: .*`start: from_tables`",
    ):
        require_not_back(read, {"a": {0: 6, 1: 5, 2: 0}})


def test_who_reads_a_table_that_was_put_back_is_not_told_to_read_again_what_that_gets_once_more() -> None:
    with pytest.raises(
        CheckpointMismatch, match=r"^Delta has a/0 .* the table was put back from an older copy"
    ):
        require_not_back({"a": {0: 7}}, {"a": {0: 6}}, "Delta")


WORDS = [f"w{number:02}" for number in range(50)]


def test_partitions_nobody_named_start_at_offset_0_even_where_retention_took_it() -> None:
    assert complete({"a": {0: 7, 9: 1}, "z": {0: 1}}, {"a": [0, 1], "b": [0]}) == {
        "a": {0: 7, 1: 0},
        "b": {0: 0},
    }


@pytest.mark.spark
@pytest.mark.stack
def test_batches_are_bounded_and_their_offsets_are_in_spark_s_files(
    spark: SparkSession, stack: LocalStack, topic: str, tmp_path: Path
) -> None:
    produce(stack, topic, WORDS)
    pipeline, spark_files = settings(stack, [topic]), SparkFiles(tmp_path / "games")
    batches = run(spark, pipeline, spark_files)
    assert [len(batch) for batch in batches] == [20, 20, 10]
    assert batch_offsets(spark_files, 0) == {topic: {0: (0, 10), 1: (0, 10)}}
    assert batch_offsets(spark_files, 2) == {topic: {0: (20, 25), 1: (20, 25)}}
    for batch_id, batch in enumerate(batches):
        assert values(topics_of(spark, pipeline).range(batch_offsets(spark_files, batch_id))) == batch


@pytest.mark.spark
@pytest.mark.stack
def test_a_partition_added_on_the_way_starts_at_zero(
    spark: SparkSession, stack: LocalStack, topic: str, admin: AdminClient, tmp_path: Path
) -> None:
    produce(stack, topic, WORDS[:10])
    pipeline, spark_files = settings(stack, [topic]), SparkFiles(tmp_path / "games")
    run(spark, pipeline, spark_files)
    admin.create_partitions([NewPartitions(topic, 3)])[topic].result(30)
    produce(stack, topic, WORDS[10:16], partitions=3)
    assert run(spark, pipeline, spark_files) == [WORDS[10:16]]
    assert batch_offsets(spark_files, 1) == {topic: {0: (5, 7), 1: (5, 7), 2: (0, 2)}}


@pytest.mark.spark
@pytest.mark.stack
def test_given_positions_decide_where_a_new_checkpoint_starts(
    spark: SparkSession, stack: LocalStack, topic: str, tmp_path: Path
) -> None:
    produce(stack, topic, WORDS[:10])
    spark_files = SparkFiles(tmp_path / "games")
    start = complete({topic: {1: 3}}, {topic: [0, 1]})
    batches = run(spark, settings(stack, [topic]), spark_files, start)
    assert batches == [sorted([*WORDS[0:10:2], *WORDS[7:10:2]])]
    assert batch_offsets(spark_files, 0) == {topic: {0: (0, 5), 1: (3, 5)}}


@pytest.mark.spark
@pytest.mark.stack
def test_headers_are_read_if_wanted(spark: SparkSession, stack: LocalStack, topic: str) -> None:
    produce(stack, topic, WORDS[:2])
    offsets: Offsets = {topic: {0: (0, 1), 1: (0, 1)}}
    read = topics_of(spark, settings(stack, [topic])).range(offsets)
    (row,) = read.where("partition = 0").collect()
    assert [(header.key, bytes(header.value)) for header in row.headers] == [("__value_schema_id", b"id")]
    without = topics_of(spark, settings(stack, [topic], headers=False))
    assert "headers" not in without.range(offsets).columns


@pytest.mark.spark
@pytest.mark.stack
def test_aborted_transactions_are_not_read(
    spark: SparkSession, stack: LocalStack, topic: str, tmp_path: Path
) -> None:
    producer = Producer({"bootstrap.servers": stack.bootstrap_servers, "transactional.id": topic})
    producer.init_transactions(30)
    for number, value in enumerate((b"aborted", b"kept")):
        producer.begin_transaction()
        producer.produce(topic, value, partition=0)
        producer.flush(30)
        (producer.commit_transaction if number else producer.abort_transaction)(30)
    spark_files = SparkFiles(tmp_path / "games")
    assert run(spark, settings(stack, [topic]), spark_files) == [["kept"]]
    assert batch_offsets(spark_files, 0)[topic][0] == (0, 4), "two records and a marker for each transaction"


@pytest.mark.spark
@pytest.mark.stack
def test_warming_up_takes_a_topic_with_records_and_one_without(
    spark: SparkSession, stack: LocalStack, topic: str
) -> None:
    pipeline = settings(stack, [topic])
    with connect(pipeline.source, spark) as kafka:
        warm_up(topics_of(spark, pipeline), kafka)
        produce(stack, topic, WORDS[:3])
        warm_up(topics_of(spark, pipeline), kafka)


@pytest.mark.spark
@pytest.mark.stack
def test_a_partition_that_comes_while_warming_up_is_no_error(
    spark: SparkSession, stack: LocalStack, topic: str, admin: AdminClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = settings(stack, [topic])
    with connect(pipeline.source, spark) as kafka:
        first = kafka.earliest_offsets()
        admin.create_partitions([NewPartitions(topic, 3)])[topic].result(30)
        while len(kafka.partitions()[topic]) < 3:  # the broker learns of it a moment later
            continue
        monkeypatch.setattr(kafka, "earliest_offsets", lambda: first)
        warm_up(topics_of(spark, pipeline), kafka)


@pytest.mark.spark
@pytest.mark.stack
def test_records_that_cannot_be_read_just_now_do_not_end_the_warming_up(
    spark: SparkSession, stack: LocalStack, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fails = spark.range(1).select(
        *(sql.raise_error(sql.lit("not now")).alias(name) for name in ("partition", "offset", "key", "value"))
    )
    monkeypatch.setattr(TopicReader, "range", lambda *asked: fails)
    pipeline = settings(stack, [topic])
    with connect(pipeline.source, spark) as kafka:
        warm_up(topics_of(spark, pipeline), kafka)


def test_what_stands_elsewhere_is_not_lost() -> None:
    gap = Lost("a", 0, 3, 9)
    assert gap.but({"a": {1: [(3, 9)]}, "b": {0: [(3, 9)]}}) == [gap]
    assert gap.but({"a": {0: [(0, 4), (6, 7), (8, 20)]}}) == [Lost("a", 0, 4, 6), Lost("a", 0, 7, 8)]
    assert gap.but({"a": {0: [(0, 20)]}}) == []
