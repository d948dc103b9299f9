"""Schemas inferred from a real topic by Spark's JSON reader."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from distributary.errors import ConfigError
from distributary.ingest.inference.entities import infer_entities
from distributary.ingest.inference.topic import infer
from distributary.ingest.inputs.from_kafka import KafkaRecords
from distributary.ingest.inputs.opening import open_source
from distributary.ingest.settings.model import Settings
from distributary.producer_sim.stack.local import LocalStack

Record = tuple[bytes | None, bytes | None]


def settings(stack: LocalStack, topic: str, folder: Path, **decode: object) -> Settings:
    return Settings.model_validate(
        {
            "name": "games",
            "source": {"kafka": {"bootstrap.servers": stack.bootstrap_servers}, "topics": [topic]},
            "route": {"field": "game"},
            "sink": {"root": "./lake"},
            "decode": {"format": "json", **decode},
        },
        context={"folder": folder},
    )


def send(stack: LocalStack, topic: str, records: Sequence[Record]) -> None:
    producer = Producer({"bootstrap.servers": stack.bootstrap_servers})
    for key, value in records:
        producer.produce(topic, value=value, key=key, partition=0)
    assert producer.flush(30) == 0


def types(text: str) -> dict[str, str]:
    return {
        field.name: field.dataType.simpleString() for field in StructType.fromJson(json.loads(text)).fields
    }


def topics_of(spark: SparkSession, chosen: Settings) -> KafkaRecords:
    return KafkaRecords.of(spark, chosen.name, chosen.source, chosen.route)


def inferred(spark: SparkSession, chosen: Settings, sample: int | None = None) -> dict[str, str]:
    with open_source(chosen, spark) as kafka:
        return types(infer(topics_of(spark, chosen), chosen.decode, kafka, sample).text)


def test_fields_of_all_records_are_in_the_schema(
    spark: SparkSession, stack: LocalStack, topic: str, tmp_path: Path
) -> None:
    send(
        stack,
        topic,
        [
            (None, b'{"game":"go","level":3,"at":{"x":1.5}}'),
            (None, b'{"game":"go","tags":["a"],"at":{"y":true},"nothing":null}'),
            (None, b'{"mixed":1}'),
            (None, b'{"mixed":"one"}'),
        ],
    )
    assert inferred(spark, settings(stack, topic, tmp_path)) == {
        "at": "struct<x:double,y:boolean>",
        "game": "string",
        "level": "bigint",
        "mixed": "string",
        "tags": "array<string>",
    }


def test_broken_records_and_nulls_leave_no_trace(
    spark: SparkSession, stack: LocalStack, topic: str, tmp_path: Path
) -> None:
    send(stack, topic, [(None, b'{"game":"go"}'), (None, b'{"broken":'), (b"k", None), (None, b"\xff\xfe")])
    assert inferred(spark, settings(stack, topic, tmp_path)) == {"game": "string"}


def test_of_a_key_only_the_latest_record_counts(
    spark: SparkSession, stack: LocalStack, topic: str, tmp_path: Path
) -> None:
    send(stack, topic, [(b"k", b'{"old":"text"}'), (b"k", b'{"new":1}'), (None, b'{"plain":2}')])
    assert inferred(spark, settings(stack, topic, tmp_path)) == {"new": "bigint", "plain": "bigint"}


def test_a_sample_is_of_the_newest_records(
    spark: SparkSession, stack: LocalStack, topic: str, tmp_path: Path
) -> None:
    send(stack, topic, [(None, b'{"old":1}')] * 5 + [(None, b'{"new":1}')] * 5)
    assert inferred(spark, settings(stack, topic, tmp_path), sample=4) == {"new": "bigint"}


def test_an_empty_topic_has_an_empty_schema(
    spark: SparkSession, stack: LocalStack, topic: str, tmp_path: Path
) -> None:
    assert inferred(spark, settings(stack, topic, tmp_path)) == {}


def test_hints_win_over_what_was_inferred(
    spark: SparkSession, stack: LocalStack, topic: str, tmp_path: Path
) -> None:
    send(stack, topic, [(None, b'{"level":3,"at":{"x":1.5,"y":2}}')])
    hints = "level string, at struct<y: double>, later timestamp"
    assert inferred(spark, settings(stack, topic, tmp_path, schema_hints=hints)) == {
        "at": "struct<x:double,y:double>",
        "level": "string",
        "later": "timestamp",
    }


# Of one schema for the topic they are refused in tests/cli/commands/test_infer.py, too.
@pytest.mark.parametrize("schema_per", [pytest.param("topic", marks=pytest.mark.heavy), "entity"])
def test_names_made_of_data_make_no_schema_until_they_are_a_map(
    spark: SparkSession, stack: LocalStack, topic: str, tmp_path: Path, schema_per: str
) -> None:
    def look(**decode: object) -> dict[str, str]:
        chosen = settings(stack, topic, tmp_path, schema_per=schema_per, **decode)
        if schema_per == "topic":
            return inferred(spark, chosen)
        with open_source(chosen, spark) as kafka:
            return types(
                infer_entities(topics_of(spark, chosen), chosen.decode, chosen.route, kafka)["go"].text
            )

    keyed = [b'{"game":"go","at":{"x":%d,"seen":{"user-%d":{"n":1}}}}' % (n, n) for n in range(6_000)]
    send(stack, topic, [(None, value) for value in keyed])
    with pytest.raises(
        ConfigError, match=r"at least 4,\d{3} fields.*at\.seen \([12],.*No new schema was kept"
    ) as refused:
        look()
    assert "'at struct<seen: map<string, string>>'" in str(refused.value)
    assert look(schema_hints="at struct<seen: map<string, string>>", max_fields=4) == {
        "game": "string",
        "at": "struct<seen:map<string,string>,x:bigint>",
    }


def test_hints_that_are_no_ddl_are_named(
    spark: SparkSession, stack: LocalStack, topic: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=r"decode\.schema_hints"):
        inferred(spark, settings(stack, topic, tmp_path, schema_hints="level quickly"))
