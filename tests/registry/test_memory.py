from __future__ import annotations

import pytest

from distributary.errors import RegistryUnavailable, SchemaNotFound
from distributary.registry.memory import MemoryRegistry

TEXT = 'syntax = "proto3"; message A { int32 a = 1; }'


def test_a_registry_that_is_down_answers_nothing_until_it_is_up_again() -> None:
    registry = MemoryRegistry()
    schema_id = registry.register("s", TEXT, "PROTOBUF")
    registry.down = True
    for question in (
        lambda: registry.by_ref(schema_id),
        lambda: registry.by_refs([schema_id]),
        lambda: registry.versions("s"),
        lambda: registry.register("s", TEXT, "PROTOBUF"),
    ):
        with pytest.raises(RegistryUnavailable):
            question()
    registry.down = False
    assert registry.by_ref(schema_id).text == TEXT


def test_a_late_answer_is_denied_as_often_as_asked_for() -> None:
    registry = MemoryRegistry()
    schema_id = registry.register("s", TEXT, "PROTOBUF")
    registry.answer_late(schema_id, denials=2)
    for _ in range(2):
        with pytest.raises(SchemaNotFound):
            registry.by_ref(schema_id)
    assert registry.by_ref(schema_id).id == schema_id
    assert registry.asked == [schema_id] * 3


def test_a_schema_is_found_by_its_guid_too() -> None:
    registry = MemoryRegistry()
    schema = registry.by_ref(registry.register("s", TEXT, "PROTOBUF"))
    assert schema.guid is not None
    assert registry.by_ref(schema.guid) == schema


def test_a_deleted_subject_shows_its_versions_to_who_asks_for_deleted_ones() -> None:
    registry = MemoryRegistry()
    registry.register("s", TEXT, "PROTOBUF")
    registry.delete("s", 1)
    assert [(one.version, one.deleted) for one in registry.versions("s", deleted=True)] == [(1, True)]
    registry.register("s", TEXT, "PROTOBUF")
    with pytest.raises(SchemaNotFound, match="no version 1"):
        registry.delete("s", 1)
