"""`from_avro` reads each record as the subject's latest version has it, or the schema that is given, by either engine."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro
from tests.codecs.avro_samples import by_fastavro
from tests.functions.test_functions import frame_of, rows

from distributary import functions
from distributary.errors import BadSchema, ConfigError, DecoderUnavailable
from distributary.producer_sim.stack.local import LocalStack
from distributary.registry.confluent.options import RegistryOptions
from distributary.registry.confluent.registry import ConfluentRegistry
from distributary.registry.memory import MemoryRegistry

pytestmark = [pytest.mark.spark, pytest.mark.stack]


def field(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


def event(*fields: dict[str, Any], name: str = "Event") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


LEVELS = {"type": "enum", "name": "Level", "symbols": ["LOW", "HIGH"]}
TAG = event(field("name", "string"), name="Tag")
V1 = event(field("game", "string"), field("score", "int"), field("tags", {"type": "array", "items": TAG}))
V2 = event(
    field("title", "string", aliases=["game"]),
    field("score", "double"),
    field(
        "tags", {"type": "array", "items": event(*TAG["fields"], field("n", "int", default=7), name="Tag")}
    ),
    field("level", LEVELS, default="LOW"),
)
OLD = {"game": "a", "score": 1, "tags": [{"name": "x"}]}
NEW = {"title": "b", "score": 0.5, "tags": [{"name": "y", "n": 1}], "level": "HIGH"}


class Subject:
    def __init__(self, registry: ConfluentRegistry | MemoryRegistry, name: str, url: str = "") -> None:
        self.registry, self.name, self.url = registry, name, url

    def record(self, spec: Any, value: Any, subject: str | None = None) -> bytes:
        schema_id = self.registry.register(subject or self.name, json.dumps(spec), "AVRO")
        return b"\0" + schema_id.to_bytes(4, "big") + by_fastavro(spec, value)

    def column(self, **options: str) -> Any:
        names = {name.replace("__", "."): value for name, value in options.items()}
        return functions.from_avro("value", subject=self.name, schemaRegistryAddress=self.url, options=names)


@pytest.fixture
def subject(stack: LocalStack) -> Iterator[Subject]:
    options = RegistryOptions(url=stack.registry_url, latest_cache_seconds=0, unknown_id_wait_seconds=0.1)
    with ConfluentRegistry(options) as registry:
        # A name of its own; what is registered by it need not be compatible.
        yield Subject(registry, f"games-{uuid.uuid4().hex[:8]}-value", stack.registry_url)


# Lighter: all others here read one version as another, too.
@pytest.mark.heavy
@pytest.mark.parametrize("engine", ["python", "spark"])
def test_records_of_all_versions_are_read_as_the_latest(
    spark: SparkSession, subject: Subject, engine: str
) -> None:
    frame = frame_of(spark, subject.record(V1, OLD), None, subject.record(V2, NEW))
    old = {"title": "a", "score": 1.0, "tags": [{"name": "x", "n": 7}], "level": "LOW"}
    assert rows(frame, subject.column(distributary__engine=engine)) == [old, None, NEW]
    if engine == "python":
        decoded = functions.decode(frame, registry=subject.url, subject=subject.name, into="event")
        assert decoded.orderBy("number").toArrow()["event"].to_pylist() == [old, None, NEW]


def test_records_are_read_as_the_schema_that_is_given(spark: SparkSession, subject: Subject) -> None:
    frame = frame_of(spark, subject.record(V1, OLD), None, subject.record(V2, NEW))
    score = json.dumps(event(field("score", "double")))
    # Spark's own names of options do not mind capitals.
    assert rows(frame, subject.column(AVROSCHEMA=score)) == [{"score": 1.0}, None, {"score": 0.5}]


def test_where_no_version_is_the_schema_asked_for_sparks_own_function_is_refused(
    spark: SparkSession, subject: Subject
) -> None:
    subject.record(V2, NEW)
    score = json.dumps(event(field("score", "double")))
    with pytest.raises(DecoderUnavailable, match="use the native decoder"):
        subject.column(avroSchema=score, distributary__engine="spark")


def test_what_the_readers_schema_cannot_be_is_broken(spark: SparkSession, subject: Subject) -> None:
    frame = frame_of(spark, subject.record(V2, NEW), subject.record(V2, {**NEW, "level": "LOW"}))
    narrow = json.dumps(event(field("level", {**LEVELS, "symbols": ["LOW"]})))
    lenient = subject.column(avroSchema=narrow, mode="PERMISSIVE")
    assert rows(frame, lenient) == [None, {"level": "LOW"}]
    with pytest.raises(PySparkException, match="enum's symbol"):
        rows(frame, subject.column(avroSchema=narrow))


def test_without_an_engine_each_record_ends_where_its_payload_does(
    spark: SparkSession, subject: Subject
) -> None:
    whole = subject.record(V2, NEW)
    frame = frame_of(spark, whole, whole + b"junk")
    assert rows(frame, subject.column(mode="PERMISSIVE")) == [NEW, None]
    with pytest.raises(PySparkException, match="trailing_bytes"):
        rows(frame, subject.column())
    # Spark's own function takes them, for those who ask for it.
    assert rows(frame, subject.column(distributary__engine="spark")) == [NEW, NEW]


def test_a_record_of_another_subject_is_not_made_one_of_defaults(
    spark: SparkSession, subject: Subject
) -> None:
    subject.record(V2, NEW)
    stranger = subject.record(event(name="Other"), {}, subject=f"{subject.name}-other")
    frame = frame_of(spark, stranger)
    wanted = json.dumps(event(field("level", LEVELS, default="LOW")))
    found = functions.decode(
        frame, registry=subject.url, subject=subject.name, mode="PERMISSIVE", reader_schema=wanted
    )
    error = found.collect()[0]["_decode_error"]
    assert error.startswith("other_record: the record is a Other")


def test_versions_that_cannot_be_read_as_the_latest_are_refused_with_the_place(spark: SparkSession) -> None:
    subject = Subject(MemoryRegistry(), "games-value")
    old = subject.record(event(field("n", "string")), {"n": "a"})
    new = subject.record(event(field("n", "long")), {"n": 1})
    found = functions.decode(
        frame_of(spark, old, new), registry=subject.registry, subject="games-value", mode="PERMISSIVE"
    )
    first, second = found.orderBy("number").collect()
    assert "at Event.n: string is no long" in first["_decode_error"]
    assert (second["n"], second["_decode_error"]) == (1, None)


def test_unions_of_numbers_go_the_way_that_can_tell_them(spark: SparkSession, subject: Subject) -> None:
    before = event(field("n", ["int", "long"]))
    after = event(field("n", ["long", "string"], default=0))
    frame = frame_of(spark, subject.record(before, {"n": 2**40}), subject.record(after, {"n": "x"}))
    wanted = [{"n": {"member0": 2**40, "member1": None}}, {"n": {"member0": None, "member1": "x"}}]
    assert rows(frame, subject.column(distributary__engine="spark")) == wanted


CHAIN = event(field("v", "int"), field("next", ["null", "Event"]))


def test_what_contains_itself_is_text_or_columns_so_deep(spark: SparkSession, subject: Subject) -> None:
    value = {"v": 1, "next": {"v": 2, "next": {"v": 3, "next": None}}}
    frame = frame_of(spark, subject.record(CHAIN, value))
    text = '{"v":2,"next":{"v":3,"next":null}}'
    assert rows(frame, subject.column()) == [{"v": 1, "next": text}]
    assert rows(frame, subject.column(recursiveFieldMaxDepth="1")) == [{"v": 1}]
    assert rows(frame, subject.column(recursiveFieldMaxDepth="3")) == [
        {"v": 1, "next": {"v": 2, "next": {"v": 3}}}
    ]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"datetimeRebaseMode": "LEGACY"}, "must be corrected"),
        ({"enableStableIdentifiersForUnionType": "yes"}, "must be true or false"),
        ({"nonsense": "1"}, "no option 'nonsense'"),
        ({"avroSchemaUrl": "file:/x"}, "give the schema's text itself as avroSchema"),
        ({"recursiveFieldMaxDepth": "16"}, "must be a number up to 15"),
        ({"recursiveFieldMaxDepth": "deep"}, "must be a number up to 15"),
        ({"avroSchemaEvolutionMode": "addNewColumns"}, "must be restart or none"),
        ({"avroSchema": '"string"'}, "jsonFormatSchema and the option avroSchema differ"),
    ],
)
def test_options_that_cannot_be_kept_are_refused_by_name(options: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        functions.from_avro(
            "value", '"int"', options, subject="s-value", schemaRegistryAddress="http://127.0.0.1:9"
        )


MEMBERS = event(
    field(
        "n",
        [
            "int",
            "string",
            {"type": "record", "name": "Inner", "namespace": "a.b", "fields": [field("x", "int")]},
        ],
    ),
    field(
        "all",
        {"type": "array", "items": ["null", "boolean", {"type": "enum", "name": "Size", "symbols": ["S"]}]},
    ),
)


# Each engine once and with a change once; the other pairs are the same code.
@pytest.mark.parametrize(
    ("engine", "changed"),
    [
        ("python", True),
        ("spark", False),
        pytest.param("python", False, marks=pytest.mark.heavy),
        pytest.param("spark", True, marks=pytest.mark.heavy),
    ],
)
def test_members_of_unions_are_called_by_their_types_on_demand(
    spark: SparkSession, subject: Subject, engine: str, changed: bool
) -> None:
    values = [{"n": "x", "all": [True, None, "S"]}, {"n": 5, "all": []}, {"n": {"x": 7}, "all": [False]}]
    sent = [subject.record(MEMBERS, value) for value in values]
    if changed:
        subject.record({**MEMBERS, "fields": [*reversed(MEMBERS["fields"])]}, values[0])
    stable = {"enableStableIdentifiersForUnionType": "true", "stableIdentifierPrefixForUnionType": "is_"}
    found = rows(frame_of(spark, *sent), subject.column(**stable, distributary__engine=engine))
    bodies = spark.createDataFrame(
        [(n, one and one[5:]) for n, one in enumerate(sent)], "number int, body binary"
    )
    wanted = bodies.coalesce(1).select(
        "number", from_avro("body", json.dumps(MEMBERS), stable).alias("event")
    )
    assert found == [row.event.asDict(recursive=True) for row in wanted.orderBy("number").collect()]
    assert found[2]["n"] == {"is_int": None, "is_string": None, "is_Inner": {"x": 7}}


def test_members_that_would_have_one_name_are_refused(subject: Subject) -> None:
    alike: list[dict[str, Any]] = [
        {"type": "record", "name": name, "fields": []} for name in ("a.Inner", "b.INNER")
    ]
    subject.record(event(field("n", ["null", "int", *alike])), {"n": 1})
    with pytest.raises(BadSchema, match="leave enableStableIdentifiersForUnionType out"):
        subject.column(enableStableIdentifiersForUnionType="true")


def test_a_subject_of_several_formats_is_decoded_as_each_record_says(spark: SparkSession) -> None:
    registry = MemoryRegistry()
    subject = Subject(registry, "games-value")
    first = subject.record(event(field("n", "int")), {"n": 1})
    text = (
        'syntax = "proto3"; message Event { int64 n = 1; int32 skipped = 2; } message Other { string s = 1; }'
    )
    number = registry.register("games-value", text, "PROTOBUF")
    head = b"\0" + number.to_bytes(4, "big")
    second, other = head + b"\0" + b"\x08\x05\x10\x06", head + b"\x02\x02" + b"\x0a\x01s"
    last = subject.record(
        event(field("n", "long"), field("level", "string", default="LOW")), {"n": 2, "level": "UP"}
    )
    frame = frame_of(spark, first, second, last, other, b'{"n": 9}')
    decoded = functions.decode(
        frame, registry=registry, subject="games-value", format="auto", mode="PERMISSIVE", into="event"
    ).orderBy("number")
    found = decoded.collect()
    assert [row.event and row.event.asDict() for row in found] == [
        {"n": 1, "level": "LOW"},
        {"n": 5, "level": None},
        {"n": 2, "level": "UP"},
        None,
        None,
    ]
    assert found[3]["_decode_error"].startswith("other_record: the record is a Other")
    assert found[4]["_decode_error"] == "no_schema: the record names no schema"


@pytest.mark.parametrize("engine", ["python", "spark"])
@pytest.mark.parametrize(
    ("kind", "values"),
    [("string", ["a", ""]), (["null", "long"], [None, 7]), ({"type": "array", "items": "int"}, [[1], []])],
)
def test_what_is_no_record_is_the_value_itself_as_in_spark(
    spark: SparkSession, subject: Subject, engine: str, kind: Any, values: list[Any]
) -> None:
    frame = frame_of(spark, *(subject.record(kind, value) for value in values))
    column = subject.column(distributary__engine=engine)
    genuine = from_avro(F.lit(None).cast("binary"), json.dumps(kind))
    selected = frame.select(column.alias("ours"), genuine.alias("genuine"))
    assert (
        selected.schema["ours"].dataType.simpleString() == selected.schema["genuine"].dataType.simpleString()
    )
    assert rows(frame, column) == values
