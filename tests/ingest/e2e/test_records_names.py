"""Fields that are called as columns of our own are, and such as no schema declares: each has its place, and nothing stands still."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any
from uuid import uuid4

import pytest
from tests.ingest.avro_records import sent_as
from tests.ingest.e2e import handmade
from tests.ingest.e2e.handmade import quarantined
from tests.ingest.e2e.pipeline_kit import PipelineKit

from distributary.ingest.columns.safe_names import RESERVED_COLUMNS
from distributary.ingest.settings.groups import Columns
from distributary.producer_sim.formats.corruption import HEADER
from distributary.registry.base import Schema
from distributary.registry.confluent.registry import ConfluentRegistry

pytestmark = [pytest.mark.spark, pytest.mark.stack]

OURS = [name for _, name in Columns().given()]
NAMES = [*OURS, *(name.upper() for name in OURS[:3]), *sorted(RESERVED_COLUMNS)]

# Makes the value of an event; each has a payload of these fields beside the game.
Write = Callable[[Mapping[str, Any]], bytes]


def _json(kit: PipelineKit, names: list[str]) -> Write:
    return lambda event: json.dumps(event).encode()


def _json_schema(kit: PipelineKit, names: list[str]) -> Write:
    fields = {name: {"type": "integer"} for name in names}
    whole = {"game": {"type": "string"}, **fields, "inside": {"type": "object", "properties": fields}}
    text = json.dumps({"type": "object", "properties": whole})
    # Under a subject that nobody watches, where nothing objects to a property more.
    with ConfluentRegistry(kit.registry_options) as registry:
        number = registry.register(f"beside-{uuid4()}", text, "JSON")
    return lambda event: HEADER.pack(0, number) + json.dumps(event).encode()


def _avro(kit: PipelineKit, names: list[str]) -> Write:
    fields = [{"name": name, "type": ["null", "long"], "default": None} for name in names]
    inside = {"name": "inside", "type": {"type": "record", "name": "Inside", "fields": fields}}
    whole = [{"name": "game", "type": "string"}, *fields, inside]
    text = json.dumps({"type": "record", "name": "Event", "fields": whole})
    schema = Schema(kit.register(text, "AVRO"), "AVRO", text)
    return lambda event: sent_as(schema, **event)


def _protobuf(kit: PipelineKit, names: list[str]) -> Write:
    fields = "".join(f"optional int64 {name} = {n};" for n, name in enumerate(names, 2))
    inside = f"Inside inside = 99; message Inside {{ {fields} }}"
    text = f'syntax = "proto3"; message Event {{ string game = 1; {fields} {inside} }}'
    schema = handmade.Schema(kit.register(text), text)
    return lambda event: schema.value(**event)


WRITERS: dict[str, Callable[[PipelineKit, list[str]], Write]] = {
    "json": _json,
    "jsonschema": _json_schema,
    "avro": _avro,
    "protobuf": _protobuf,
}


def event(names: list[str], number: int) -> dict[str, Any]:
    values = {name: 1000 * (number + 1) + place for place, name in enumerate(names)}
    return {"game": "go", **values, "inside": values}


# JSON has a field called like another column below; the columns are named by what all formats share.
@pytest.mark.parametrize(
    "name",
    ["protobuf", *(pytest.param(one, marks=pytest.mark.heavy) for one in ("json", "jsonschema", "avro"))],
)
def test_a_field_called_like_a_column_of_ours_has_a_column_of_its_own(kit: PipelineKit, name: str) -> None:
    kit.configured(decode={"format": name}, route={"field": "game", "table": "t_{entity}"})
    # Of names that differ only by case protoc takes one.
    names = OURS if name == "protobuf" else NAMES
    events = [event(names[:4], 0), event(names, 1)]
    for number, sent in enumerate(events):
        write = WRITERS[name](kit, list(sent["inside"]))
        kit.send([write(sent)], key=b"%d" % number)
        kit.run()

    rows = sorted(kit.rows("t_go").to_pylist(), key=lambda row: row["kafka_offset"])
    assert not quarantined(kit)
    assert [(row["kafka_offset"], row["kafka_key"]) for row in rows] == [(0, b"0"), (1, b"1")]
    for row, sent in zip(rows, events, strict=True):
        values = set(sent["inside"].values())
        assert values <= {value for value in row.values() if isinstance(value, int)}
        assert {value for value in row["inside"].values() if value} == values


def test_a_field_called_like_the_column_of_rescued_values_stands_beside_it(kit: PipelineKit) -> None:
    kit.configured(decode={"format": "json"}, route={"field": "game", "table": "t_{entity}"})
    rescued, others = Columns().rescued, []
    for number, record in enumerate(
        (
            {"game": "go", "level": 1, rescued: 5},
            {"game": "go", "level": "two", rescued: 6},
            {"game": "go", "level": 3, rescued: "seven", "more": 1},
        )
    ):
        kit.send([json.dumps(record).encode()], key=b"%d" % number)
        kit.run()
    for row in sorted(kit.rows("t_go").to_pylist(), key=lambda row: row["kafka_offset"]):
        told = row.pop(rescued)
        (own,) = [value for name, value in row.items() if name.startswith(rescued)]
        others.append((own, None if told is None else json.loads(told)))
    assert others == [(5, None), (6, {"level": "two"}), (None, {rescued: "seven"})]


# Lighter: test_a_property_that_its_schema_does_not_declare_is_rescued (tests/ingest/worker/test_fields_undeclared.py).
@pytest.mark.heavy
def test_a_property_that_a_registered_schema_does_not_declare_is_rescued(kit: PipelineKit) -> None:
    kit.configured(decode={"format": "jsonschema"}, route={"field": "game", "table": "t_{entity}"})
    write = _json_schema(kit, ["level"])
    kit.send([write({"game": "go", "level": 1}), write({"game": "go", "level": 2, "more": "m"})])
    kit.run()
    rescued = {row["level"]: row[Columns().rescued] for row in kit.rows("t_go").to_pylist()}
    assert rescued == {1: None, 2: '{"more":"m"}'}
