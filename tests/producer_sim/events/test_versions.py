"""The event grows by adding only, brings every kind of field, and its text says what its columns are."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from google.protobuf.descriptor import FieldDescriptor

from distributary.producer_sim.events.versions import EVENT_TYPES, NESTED_KINDS, arrow_schema, event_schema
from distributary.producer_sim.formats.protobuf import record_class, schema_text
from distributary.registry.memory import MemoryRegistry

MANY = 24


def numbered(message: Any, prefix: str = "") -> dict[str, tuple[int, int, bool]]:
    """Number, type and repetition of every field, nested ones by dotted name."""
    found: dict[str, tuple[int, int, bool]] = {}
    for about in message.fields:
        found[prefix + about.name] = (about.number, about.type, about.is_repeated)
        if about.type == FieldDescriptor.TYPE_MESSAGE and about.message_type.file == message.file:
            found |= numbered(about.message_type, f"{prefix}{about.name}.")
    return found


def test_the_first_version_has_fourteen_fields() -> None:
    assert len(event_schema(1).fields) == 14
    assert arrow_schema(1).names[:3] == ["event_id", "game_name", "gamer_id"]


@pytest.mark.parametrize("version", range(2, MANY))
def test_each_version_only_adds(version: int) -> None:
    before = numbered(record_class(event_schema(version - 1)).DESCRIPTOR)
    after = numbered(record_class(event_schema(version)).DESCRIPTOR)
    assert before.items() < after.items()


@pytest.mark.parametrize("version", range(4, MANY))
def test_from_the_fourth_on_a_plain_a_special_and_a_nested_field_are_added(version: int) -> None:
    before = numbered(record_class(event_schema(version - 1)).DESCRIPTOR)
    added = numbered(record_class(event_schema(version)).DESCRIPTOR).keys() - before.keys()
    assert f"col_v{version}" in added
    assert {name for name in added if name.split(".")[0] in before}, "nothing inside a message of old"
    assert {name for name in added if "." not in name and not name.startswith("col_")}


def test_three_versions_bring_every_kind_of_field() -> None:
    added = [about for about in record_class(event_schema(3)).DESCRIPTOR.fields if about.number > 14]
    kinds = {about.type for about in added}
    assert {FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_MESSAGE, FieldDescriptor.TYPE_ENUM} <= kinds
    columns = {field.name: field.type for field in arrow_schema(3)}
    assert pa.types.is_struct(columns["guild"])
    assert pa.types.is_list(columns["achievements"])
    assert pa.types.is_map(columns["wallet"])
    reward = record_class(event_schema(3)).DESCRIPTOR.oneofs_by_name["reward"]
    assert [about.name for about in reward.fields] == ["coins", "item"]


def test_a_round_of_versions_has_every_special_kind() -> None:
    last = 3 + len(NESTED_KINDS)
    columns = {field.name: field.type for field in arrow_schema(last)}
    kinds = [columns[name] for name in columns if name not in arrow_schema(3).names]
    for is_kind in (pa.types.is_struct, pa.types.is_list, pa.types.is_map, pa.types.is_timestamp):
        assert any(map(is_kind, kinds))


def test_text_and_class_agree_on_columns() -> None:
    for version in (1, 3, MANY):
        assert arrow_schema(version).names == [
            about.name for about in record_class(event_schema(version)).DESCRIPTOR.fields
        ]


@pytest.mark.parametrize("record", EVENT_TYPES)
def test_a_type_of_event_has_what_all_have_and_its_own(record: str) -> None:
    schema, common = event_schema(MANY, record), event_schema(MANY)
    own = [field.name for field in EVENT_TYPES[record]]
    assert schema.record == record
    assert {field.name for field in schema.fields} == {*own, *(field.name for field in common.fields)}
    assert [field.number for field in schema.fields] == list(range(1, len(schema.fields) + 1))
    assert record_class(schema).DESCRIPTOR.full_name == f"games.{record}"


def test_a_field_knows_the_version_that_brought_it() -> None:
    known = {field.name for field in event_schema(1).fields}
    for version in range(2, MANY):
        fields = event_schema(MANY).fields
        known |= {field.name for field in fields if field.since == version}
        assert known == {field.name for field in event_schema(version).fields}


def test_the_text_never_changes() -> None:
    assert schema_text(MANY) == schema_text(MANY)
    assert schema_text(1).startswith('syntax = "proto3";\n\npackage games;\n\nmessage GameEvent {\n')


def test_a_registry_gives_each_version_its_own_id() -> None:
    registry = MemoryRegistry()
    ids = [registry.register("games-value", schema_text(version), "PROTOBUF") for version in range(1, 9)]
    assert len(set(ids)) == 8
