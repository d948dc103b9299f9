"""A real registry takes every version of every format as backward compatible, and Confluent's readers read the records."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

from distributary.errors import BadSchema
from distributary.producer_sim.events.versions import EVENT_TYPES, event_schema
from distributary.producer_sim.formats.base import FORMATS, load_format
from distributary.producer_sim.stack.local import LocalStack
from distributary.producer_sim.traffic.events import EventMaker, Events, Population, game_names
from distributary.registry.confluent.options import RegistryOptions
from distributary.registry.confluent.registry import ConfluentRegistry

pytestmark = pytest.mark.stack

VERSIONS = range(1, 13)
REGISTERED = [name for name in FORMATS if load_format(name).schema_type]

# What BACKWARD forbids in each format: what is new and has no default, the first field as another type.
HARMFUL = {
    "avro": ('"fields": [', '"fields": [{"name": "needed", "type": "string"}, '),
    "jsonschema": ('"event_id": {"type": "string"}', '"event_id": {"type": "integer"}'),
    "protobuf": ("string event_id = 1", "double event_id = 1"),
}


@pytest.fixture(scope="module")
def registry(stack: LocalStack) -> Iterator[ConfluentRegistry]:
    with ConfluentRegistry(RegistryOptions(url=stack.registry_url)) as client:
        yield client


def register(registry: ConfluentRegistry, name: str, subject: str, text: str) -> int:
    schema_type = load_format(name).schema_type
    assert schema_type is not None
    return registry.register(subject, text, schema_type)


def new_subject() -> str:
    return f"games-{uuid.uuid4().hex[:8]}-value"


@pytest.mark.parametrize("name", REGISTERED)
def test_each_version_is_compatible_with_the_one_before(name: str, registry: ConfluentRegistry) -> None:
    subject = new_subject()
    ids = [
        register(registry, name, subject, load_format(name).schema_text(event_schema(version)))
        for version in VERSIONS
    ]
    assert len(set(ids)) == len(VERSIONS)


@pytest.mark.parametrize("name", REGISTERED)
def test_each_type_of_event_has_schemas_of_its_own(name: str, registry: ConfluentRegistry) -> None:
    ids = set()
    for record in EVENT_TYPES:
        subject = new_subject()
        for version in (1, 2, 3):
            text = load_format(name).schema_text(event_schema(version, record))
            ids.add(register(registry, name, subject, text))
    assert len(ids) == 3 * len(EVENT_TYPES)


@pytest.mark.parametrize("name", REGISTERED)
def test_the_registry_does_check(name: str, registry: ConfluentRegistry) -> None:
    subject, text = new_subject(), load_format(name).schema_text(event_schema(1))
    changed = text.replace(*HARMFUL[name], 1)
    assert changed != text
    register(registry, name, subject, text)
    with pytest.raises(BadSchema):
        register(registry, name, subject, changed)


def records(registry: ConfluentRegistry, name: str, topic: str) -> list[tuple[bytes, Events]]:
    """For each version the header of its records, and some events."""
    found = []
    for version in VERSIONS:
        wanted = load_format(name)
        schema_id = register(registry, name, f"{topic}-value", wanted.schema_text(event_schema(version)))
        events = EventMaker(version, Population(games=game_names(2)), 3, name).chunk(version, 0, 20)
        found.append((wanted.header(schema_id), events))
    return found


def test_confluent_s_avro_reader_finds_the_rows(stack: LocalStack, registry: ConfluentRegistry) -> None:
    topic = new_subject()
    read = AvroDeserializer(SchemaRegistryClient({"url": stack.registry_url}))
    context = SerializationContext(topic, MessageField.VALUE)
    for header, events in records(registry, "avro", topic):
        rows = events.rows.to_pylist(maps_as_pydicts="strict")
        assert [read(header + body, context) for body in events.bodies] == rows


def test_confluent_s_json_reader_finds_and_validates_the_objects(
    stack: LocalStack, registry: ConfluentRegistry
) -> None:
    topic = new_subject()
    read: Any = JSONDeserializer(
        None, schema_registry_client=SchemaRegistryClient({"url": stack.registry_url})
    )
    context = SerializationContext(topic, MessageField.VALUE)
    for header, events in records(registry, "jsonschema", topic):
        assert [read(header + body, context) for body in events.bodies] == [
            json.loads(body) for body in events.bodies
        ]
