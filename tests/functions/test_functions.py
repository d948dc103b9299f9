"""`from_protobuf`, `from_avro` and `decode` with a real registry: every record with the schema that it names."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from google.protobuf.message_factory import GetMessageClass
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from tests.codecs.protobuf_samples import descriptor

from distributary import functions
from distributary.errors import ConfigError, RegistryUnavailable, SchemaNotFound
from distributary.producer_sim.stack.local import LocalStack
from distributary.registry.confluent.options import RegistryOptions
from distributary.registry.confluent.registry import ConfluentRegistry
from distributary.registry.memory import MemoryRegistry

pytestmark = [pytest.mark.spark, pytest.mark.stack, pytest.mark.usefixtures("compiled")]

HEAD = 'syntax = "proto3"; package games; import "google/protobuf/timestamp.proto"; '
V1 = (
    HEAD
    + "message Event { string game = 1; int32 score = 2; google.protobuf.Timestamp at = 3; } message Other { int32 n = 1; }"
)
V2 = HEAD + (
    "message Event { string game = 1; int32 score = 2; google.protobuf.Timestamp at = 3; repeated Tag tags = 4; "
    "map<string, uint64> sums = 5; } message Other { int32 n = 1; } message Tag { string name = 1; google.protobuf.Timestamp at = 2; }"
)
V3 = V2.replace("sums = 5;", "sums = 5; string level = 6;")


class Topic:
    """A subject of a registry and what its producers would send."""

    def __init__(self, registry: ConfluentRegistry | MemoryRegistry, subject: str) -> None:
        self.registry, self.subject = registry, subject

    def register(self, text: str) -> int:
        return self.registry.register(self.subject, text, "PROTOBUF")

    def record(
        self, schema_id: int, text: str, index: bytes = b"\0", name: str = "games.Event", **fields: Any
    ) -> bytes:
        message = GetMessageClass(descriptor(text, name))(**fields)
        return b"\0" + schema_id.to_bytes(4, "big") + index + bytes(message.SerializeToString())


@pytest.fixture(scope="module")
def registry(stack: LocalStack) -> Iterator[ConfluentRegistry]:
    options = RegistryOptions(url=stack.registry_url, latest_cache_seconds=0, unknown_id_wait_seconds=0.1)
    with ConfluentRegistry(options) as client:
        yield client


@pytest.fixture
def topic(registry: ConfluentRegistry) -> Topic:
    return Topic(registry, f"games-{uuid.uuid4().hex[:8]}-value")


def options(stack: LocalStack, topic: Topic, **more: str) -> dict[str, str]:
    names = {name.replace("__", "."): value for name, value in more.items()}
    return {
        "schema.registry.subject": topic.subject,
        "schema.registry.address": stack.registry_url,
        "distributary.engine": "python",
        **names,
    }


def frame_of(spark: SparkSession, *values: bytes | None) -> DataFrame:
    rows = [(number, None if value is None else bytearray(value)) for number, value in enumerate(values)]
    # One partition: each would wait for a Python worker of its own.
    return spark.createDataFrame(rows, "number int, value binary").coalesce(1)


def rows(frame: DataFrame, column: Column) -> list[Any]:
    found = frame.select("number", column.alias("event")).orderBy("number").toArrow()
    return list(found["event"].to_pylist())


def test_each_record_is_read_with_the_schema_it_names(
    spark: SparkSession, stack: LocalStack, topic: Topic
) -> None:
    first, second = topic.register(V1), topic.register(V2)
    frame = frame_of(
        spark,
        topic.record(first, V1, game="a", score=1, at={"seconds": 253_402_300_799}),
        None,
        topic.record(
            second, V2, game="b", tags=[{"name": "x", "at": {"seconds": -5}}], sums={"k": 2**64 - 1}
        ),
    )
    wide = options(stack, topic, emit__default__values="true", upcast__unsigned__ints="true")
    old, nothing, new = rows(frame, functions.from_protobuf("value", options=wide))
    assert (old["game"], old["score"], old["at"].year) == ("a", 1, 9999)
    assert (old["tags"], old["sums"]) == (None, None)
    assert nothing is None
    assert (new["game"], new["score"], new["at"]) == ("b", 0, None)
    assert [tag["at"].second for tag in new["tags"]] == [55]
    assert [(key, int(value)) for key, value in new["sums"]] == [("k", 2**64 - 1)]


def test_a_newer_schema_ends_the_query_or_is_left_out(
    spark: SparkSession, stack: LocalStack, topic: Topic
) -> None:
    first = topic.register(V1)
    restarting = functions.from_protobuf(F.col("value"), options=options(stack, topic))
    staying = functions.from_protobuf(
        F.col("value"), options=options(stack, topic, schema__registry__schema__evolution__mode="none")
    )
    second = topic.register(V2)
    frame = frame_of(
        spark, topic.record(first, V1, game="a"), topic.record(second, V2, game="b", sums={"k": 1})
    )
    with pytest.raises(
        PySparkException, match=r"UnknownFieldException.*newer than those that this query began with"
    ):
        rows(frame, restarting)
    assert [row["game"] for row in rows(frame, staying)] == ["a", "b"]
    assert all("sums" not in row for row in rows(frame, staying))
    again = functions.from_protobuf(F.col("value"), options=options(stack, topic))
    assert rows(frame, again)[1]["sums"] == [("k", 1)]


BROKEN = {
    b"\0\0\0\0\1": "truncated_header",
    b"": "no_header",
    b"{}": "bad_magic",
    b"\0\x7f\xff\xff\xff\0": "unknown_schema",
    b"\0ID!!\0\x0f": "malformed",
    b"\0ID!!\2\2\x08\1": "other_record",
}


def test_a_broken_record_fails_the_query_or_is_null(
    spark: SparkSession, stack: LocalStack, registry: ConfluentRegistry, topic: Topic
) -> None:
    schema_id = topic.register(V1)
    broken = [value.replace(b"ID!!", schema_id.to_bytes(4, "big")) for value in BROKEN]
    frame = frame_of(spark, topic.record(schema_id, V1, game="a"), *broken)
    permissive = functions.from_protobuf("value", options=options(stack, topic, mode="PERMISSIVE"))
    assert [row and row["game"] for row in rows(frame, permissive)] == ["a", *[None] * len(BROKEN)]
    decoded = functions.decode(frame, registry=registry, subject=topic.subject, mode="PERMISSIVE")
    errors = [row["_decode_error"] for row in decoded.orderBy("number").collect()]
    assert [error and error.split(":")[0] for error in errors] == [None, *BROKEN.values()]
    # Without the id that nobody knows: each of four attempts would wait for it.
    known = frame.where("number < 4")
    with pytest.raises(PySparkException, match=r"BadRecord.*\["):
        rows(known, functions.from_protobuf("value", options=options(stack, topic)))


def test_a_message_is_chosen_by_its_name(spark: SparkSession, stack: LocalStack, topic: Topic) -> None:
    schema_id = topic.register(V1)
    frame = frame_of(spark, topic.record(schema_id, V1, index=b"\2\2", name="games.Other", n=7))
    for name in ("Other", "games.Other"):
        chosen = functions.from_protobuf(
            "value", options=options(stack, topic, schema__registry__protobuf__name=name)
        )
        assert rows(frame, chosen) == [{"n": 7}]
    with pytest.raises(ConfigError, match=r"has no message 'Nope'; it has: games\.Event, games\.Other"):
        functions.from_protobuf(
            "value", options=options(stack, topic, schema__registry__protobuf__name="Nope")
        )


def test_an_outage_is_never_turned_into_nulls(spark: SparkSession, stack: LocalStack, topic: Topic) -> None:
    registry = MemoryRegistry()
    registry.register(topic.subject, V1, "PROTOBUF")
    registry.down = True
    with pytest.raises(RegistryUnavailable):
        functions.decode(frame_of(spark), registry=registry, subject=topic.subject, mode="PERMISSIVE")
    with pytest.raises(SchemaNotFound):
        functions.from_protobuf("value", options=options(stack, topic, mode="PERMISSIVE"))


# Without a column for them the same ones stand beside each other.
@pytest.mark.parametrize("into", [pytest.param(None, marks=pytest.mark.heavy), "event"])
def test_decode_gives_columns_and_says_what_was_wrong(
    spark: SparkSession, registry: ConfluentRegistry, topic: Topic, into: str | None
) -> None:
    first, second = topic.register(V1), topic.register(V2)
    frame = frame_of(
        spark,
        topic.record(first, V1, game="a", score=1),
        b"?",
        None,
        topic.record(second, V2, game="b", tags=[{"name": "x"}]),
    )
    decoded = functions.decode(frame, registry=registry, subject=topic.subject, mode="PERMISSIVE", into=into)
    names = ["event"] if into else ["game", "score", "at", "tags", "sums"]
    assert decoded.columns == ["number", *names, "_decode_error", "_corrupt_record"]
    found = decoded.orderBy("number").toArrow().to_pylist()
    games = [(row["event"] or {}).get("game") if into else row["game"] for row in found]
    assert games == ["a", None, None, "b"]
    assert [row["_corrupt_record"] for row in found] == [None, b"?", None, None]
    assert [row["_decode_error"] and row["_decode_error"].split(":")[0] for row in found] == [
        None,
        "bad_magic",
        None,
        None,
    ]
    with pytest.raises(PySparkException, match="BadRecord"):
        functions.decode(frame, registry=registry, subject=topic.subject).collect()


def test_all_versions_together_keep_what_the_latest_dropped(spark: SparkSession) -> None:
    # One that takes any change: real ones refuse to drop fields, if they are told to.
    registry = MemoryRegistry()
    topic = Topic(registry, "games-value")
    second, first = topic.register(V2), topic.register(V1)
    frame = frame_of(
        spark, topic.record(first, V1, game="a"), topic.record(second, V2, game="b", sums={"k": 1})
    )
    latest = functions.decode(frame, registry=registry, subject=topic.subject)
    assert latest.columns == ["number", "game", "score", "at"]
    union = functions.decode(frame, registry=registry, subject=topic.subject, version="all")
    found = union.orderBy("number").toArrow().to_pylist()
    assert [row["sums"] for row in found] == [None, [("k", 1)]]


def test_names_that_collide_are_refused_with_a_way_out(
    spark: SparkSession, registry: ConfluentRegistry, topic: Topic
) -> None:
    topic.register(V1)
    frame = frame_of(spark).withColumn("Game", F.lit(1))
    with pytest.raises(ConfigError, match=r"two columns would be called 'game'.*into="):
        functions.decode(frame, registry=registry, subject=topic.subject)
    assert functions.decode(frame, registry=registry, subject=topic.subject, into="event").columns == [
        "number",
        "Game",
        "event",
    ]


RICH = HEAD + (
    'import "google/protobuf/duration.proto"; import "google/protobuf/wrappers.proto"; import "google/protobuf/any.proto"; '
    "message Event { int32 n = 1; uint32 u = 2; State state = 3; google.protobuf.Duration took = 4; Part part = 5; "
    "repeated google.protobuf.Duration pauses = 6; google.protobuf.StringValue title = 7; Nothing nothing = 8; "
    "google.protobuf.Any any = 9; Node node = 10; } enum State { NONE = 0; DONE = 1; } message Nothing {} "
    "message Part { google.protobuf.Duration took = 1; google.protobuf.Timestamp at = 2; } "
    "message Node { int32 v = 1; Node next = 2; }"
)
RICH_FIELDS: dict[str, Any] = {
    "u": 2**32 - 1,
    "state": 1,
    "took": {"seconds": 315_576_000_000},
    "part": {"took": {"seconds": -1}, "at": {"seconds": 1}},
    "pauses": [{"nanos": 5_000}],
    "title": {"value": ""},
    "nothing": {},
    "any": {"type_url": "x/games.Part", "value": b""},
    "node": {"v": 1, "next": {"v": 2, "next": {"v": 3}}},
}


def test_without_options_columns_and_values_are_sparks(
    spark: SparkSession, stack: LocalStack, topic: Topic
) -> None:
    number = topic.register(RICH)
    frame = frame_of(spark, topic.record(number, RICH, **RICH_FIELDS))
    event = functions.from_protobuf("value", options=options(stack, topic))
    assert frame.select(event.alias("e")).schema["e"].dataType.simpleString() == (
        "struct<n:int,u:int,state:string,took:interval day to second,"
        "part:struct<took:interval day to second,at:timestamp>,pauses:array<interval day to second>,"
        "title:struct<value:string>,any:struct<type_url:string,value:binary>,node:string>"
    )
    (row,) = rows(frame, event)
    assert (row["n"], row["u"], row["state"], row["title"]) == (None, -1, "DONE", {"value": None})
    assert row["took"].total_seconds() == 315_576_000_000
    assert (row["part"]["took"].total_seconds(), row["part"]["at"].second) == (-1, 1)
    assert [pause.microseconds for pause in row["pauses"]] == [5]
    assert row["any"] == {"type_url": "x/games.Part", "value": None}
    assert row["node"] == '{"v":1,"next":{"v":2,"next":{"v":3}}}'


def test_options_of_spark_change_columns_and_values_and_decode_takes_them_too(
    spark: SparkSession, stack: LocalStack, topic: Topic
) -> None:
    number = topic.register(RICH)
    frame = frame_of(spark, topic.record(number, RICH, **RICH_FIELDS))
    given = {
        "emit.default.values": "true",
        "enums.as.ints": "true",
        "upcast.unsigned.ints": "true",
        "unwrap.primitive.wrapper.types": "true",
        "retain.empty.message.types": "true",
        "convert.any.fields.to.json": "true",
        "recursive.fields.max.depth": "2",
    }
    event = functions.from_protobuf("value", options={**options(stack, topic), **given})
    (row,) = rows(frame, event)
    assert (row["n"], row["u"], row["state"], row["title"]) == (0, 2**32 - 1, 1, "")
    assert row["nothing"] == {"__dummy_field_in_empty_struct": None}
    assert (row["any"], row["node"]) == ('{"@type":"x/games.Part"}', {"v": 1, "next": {"v": 2}})
    whole = functions.decode(
        frame, registry=stack.registry_url, subject=topic.subject, options=given, into="event"
    )
    assert rows(whole, F.col("event")) == [row]
    assert whole.schema["event"].dataType == frame.select(event.alias("event")).schema["event"].dataType


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"schema__registry__schema__evolution__mode": "sometimes"}, "must be restart or none"),
        ({"mode": "LENIENT"}, "must be FAILFAST or PERMISSIVE"),
        ({"enums__as__ints": "yes"}, "must be true or false"),
        ({"recursive__fields__max__depth": "11"}, "must be a number up to 10"),
        ({"nonsense": "1"}, "has no option 'nonsense'"),
        ({"confluent__schema__registry__nonsense": "1"}, "nonsense is not an option that is known here"),
    ],
)
def test_options_that_cannot_be_kept_are_refused_by_name(
    stack: LocalStack, topic: Topic, wrong: dict[str, str], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        functions.from_protobuf("value", options=options(stack, topic, **wrong))


def test_without_a_registry_the_call_is_pysparks_own(spark: SparkSession) -> None:
    frame = spark.createDataFrame([('{"n": 1}',)], "text string")
    assert frame.select(functions.from_json("text", "n int").alias("j")).first() == ((1,),)
    schema = '{"type": "record", "name": "R", "fields": [{"name": "n", "type": "int"}]}'
    avro = spark.createDataFrame([(bytearray(b"\x0e"),)], "value binary")
    assert avro.select(functions.from_avro("value", schema).alias("r")).first() == ((7,),)
    with pytest.raises(ConfigError, match="give messageName"):
        functions.from_protobuf("value")


def test_an_interval_does_not_depend_on_the_sessions_time_zone(
    spark: SparkSession, stack: LocalStack, topic: Topic
) -> None:
    number = topic.register(RICH)
    frame = frame_of(spark, topic.record(number, RICH, took={"seconds": 180 * 86_400, "nanos": 1_000}))
    event = functions.from_protobuf("value", options=options(stack, topic))
    before = str(spark.conf.get("spark.sql.session.timeZone"))
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        (row,) = rows(frame, event)
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    assert (row["took"].days, row["took"].seconds, row["took"].microseconds) == (180, 0, 1)


def test_names_with_dots_and_records_without_columns_go_through_decode(spark: SparkSession) -> None:
    topic = Topic(MemoryRegistry(), "games-value")
    text = 'syntax = "proto3"; package games; message Event {}'
    number = topic.register(text)
    frame = frame_of(spark, *[topic.record(number, text)] * 3).withColumnRenamed("number", "a.b")
    whole = functions.decode(frame, registry=topic.registry, subject=topic.subject)
    assert sorted(row["a.b"] for row in whole.collect()) == [0, 1, 2]
    only = functions.decode(frame.select("value"), registry=topic.registry, subject=topic.subject)
    assert (only.columns, only.count()) == ([], 3)
