"""What no column of a JSON Schema takes: left out, broken, or kept as JSON text where there is a column for it."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from tests.functions.test_functions import frame_of, rows

from distributary import functions
from distributary.errors import ConfigError
from distributary.producer_sim.stack.local import LocalStack
from distributary.registry.confluent.options import RegistryOptions
from distributary.registry.confluent.registry import ConfluentRegistry
from distributary.registry.memory import MemoryRegistry

pytestmark = [pytest.mark.spark, pytest.mark.stack]

KEEP = {"rescuedDataColumn": "_r"}


def schema(**kinds: str) -> str:
    return json.dumps(
        {"type": "object", "properties": {name: {"type": kind} for name, kind in kinds.items()}}
    )


class Games:
    """A subject with a schema, and the record header that names it."""

    def __init__(self, registry: ConfluentRegistry | MemoryRegistry, url: str = "") -> None:
        self.registry, self.url, self.subject = registry, url, f"games-{uuid.uuid4().hex[:8]}-value"
        self.new = self.head(schema(a="integer", b="string"))

    def head(self, text: str) -> bytes:
        return b"\0" + self.registry.register(self.subject, text, "JSON").to_bytes(4, "big")

    def column(self, **options: str) -> Any:
        return functions.from_json(
            "value", subject=self.subject, schemaRegistryAddress=self.url, options=options
        )

    def decoded(self, frame: DataFrame, **more: Any) -> list[Any]:
        found = functions.decode(frame, registry=self.registry, subject=self.subject, **more)
        return [row.asDict() for row in found.orderBy("number").collect()]


@pytest.fixture(scope="module")
def games(stack: LocalStack) -> Iterator[Games]:
    with ConfluentRegistry(RegistryOptions(url=stack.registry_url)) as registry:
        yield Games(registry, stack.registry_url)


def test_from_json_keeps_what_no_column_takes(spark: SparkSession, games: Games) -> None:
    sent = [
        games.new + b'{"a":1,"b":"x"}',
        games.new + b'{"zz":1}',
        games.new + b'{"a":"x","b":"y"}',
    ]
    frame = frame_of(spark, *sent)
    assert rows(frame, games.column(**KEEP)) == [
        {"a": 1, "b": "x", "_r": None},
        {"a": None, "b": None, "_r": '{"zz":1}'},
        {"a": None, "b": "y", "_r": '{"a":"x"}'},
    ]
    shouted = frame.select(games.column(RESCUEDDATACOLUMN="_r").alias("e"))
    assert shouted.select("e.*").columns == ["a", "b", "_r"]


def test_without_a_column_for_it_a_misfit_breaks_its_record_and_an_unknown_field_is_left_out(
    spark: SparkSession, games: Games
) -> None:
    frame = frame_of(spark, games.new + b'{"a":1,"zz":1}', games.new + b'{"a":"x"}')
    assert rows(frame, games.column(mode="PERMISSIVE")) == [{"a": 1, "b": None}, None]
    with pytest.raises(PySparkException, match="to keep such values in, by the option rescuedDataColumn"):
        rows(frame, games.column())


def test_decode_keeps_what_no_column_takes(spark: SparkSession) -> None:
    games = Games(MemoryRegistry())
    old, new = games.new, games.head(schema(a="integer", c="string"))
    frame = frame_of(spark, new + b'{"zz":{"y":1}}', new + b'{"a":"x"}', old + b'{"b":"z"}')
    found = games.decoded(frame, options=KEEP, mode="PERMISSIVE")
    assert [row["_r"] for row in found] == ['{"zz":{"y":1}}', '{"a":"x"}', '{"b":"z"}']
    assert not any(row["_decode_error"] for row in found)
    both = games.decoded(frame, options=KEEP, version="all", format="jsonschema")
    assert [(row["b"], row["_r"]) for row in both][2] == ("z", None)
    without = games.decoded(frame, mode="PERMISSIVE")
    assert "by the option rescuedDataColumn" in without[1]["_decode_error"]


def test_the_message_recommends_no_option_where_there_is_none(spark: SparkSession) -> None:
    games = Games(MemoryRegistry())
    (row,) = games.decoded(frame_of(spark, games.new + b'{"a":"x"}'), mode="PERMISSIVE", format="auto")
    assert row["_decode_error"] == "misfit: field 'a' has a value that its column cannot hold"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({**KEEP, "distributary.engine": "spark"}, "distributary.engine asks for Spark's own function"),
        ({**KEEP, "allowComments": "true"}, "allowComments asks for Spark's own function"),
        ({**KEEP, "rescueDataColumn": "_r"}, "has no option 'rescueDataColumn'"),
        ({"rescuedDataColumn": "B"}, "which the schema has a field of already"),
        ({"rescuedDataColumn": True}, "rescuedDataColumn is True; it must be text"),
    ],
)
def test_what_cannot_be_rescued_is_refused(games: Games, options: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        games.column(**options)


def test_options_by_which_only_spark_reads_are_refused_by_decode(spark: SparkSession) -> None:
    games = Games(MemoryRegistry())
    frame = frame_of(spark, games.new + b"{}")
    with pytest.raises(ConfigError, match=r"decode: allowComments: only Spark's own from_json"):
        games.decoded(frame, options={"allowComments": "true"})
    registry = MemoryRegistry()
    registry.register("s", '"int"', "AVRO")
    with pytest.raises(ConfigError, match="no option 'rescuedDataColumn'"):
        functions.decode(frame, registry=registry, subject="s", options=KEEP)
