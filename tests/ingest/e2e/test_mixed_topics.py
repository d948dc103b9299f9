"""Several formats and event types in one topic, each record decoded by its own schema and sent to its own table."""

from __future__ import annotations

import io
import json
import re
import struct
from typing import Any

import fastavro
import pytest
from tests.ingest.e2e.handmade import Schema as ProtobufSchema
from tests.ingest.e2e.handmade import assert_each_record_in_one_place, quarantined, reasons
from tests.ingest.e2e.pipeline_kit import PipelineKit
from tests.ingest.e2e.registry_proxy import registry_proxy

from distributary.errors import ConfigError, PolicyStopped
from distributary.ingest.inference.topic import infer
from distributary.ingest.inputs.from_kafka import KafkaRecords
from distributary.ingest.inputs.opening import open_source
from distributary.ingest.progress import Silent
from distributary.registry.base import SchemaType
from distributary.registry.confluent.registry import ConfluentRegistry
from distributary.registry.subjects import Strategy, subject_name

pytestmark = [pytest.mark.spark, pytest.mark.stack]

AVRO = {
    "type": "record",
    "name": "Move",
    "namespace": "games.v1",
    "fields": [{"name": "game", "type": "string"}, {"name": "ply", "type": "int"}],
}
PROTOBUF = """
syntax = "proto3"; package games.v1;
message Joined { string game = 1; string player = 2; }
message Left { string game = 1; int64 seconds = 2; }
"""
CHAT = {
    "title": "games.v1.Chat",
    "type": "object",
    "properties": {"game": {"type": "string"}, "said": {"type": "string"}},
}


def register(
    kit: PipelineKit, strategy: Strategy, record: str, text: str, schema_type: SchemaType
) -> tuple[str, int]:
    """The subject by one of the strategies, and the id of the schema registered there."""
    subject = subject_name(strategy, kit.topic, record)
    with ConfluentRegistry(kit.registry_options) as registry:
        return subject, registry.register(subject, text, schema_type)


def confluent(schema_id: int, body: bytes) -> bytes:
    return struct.pack(">bI", 0, schema_id) + body


def avro(schema_id: int, **fields: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(AVRO), fields)
    return confluent(schema_id, out.getvalue())


def raw(**fields: Any) -> bytes:
    return json.dumps(fields).encode()


class Types:
    """The event types of these tests, each registered by another strategy, and a record of each for a game."""

    def __init__(self, kit: PipelineKit) -> None:
        move, self.move = register(kit, "RecordName", "games.v1.Move", json.dumps(AVRO), "AVRO")
        seen, proto = register(kit, "TopicRecordName", "games.v1.Joined", PROTOBUF, "PROTOBUF")
        chat, self.chat = register(kit, "TopicName", "games.v1.Chat", json.dumps(CHAT), "JSON")
        self.protobuf = ProtobufSchema(proto, PROTOBUF)
        self.subjects = [move, seen, chat]

    def of(self, game: str, number: int) -> list[bytes]:
        return [
            avro(self.move, game=game, ply=number),
            self.protobuf.value((0,), game=game, player="ann"),
            raw(game=game, level=number),
            self.protobuf.value((1,), game=game, seconds=str(number)),
            confluent(self.chat, raw(game=game, said="hi")),
        ]


def mixed(kit: PipelineKit, types: Types, **settings: Any) -> None:
    kit.configured(decode={"format": "auto"}, registry={"subjects": types.subjects})
    kit.configured(route={"field": None, "by": "field", "table": "{entity}"})
    kit.configured(**settings)


def shown(kit: PipelineKit, table: str) -> list[dict[str, Any]]:
    """The rows in Kafka's order, without the columns of Kafka's side and without nulls."""
    rows = sorted(kit.rows(table).to_pylist(), key=lambda row: row["kafka_offset"])
    return [
        {name: value for name, value in row.items() if not name.startswith("kafka") and value is not None}
        for row in rows
    ]


# `inline` for topics of several formats is in `make test` too: test_routes.py.
@pytest.mark.parametrize("evolution", ["restart", pytest.param("inline", marks=pytest.mark.heavy)])
def test_four_formats_in_one_topic_meet_in_their_entities_tables(kit: PipelineKit, evolution: str) -> None:
    types = Types(kit)
    mixed(kit, types, decode={"evolution": evolution}, route={"field": "game"})
    kit.send(types.of("go", 1)[:2])
    kit.run()
    assert not list(kit.schemas.names())  # nothing is inferred before there is something
    kit.send([*types.of("go", 2)[2:], *types.of("chess", 3), b"\x7f", b"[1]", b"{"])
    kit.run()
    kit.send([raw(game="go", level="high"), raw(game="go", level=4, at={"x": 1.5})])
    outcome = kit.run()
    assert outcome.summary.evolutions == (1 if evolution == "restart" else 0)
    joined, left = types.protobuf.id, types.protobuf.id
    assert shown(kit, "go") == [
        {"schema_id": types.move, "game": "go", "ply": 1},
        {"schema_id": joined, "game": "go", "player": "ann"},
        {"schema_id": -2, "game": "go", "level": 2},
        {"schema_id": left, "game": "go", "seconds": 2},
        {"schema_id": types.chat, "game": "go", "said": "hi"},
        {"schema_id": -3, "game": "go", "_rescued_data": '{"level":"high"}'},
        {"schema_id": -3, "game": "go", "level": 4, "at": {"x": 1.5}},
    ]
    assert len(shown(kit, "chess")) == 5
    assert "at" not in kit.rows("chess").schema.names
    assert reasons(kit)["bad_magic"] == 1
    assert sum(reasons(kit).values()) == 3
    assert_each_record_in_one_place(kit)


# Lighter: test_formats_beside_each_other_come_to_the_same (tests/ingest/batch/test_spark_decode.py).
@pytest.mark.heavy
def test_spark_decodes_raw_records_of_which_nothing_was_inferred_before(kit: PipelineKit) -> None:
    kit.configured(decode={"format": "auto", "engine": "spark", "evolution": "restart"})
    kit.configured(route={"field": "game", "table": "{entity}"}, registry={"subjects": []})
    kit.send([b"{}", raw(game="go", level=1)])
    kit.run()
    kit.send([raw(game="chess", mood="sad")])
    assert kit.run().summary.evolutions == 1
    assert shown(kit, "go") == [{"schema_id": -2, "game": "go", "level": 1}]
    assert shown(kit, "chess") == [{"schema_id": -3, "game": "chess", "mood": "sad"}]
    assert reasons(kit) == {"no_entity": 1}
    assert_each_record_in_one_place(kit)


# Lighter: test_four_formats_in_one_topic_meet_in_their_entities_tables infers beside registered records.
@pytest.mark.heavy
def test_inferring_leaves_registered_records_out(kit: PipelineKit) -> None:
    types = Types(kit)
    mixed(kit, types, route={"field": "game"})
    kit.send([*types.of("go", 1)[:1], raw(game="go", level=1)], key=b"one")
    kit.send([types.of("go", 2)[1], types.of("go", 2)[4]], key=b"one")
    kit.send([raw(game="go", mood="sad")], key=b"two")
    kit.send(
        [b'{"hidden":1}'], key=b"three", headers={"__value_schema_id": struct.pack(">bI", 0, types.chat)}
    )
    with open_source(kit.settings, kit.spark) as kafka:
        topics = KafkaRecords.of(kit.spark, kit.settings.name, kit.settings.source, kit.settings.route)
        found = json.loads(infer(topics, kit.settings.decode, kafka).text)
    assert [field["name"] for field in found["fields"]] == ["game", "level", "mood"]


@pytest.mark.parametrize(
    ("route", "tables"),
    [
        # Types of several formats each have their table in test_routes.py.
        pytest.param(
            {"by": "record"},
            {"games.v1.Move": 1, "games.v1.Joined": 1, "games.v1.Left": 1, "games.v1.Chat": 1, "json": 1},
            marks=pytest.mark.heavy,
        ),
        # What Kafka says of a record is the same whatever its format: each of these is in test_routes.py.
        pytest.param({"by": "topic"}, {"topic": 5}, marks=pytest.mark.heavy),
        pytest.param({"by": "key"}, {"north": 3, "south": 2}, marks=pytest.mark.heavy),
        pytest.param({"by": "header", "header": "region"}, {"eu": 3, "us": 2}, marks=pytest.mark.heavy),
        (
            {"by": "expression", "expression": "concat(upper(game), '-', coalesce(player, said, 'none'))"},
            {"GO-ann": 1, "GO-hi": 1, "GO-none": 3},
        ),
    ],
)  # fmt: skip
def test_mixed_records_are_routed_by_what_is_said_of_them(
    kit: PipelineKit, route: dict[str, Any], tables: dict[str, int]
) -> None:
    types = Types(kit)
    mixed(kit, types, route=route)
    kit.send(types.of("go", 1)[:3], key=b"north", headers={"region": b"eu"})
    kit.send(types.of("go", 1)[3:], key=b"south", headers={"region": b"us"})
    kit.run()
    assert entities(kit) == {kit.topic if name == "topic" else name: count for name, count in tables.items()}
    assert_each_record_in_one_place(kit)


def entities(kit: PipelineKit) -> dict[str, int]:
    """How many rows each entity's table has."""
    last = kit.manifests.last()
    assert last is not None
    return {entity: kit.rows(folder).num_rows for entity, folder in last.entities.items()}


@pytest.mark.checkpoint_folder
def test_an_expression_that_only_spark_evaluates_is_refused_before_anything_is_read(kit: PipelineKit) -> None:
    kit.configured(route={"field": None, "by": "expression", "expression": "soundex(game)"})
    with pytest.raises(ConfigError, match=r"function soundex.*decode\.engine: spark"):
        kit.run()
    assert not kit.checkpoint_folder.exists()


def test_records_whose_types_the_expression_does_not_go_with_are_their_policy_s(
    kit: PipelineKit, caplog: pytest.LogCaptureFixture
) -> None:
    types = Types(kit)
    mixed(kit, types, route={"by": "expression", "expression": "lower(ply)"}, policies={"no_entity": "fail"})
    kit.send(types.of("go", 1)[:1])
    said = r"records of games\.v1\.Move.*lower is given a whole number"
    with pytest.raises(PolicyStopped, match=rf"policies\.no_entity is `fail`.*{said}"):
        kit.run()
    assert not kit.versions()
    kit.configured(policies={"no_entity": "quarantine"})
    kit.run()
    (row,) = quarantined(kit)
    assert row["reason"] == "no_entity"
    assert "lower is given a whole number" in row["detail"]
    assert len([text for text in caplog.messages if re.search(said, text)]) == 1


# What reads a key does not know which engine decodes the values (ingest/worker/keys.py); those of Spark: above.
@pytest.mark.parametrize("engine", ["arrow", pytest.param("spark", marks=pytest.mark.heavy)])
def test_keys_that_carry_a_schema_are_decoded_and_route_beside_those_that_do_not(
    kit: PipelineKit, engine: str
) -> None:
    move = register(kit, "RecordName", "games.v1.Move", json.dumps(AVRO), "AVRO")
    with ConfluentRegistry(kit.registry_options) as registry:
        number = registry.register(f"{kit.topic}-key", '"long"', "AVRO")
        kit.configured(
            decode={"format": "auto", "key": "auto", "engine": engine},
            registry={"subjects": [move[0]]},
            route={"field": None, "by": "key", "table": "player_{entity}"},
            policies={"no_entity": {"table": "nobody"}},
        )
        value = avro(move[1], game="go", ply=1)
        kit.send([value], key=confluent(number, b"\x0e"))
        kit.run()
        # Registered after the pipeline began, and under no subject that it watches.
        text = registry.register(f"{kit.topic}-of-players", '"string"', "AVRO")
    kit.send([value], key=confluent(text, b"\x06ann"))
    kit.send([value], key=b"ann")
    kit.send([value], key=confluent(2_000_000_000, b"\x06ann"))
    kit.run()
    last = kit.manifests.last()
    assert last is not None
    named = {
        entity: kit.rows(folder)["kafka_key_text"].to_pylist() for entity, folder in last.entities.items()
    }
    assert named == {"7": ["7"], "ann": ["ann", "ann"], "": [None]}
    assert kit.rows("nobody")["kafka_key"].to_pylist() == [confluent(2_000_000_000, b"\x06ann")]
    assert not kit.versions().get("quarantine")
    assert_each_record_in_one_place(kit)


class Notices(Silent):
    """What a run said that it waits for or does without."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def waiting(self, reason: str, seconds: float) -> None:
        self.told.append(reason)


def test_with_a_cache_a_new_pipeline_starts_and_runs_while_the_registry_is_down_and_says_so(
    kit: PipelineKit,
) -> None:
    types = Types(kit)
    mixed(kit, types, route={"field": "game"}, registry={"cache": "./cache", "retry_seconds": 0})
    kit.send(types.of("go", 1))
    with registry_proxy(*kit.registry_options.urls) as proxy:
        kit.configured(registry={"url": proxy.url})
        kit.run()
        kept = proxy.url
    # Nothing listens there any more. Another checkpoint has nothing of its own: all it knows is in the cache.
    kit.configured(name="again", checkpoint="./again", sink={"root": "./lake-again"})
    notices = Notices()
    kit.run(notices)
    assert kit.settings.registry.url == kept
    assert len(shown(kit, "go")) == 5
    assert not reasons(kit)
    assert any("going on with the schemas" in told for told in notices.told)
