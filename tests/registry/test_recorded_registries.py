"""One small world as four registries serve it: their answers differ, what they mean to us does not.

`dialects/apicurio.json` was recorded from a running one; each of the others says what it was written down from.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from tests.registry.conftest import AnswerServer, Reply

from distributary.codecs.base import load_codec
from distributary.errors import NotOffered, SchemaNotFound
from distributary.registry.base import Guid, Reference
from distributary.registry.confluent.catalogue import Catalogue, Latest
from distributary.registry.confluent.registry import ConfluentRegistry
from distributary.registry.protobuf.text import compile_text

if TYPE_CHECKING:
    from tests.registry.conftest import Connect

DIALECTS = sorted((Path(__file__).parent / "dialects").glob("*.json"))
GUID = Guid("0b1f6c1e-0000-4000-8000-000000000004")
NO_GUID = Guid("00000000-0000-4000-8000-000000000000")


@pytest.fixture(params=DIALECTS, ids=lambda path: str(path.stem))
def recording(request: pytest.FixtureRequest) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(request.param.read_text(encoding="utf-8"))
    return loaded


@pytest.fixture
def registry(recording: dict[str, Any], server: AnswerServer, connect: Connect) -> ConfluentRegistry:
    for path, answer in recording["answers"].items():
        kind = recording["content_type" if answer["status"] < 400 else "error_content_type"]
        body = json.dumps(answer["json"]).encode() if "json" in answer else answer["text"].encode()
        server.on(path, Reply(answer["status"], body, kind))
    return connect(server.url)


@pytest.fixture
def catalogue(registry: ConfluentRegistry) -> Catalogue:
    return Catalogue(registry.connection)


def test_a_schema_comes_with_its_type_text_and_imports(registry: ConfluentRegistry) -> None:
    found = registry.by_refs([1, 2, 3, 4, 5])
    types = {ref: getattr(answer, "type", answer) for ref, answer in found.items()}
    assert types == {1: "PROTOBUF", 2: "PROTOBUF", 3: "PROTOBUF", 4: "AVRO", 5: "JSON"}
    event = registry.by_ref(3)
    assert event.references == (Reference("common.proto", "common", 1),)
    assert list(event.imports) == ["common.proto"]
    assert compile_text(event.text, event.imports)


def test_deleted_versions_are_marked(registry: ConfluentRegistry) -> None:
    assert [version.version for version in registry.versions("games-value")] == [2]
    everything = registry.versions("games-value", deleted=True)
    assert [(one.version, one.id, one.deleted) for one in everything] == [(1, 2, True), (2, 3, False)]


def test_a_deleted_subject_is_there_for_who_asks_for_deleted_ones(
    recording: dict[str, Any], registry: ConfluentRegistry
) -> None:
    with pytest.raises(SchemaNotFound, match="gone-value"):
        registry.versions("gone-value")
    if recording["registry"] == "apicurio":
        # It lists the version, and then denies it.
        with pytest.raises(SchemaNotFound, match="no longer tells what its versions held"):
            registry.versions("gone-value", deleted=True)
    else:
        assert [(one.id, one.deleted) for one in registry.versions("gone-value", deleted=True)] == [(4, True)]


def test_what_is_unknown_is_not_found(registry: ConfluentRegistry) -> None:
    with pytest.raises(SchemaNotFound, match="schema id 99"):
        registry.by_ref(99)
    for deleted in (False, True):
        with pytest.raises(SchemaNotFound, match="none-value"):
            registry.versions("none-value", deleted)


def test_a_guid_is_looked_up_or_plainly_refused(
    recording: dict[str, Any], registry: ConfluentRegistry
) -> None:
    if recording["registry"] == "confluent":
        assert registry.by_ref(GUID).guid == GUID
        with pytest.raises(SchemaNotFound, match="does not know"):
            registry.by_ref(NO_GUID)
    else:
        with pytest.raises(SchemaNotFound, match="does not offer schema GUID"):
            registry.by_ref(GUID)


def test_subjects_are_listed_with_and_without_deleted_ones(catalogue: Catalogue) -> None:
    living = ["avro-value", "common", "games-value", "json-value"]
    assert catalogue.subjects() == living
    assert set(catalogue.subjects(deleted=True)) == {*living, "gone-value"}


def test_the_latest_version_tells_its_type(catalogue: Catalogue) -> None:
    assert catalogue.latest("games-value") == Latest("games-value", 2, 3, "PROTOBUF")
    assert catalogue.latest("avro-value") == Latest("avro-value", 1, 4, "AVRO")


def test_the_level_is_the_subjects_own_or_the_registrys(catalogue: Catalogue) -> None:
    assert catalogue.level("games-value") == "BACKWARD_TRANSITIVE"
    assert catalogue.level("avro-value") == "BACKWARD"


def test_an_incompatible_schema_is_told_with_the_registrys_words_if_it_has_any(
    recording: dict[str, Any], catalogue: Catalogue
) -> None:
    text = 'syntax = "proto3"; package p; message Event { int32 level = 2; }'
    verdict = catalogue.check("games-value", text, "PROTOBUF")
    assert not verdict.compatible
    assert bool(verdict.messages) == (recording["registry"] != "apicurio")


def test_a_call_that_is_not_offered_says_so(server: AnswerServer, catalogue: Catalogue) -> None:
    path = "/compatibility/subjects/s/versions"
    for status in (404, 405, 501):
        for each in (path, f"{path}/latest"):
            server.on(each, server.raw(b"", status))
        with pytest.raises(NotOffered, match="does not offer a compatibility check"):
            catalogue.check("s", "{}", "AVRO")


# As Karapace answers for what confluent-kafka's serializer has registered as a descriptor in base64.
LOST = json.loads((Path(__file__).parent / "dialects" / "karapace.json").read_text(encoding="utf-8"))[
    "answers"
]["/schemas/ids/21"]["json"]


@pytest.mark.parametrize("entries", ["marked", "named"])
def test_what_a_registry_lost_of_a_descriptor_is_put_back_as_far_as_it_can_be_told(
    server: AnswerServer, connect: Connect, entries: str
) -> None:
    server.on("/schemas/ids/21", Reply(200, json.dumps(LOST).encode()))
    schema = connect(server.url, map_entries=entries).by_ref(21)
    reader = load_codec("protobuf").reader(schema, (0,))
    tags = reader.schema.field("tags").type
    assert pa.types.is_map(tags) == (entries == "named")
    # kind 1, which two names have; tags {"a": 5}
    decoded = reader.decode(pa.array([b"\x08\x01\x12\x05\x0a\x01a\x10\x05"], pa.binary()))
    told = [("a", 5)] if entries == "named" else [{"key": "a", "value": 5}]
    assert decoded.rows.to_pylist() == [{"kind": "OPENED", "tags": told}]
