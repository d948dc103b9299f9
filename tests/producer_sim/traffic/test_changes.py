"""Each class of change is what the product takes it for, in each format that can say it; others are refused."""

from __future__ import annotations

from typing import Any

import pytest

from distributary.codecs.base import load_codec
from distributary.codecs.changes.classify import classify
from distributary.codecs.changes.description import RecordDescription
from distributary.errors import ConfigError
from distributary.producer_sim.events.versions import EVENT_TYPES
from distributary.producer_sim.formats.base import load_format
from distributary.producer_sim.formats.protobuf import proto_text, record_class
from distributary.producer_sim.traffic.changes import CHANGES, JSON_CHANGES
from distributary.producer_sim.traffic.simulation import Simulation
from distributary.producer_sim.traffic.stages import Stage
from distributary.registry.base import Schema


def changed(*changes: Any, name: str = "protobuf", versions: int = 3, **more: Any) -> Simulation:
    return Simulation.of(
        bootstrap_servers="none", topic="games", format=name, versions=versions, changes=changes, **more
    )


IMPOSSIBLE: dict[str, set[str]] = {
    "protobuf": {"made_required", "made_optional"},
    "avro": {"oneof_arm_added"},
    "jsonschema": {"oneof_arm_added", "renamed"},
    "json": {str(change) for change in CHANGES} - {*JSON_CHANGES},
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_each_change_is_made_or_refused_with_a_remedy(name: str, change: str) -> None:
    if change in IMPOSSIBLE[name]:
        with pytest.raises(ConfigError, match=rf"{change}.*choose"):
            changed(change, name=name)
        return
    before, after = changed(change, name=name).stages[-2:]
    assert after.change == change
    assert after.number == before.number + 1 == 4
    different = before.schemas["GameEvent"].messages != after.schemas["GameEvent"].messages
    assert different == (change not in ("enum_value_added", "enum_value_removed", "format_switched"))


@pytest.mark.parametrize(
    ("change", "versions", "remedy"),
    [
        ("enum_value_added", 2, "evolution.versions: 3"),
        ("oneof_arm_added", 2, "3"),
    ],
)
def test_what_a_version_has_not_cannot_change(change: str, versions: int, remedy: str) -> None:
    with pytest.raises(ConfigError, match=remedy):
        changed(change, versions=versions)


@pytest.mark.parametrize("change", ["widened", "narrowed", "changed", "dropped", "renamed", "made_optional"])
def test_what_was_changed_already_is_not_changed_again(change: str) -> None:
    with pytest.raises(ConfigError, match="nothing left"):
        changed(change, change, name="avro")


def test_what_became_optional_can_become_required() -> None:
    with pytest.raises(ConfigError, match="made_optional"):
        changed("made_required", name="avro", versions=1)
    last = changed("made_optional", "made_required", name="avro", versions=1).stages[-1]
    assert [field.label for field in last.schemas["GameEvent"].fields if field.name == "event_type"] == [
        "required"
    ]


def test_an_unknown_change_is_refused_with_those_there_are() -> None:
    with pytest.raises(ConfigError, match="'widened', 'narrowed'"):
        changed("exploded")


def test_the_last_version_counts_the_changes() -> None:
    settings = changed("added", "dropped", first_version=5, events=10)
    assert (settings.last_version, settings.total) == (5, 10)
    with pytest.raises(ConfigError, match="first_version"):
        changed("added", first_version=5)


def test_a_number_is_never_used_twice() -> None:
    stages = changed("dropped", "added", "renamed", "oneof_arm_added").stages
    numbers: dict[tuple[str, int], str] = {}
    for stage in stages:
        schema = stage.schemas["GameEvent"]
        record_class(schema)  # a number that is reserved would not compile
        for message, fields in schema.messages.items():
            for field in fields:
                first = field.alias or field.name
                assert numbers.setdefault((message, field.number), first) == first
    assert 'reserved "device";' in proto_text(stages[-1].schemas["GameEvent"])


def test_every_type_of_event_changes() -> None:
    changes = tuple(
        change for change in CHANGES if change not in {*IMPOSSIBLE["protobuf"], "format_switched"}
    )
    types = len(EVENT_TYPES)
    last = changed(*changes, event_types=types, subject_strategy="RecordName").stages[-1]
    assert set(last.schemas) == set(EVENT_TYPES)
    for name, schema in last.schemas.items():
        assert schema.type == name
        assert schema.record.startswith(f"{name}V")
        record_class(schema)


def test_a_switched_format_has_subjects_of_its_own() -> None:
    settings = changed("format_switched")
    assert [stage.format for stage in settings.stages] == ["protobuf"] * 3 + ["avro"]
    assert settings.subject_of("GameEvent", "protobuf") == "games-value"
    assert settings.subject_of("GameEvent", "avro") == "games-value-avro"


def described(stage: Stage, imported: bool = False) -> RecordDescription:
    """What the product reads out of a stage's schema."""
    written, schema = load_format(stage.format), stage.schemas["GameEvent"]
    assert written.schema_type is not None
    parts = {written.import_name(part): written.part_text(part, schema) for part in schema.parts}
    text = written.schema_text(schema, imported)
    registered = Schema(1, written.schema_type, text, imports=parts if imported else {})
    codec = load_codec(stage.format)
    return codec.description(registered, (0,) if stage.format == "protobuf" else ())


POSSIBLE = [
    (name, change)
    for name in ("protobuf", "avro", "jsonschema")
    for change in CHANGES
    if change not in IMPOSSIBLE[name]
]
# What else the product finds: formats differ in what must be there and in how wide numbers are.
BESIDE = {
    "changed": {"made_optional"},
    "format_switched": {"made_optional", "made_required", "narrowed"},
}


@pytest.mark.parametrize(("name", "change"), POSSIBLE)
def test_each_change_is_of_its_class(name: str, change: str) -> None:
    before, after = changed(change, name=name).stages[-2:]
    found = {one.kind for one in classify(described(before), described(after))}
    # To JSON Schema every integer is a number; a column of doubles does not hold every bigint.
    in_columns = name == "jsonschema" and change in ("widened", "narrowed")
    assert found - BESIDE.get(change, set()) == {"changed" if in_columns else change}


@pytest.mark.parametrize("name", ["protobuf", "avro", "jsonschema"])
def test_a_schema_means_the_same_with_its_parts_imported(name: str) -> None:
    (stage,) = changed("added", name=name).stages[-1:]
    assert described(stage, imported=True) == described(stage)
