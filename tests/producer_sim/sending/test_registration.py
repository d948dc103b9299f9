"""Against a real registry: harmful schemas get in, the levels are as they were, and parts are referred to."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from distributary.codecs.base import load_codec
from distributary.errors import BadSchema
from distributary.producer_sim.sending.registration import Registration
from distributary.producer_sim.stack.local import LocalStack
from distributary.producer_sim.traffic.simulation import Simulation
from distributary.registry.confluent.catalogue import Catalogue
from distributary.registry.confluent.compatibility_level import subject_at_none
from distributary.registry.confluent.options import RegistryOptions
from distributary.registry.confluent.registry import ConfluentRegistry
from distributary.registry.memory import MemoryRegistry

pytestmark = pytest.mark.stack


@pytest.fixture(scope="module")
def registry(stack: LocalStack) -> Any:
    with ConfluentRegistry(RegistryOptions(url=stack.registry_url)) as client:
        yield client


def simulation(*changes: Any, **chosen: Any) -> Simulation:
    topic = f"games-{uuid.uuid4().hex[:8]}"
    return Simulation.of(bootstrap_servers="none", topic=topic, versions=3, changes=changes, **chosen)


def registered(settings: Simulation, registry: Any, notices: list[str]) -> list[int | None]:
    registration = Registration(settings, registry, notices.append)
    return [registration.register(stage, "GameEvent") for stage in settings.stages]


@pytest.mark.parametrize("name", ["protobuf", "avro", "jsonschema"])
def test_a_refused_schema_is_registered_and_the_level_is_as_it_was(
    registry: ConfluentRegistry, name: str
) -> None:
    settings, notices = simulation("added", "changed", format=name), list[str]()
    before = Catalogue(registry.connection).level(f"{settings.target.topic}-value")
    assert before == "BACKWARD"
    ids = registered(settings, registry, notices)
    assert len({*ids}) == 5
    (notice,) = notices
    assert f"version 5 (changed) of {settings.target.topic}-value" in notice
    assert Catalogue(registry.connection).level(f"{settings.target.topic}-value") == before
    assert Catalogue(registry.connection).level("another") == before
    # Again, as when one more version is sent later: nothing is new, and ids do not change.
    assert registered(settings, registry, []) == ids


def test_a_level_of_the_subject_s_own_is_kept(registry: ConfluentRegistry) -> None:
    settings = simulation("changed")
    subject, catalogue = settings.subject_of("GameEvent"), Catalogue(registry.connection)
    Registration(settings, registry).register(settings.stages[0], "GameEvent")
    registry.connection.put("a level", f"config/{subject}", {"compatibility": "FULL"})
    with subject_at_none(registry.connection, subject):
        assert catalogue.level(subject) != "FULL"
    assert catalogue.level(subject) == "FULL"
    registered(settings, registry, [])
    assert catalogue.level(subject) == "FULL"


def test_what_is_no_schema_is_refused_at_any_level(
    registry: ConfluentRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, notices = simulation("changed"), list[str]()
    for stage in settings.stages[:3]:
        Registration(settings, registry).register(stage, "GameEvent")
    monkeypatch.setattr(
        "distributary.producer_sim.formats.protobuf.proto_text", lambda schema, imported: "message {"
    )
    with pytest.raises(BadSchema):
        Registration(settings, registry, notices.append).register(settings.stages[3], "GameEvent")
    assert notices == []
    assert Catalogue(registry.connection).level("another") == "BACKWARD"


@pytest.mark.parametrize("name", ["protobuf", "avro", "jsonschema"])
@pytest.mark.parametrize("kind", ["real", "memory"])
def test_parts_are_registered_by_themselves_and_change_there(
    registry: ConfluentRegistry, name: str, kind: str
) -> None:
    where: Any = registry if kind == "real" else MemoryRegistry()
    settings = simulation("added", "widened", format=name, references=True)
    ids = registered(settings, where, [])
    assert len({*ids}) == 5
    parts = [version.version for version in where.versions(f"{settings.target.topic}-shared-Position")]
    assert parts == [1, 2]
    last = where.by_ref(ids[-1])
    assert {each.subject.rpartition("-")[2] for each in last.references} == {
        *settings.stages[-1].schemas["GameEvent"].parts
    }
    assert "drift" not in last.text
    codec = load_codec(name)
    found = codec.reader(
        last, codec.default_path or (0,) if name == "protobuf" else codec.default_path
    ).schema
    assert "tilt_v4" in [field.name for field in found.field("position").type]
