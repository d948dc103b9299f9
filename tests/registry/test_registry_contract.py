"""What every registry does alike: the real one, the double that stands in for it, and both behind a cache on disk."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.message_factory import GetMessages

from distributary.errors import BadSchema, SchemaNotFound
from distributary.registry.base import Guid, Reference, SchemaRegistry
from distributary.registry.confluent.registry import ConfluentRegistry
from distributary.registry.disk.cache import DiskCache
from distributary.registry.memory import MemoryRegistry
from distributary.registry.protobuf.text import compile_text

# Apicurio takes a JSON Schema only if it says that it is one.
JSON_SCHEMA = '{"$schema":"http://json-schema.org/draft-07/schema#","type":"object"}'
AVRO = '{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}'


def proto(message: str, imports: str = "", fields: str = "int32 a = 1;") -> str:
    return f'syntax = "proto3"; package p; {imports} message {message} {{ {fields} }}'


Delete = Callable[[str, int], object]


@pytest.fixture(params=["memory", pytest.param("real", marks=pytest.mark.stack)])
def origin(
    request: pytest.FixtureRequest, connect: Callable[..., ConfluentRegistry]
) -> MemoryRegistry | ConfluentRegistry:
    if request.param == "memory":
        return MemoryRegistry()
    return connect(
        request.getfixturevalue("stack").registry_url,
        retry_seconds=10.0,
        unknown_id_wait_seconds=0.2,
        latest_cache_seconds=0.0,
    )


@pytest.fixture(params=["itself", "kept on disk"])
def registry(
    request: pytest.FixtureRequest, origin: MemoryRegistry | ConfluentRegistry, tmp_path: Path
) -> SchemaRegistry:
    return origin if request.param == "itself" else DiskCache(origin, tmp_path, "the registry")


@pytest.fixture
def delete(origin: MemoryRegistry | ConfluentRegistry) -> Delete:
    """Soft-deletes a version."""
    if isinstance(origin, MemoryRegistry):
        return origin.delete
    return lambda subject, version: origin.connection.call(
        "a deletion", lambda client: client.delete_version(subject, version)
    )


@pytest.fixture
def subject() -> str:
    return f"contract {uuid4().hex}/ü%+-value"


def test_a_registered_schema_is_found_by_its_id(registry: SchemaRegistry, subject: str) -> None:
    schema_id = registry.register(subject, proto("A"), "PROTOBUF")
    schema = registry.by_ref(schema_id)
    assert (schema.id, schema.type, schema.text) == (schema_id, "PROTOBUF", proto("A"))
    assert (schema.references, dict(schema.imports), schema.rules) == ((), {}, ())


@pytest.mark.parametrize(("schema_type", "text"), [("AVRO", AVRO), ("JSON", JSON_SCHEMA)])
def test_avro_and_json_schemas_keep_their_type(
    registry: SchemaRegistry, subject: str, schema_type: str, text: str
) -> None:
    found = registry.by_ref(registry.register(subject, text, schema_type))  # type: ignore[arg-type]
    assert found.type == schema_type


def test_registering_again_gives_the_same_id_and_no_new_version(
    registry: SchemaRegistry, subject: str
) -> None:
    first = registry.register(subject, proto("A"), "PROTOBUF")
    assert registry.register(subject, proto("A"), "PROTOBUF") == first
    assert [version.id for version in registry.versions(subject)] == [first]


def test_the_same_text_under_two_subjects_has_one_id(registry: SchemaRegistry, subject: str) -> None:
    first = registry.register(subject, proto("A"), "PROTOBUF")
    assert registry.register(f"{subject}-2", proto("A"), "PROTOBUF") == first


def test_versions_are_listed_oldest_first_and_seen_as_soon_as_they_are_registered(
    registry: SchemaRegistry, subject: str
) -> None:
    ids = [registry.register(subject, proto("A"), "PROTOBUF")]
    assert [version.version for version in registry.versions(subject)] == [1]
    ids.append(registry.register(subject, proto("A", fields="int32 a = 1; int32 b = 2;"), "PROTOBUF"))
    listed = registry.versions(subject)
    assert [(version.subject, version.version) for version in listed] == [(subject, 1), (subject, 2)]
    assert [version.id for version in listed] == ids


def test_transitive_references_come_dependencies_first(registry: SchemaRegistry, subject: str) -> None:
    inner, middle, outer = f"{subject}-inner", f"{subject}-middle", subject
    registry.register(inner, proto("C"), "PROTOBUF")
    text = proto("B", 'import "c.proto";', "C c = 1;")
    registry.register(middle, text, "PROTOBUF", [Reference("c.proto", inner, 1)])
    references = (Reference("b.proto", middle, 1),)
    own = proto("A", 'import "b.proto";', "B b = 1;")
    schema = registry.by_ref(registry.register(outer, own, "PROTOBUF", references))
    assert schema.references == references
    assert list(schema.imports.items()) == [("c.proto", proto("C")), ("b.proto", text)]


def test_avro_references_are_resolved_as_well(registry: SchemaRegistry, subject: str) -> None:
    registry.register(f"{subject}-r", AVRO, "AVRO")
    own = '{"type":"record","name":"S","fields":[{"name":"r","type":"R"}]}'
    schema_id = registry.register(subject, own, "AVRO", [Reference("R", f"{subject}-r", 1)])
    assert list(registry.by_ref(schema_id).imports) == ["R"]


def test_references_of_a_json_schema_come_transitively(registry: SchemaRegistry, subject: str) -> None:
    leaf = JSON_SCHEMA.replace("}", ',"title":"leaf"}')
    registry.register(f"{subject}-leaf", leaf, "JSON")
    middle = '{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"l":{"$ref":"leaf.json"}}}'
    registry.register(f"{subject}-middle", middle, "JSON", [Reference("leaf.json", f"{subject}-leaf", 1)])
    own = middle.replace("leaf.json", "middle.json")
    schema_id = registry.register(subject, own, "JSON", [Reference("middle.json", f"{subject}-middle", 1)])
    assert list(registry.by_ref(schema_id).imports) == ["leaf.json", "middle.json"]


def test_a_deleted_version_is_listed_only_when_asked_for_and_its_id_is_still_read(
    registry: SchemaRegistry, delete: Delete, subject: str
) -> None:
    first = registry.register(subject, proto("A"), "PROTOBUF")
    second = registry.register(subject, proto("A", fields="int32 a = 1; int32 b = 2;"), "PROTOBUF")
    delete(subject, 1)
    assert [version.version for version in registry.versions(subject)] == [2]
    everything = registry.versions(subject, deleted=True)
    assert [(version.id, version.deleted) for version in everything] == [(first, True), (second, False)]
    assert registry.by_ref(first).text == proto("A")


def test_a_subject_that_is_deleted_whole_is_not_found_and_its_id_is_still_read(
    registry: SchemaRegistry, delete: Delete, subject: str
) -> None:
    known = registry.register(subject, proto("A"), "PROTOBUF")
    delete(subject, 1)
    with pytest.raises(SchemaNotFound):
        registry.versions(subject)
    assert registry.by_ref(known).text == proto("A")


def test_what_a_deleted_version_is_imported_by_can_still_be_read(
    registry: SchemaRegistry, delete: Delete, subject: str
) -> None:
    inner = f"{subject}-inner"
    registry.register(inner, proto("B"), "PROTOBUF")
    registry.register(inner, proto("B", fields="int32 a = 1; int32 b = 2;"), "PROTOBUF")
    own = proto("A", 'import "b.proto";', "B b = 1;")
    importing = registry.register(subject, own, "PROTOBUF", [Reference("b.proto", inner, 2)])
    delete(inner, 1)
    assert list(registry.by_ref(importing, subject).imports) == ["b.proto"]


def test_a_deleted_schema_that_is_registered_again_is_a_new_version_of_the_same_id(
    registry: SchemaRegistry, delete: Delete, subject: str
) -> None:
    first = registry.register(subject, proto("A"), "PROTOBUF")
    delete(subject, 1)
    assert registry.register(subject, proto("A"), "PROTOBUF") == first
    assert [(version.version, version.id) for version in registry.versions(subject)] == [(2, first)]


def test_unknown_ids_guids_and_subjects_are_not_found(registry: SchemaRegistry, subject: str) -> None:
    for ref in (2_000_000_000, -1, 2**40, Guid(uuid4()), Guid("../subjects")):
        with pytest.raises(SchemaNotFound):
            registry.by_ref(ref)
    with pytest.raises(SchemaNotFound):
        registry.versions(subject)


def test_many_refs_are_answered_each_by_itself(registry: SchemaRegistry, subject: str) -> None:
    known = registry.register(subject, proto("A"), "PROTOBUF")
    guid = Guid(uuid4())
    answers = registry.by_refs([known, 2_000_000_000, guid, known])
    assert list(answers) == [known, 2_000_000_000, guid]
    assert answers[known] == registry.by_ref(known)
    assert isinstance(answers[2_000_000_000], SchemaNotFound)
    assert isinstance(answers[guid], SchemaNotFound)


def test_no_refs_are_no_question(registry: SchemaRegistry) -> None:
    assert dict(registry.by_refs([])) == {}


@pytest.mark.parametrize("schema_type", ["AVRO", "PROTOBUF", "JSON"])
def test_a_text_that_is_no_schema_is_refused(
    registry: SchemaRegistry, subject: str, schema_type: str
) -> None:
    with pytest.raises(BadSchema):
        registry.register(subject, "{nope", schema_type)  # type: ignore[arg-type]


def test_a_reference_to_what_is_not_there_is_refused(registry: SchemaRegistry, subject: str) -> None:
    text = proto("A", 'import "b.proto";', "B b = 1;")
    with pytest.raises(BadSchema):
        registry.register(subject, text, "PROTOBUF", [Reference("b.proto", f"{subject}-none", 1)])


@pytest.mark.stack
def test_what_confluents_own_serializer_registers_can_be_compiled(
    request: pytest.FixtureRequest, connect: Callable[..., ConfluentRegistry], subject: str
) -> None:
    """It registers base64 descriptors, the imports as references; some registries hand them back as they are."""
    url = request.getfixturevalue("stack").registry_url
    package = f"p{uuid4().hex}"
    inner = f'syntax = "proto3"; package {package}; message Inner {{ map<string, int64> m = 1; }}'
    outer = (
        f'syntax = "proto3"; package {package}; import "{package}/inner.proto"; '
        'import "google/protobuf/timestamp.proto"; '
        "message Outer { Inner inner = 1; google.protobuf.Timestamp at = 2; optional int32 n = 3; }"
    )
    compiled = FileDescriptorSet.FromString(compile_text(outer, {f"{package}/inner.proto": inner}))
    compiled.file[-1].name = f"{package}/outer.proto"
    message = GetMessages(compiled.file)[f"{package}.Outer"]
    with SchemaRegistryClient({"url": url, "timeout": 10}) as client:
        serialize = ProtobufSerializer(message, client, {"use.deprecated.format": False})
        value = serialize(message(n=1), SerializationContext(subject, MessageField.VALUE))
    schema = connect(url, retry_seconds=10.0).by_ref(int.from_bytes(value[1:5], "big"))
    again = FileDescriptorSet.FromString(compile_text(schema.text, schema.imports))
    assert [file.name for file in again.file if file.package == package] == [
        f"{package}/inner.proto",
        "schema.proto",
    ]
    assert [field.name for field in again.file[-1].message_type[0].field] == ["inner", "at", "n"]
