"""What Glue's answers mean, those that its API reference has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.registry.glue.answers import GAMES, IMPATIENT, ClientError, RecordedGlue, recorded

from distributary.errors import (
    BadSchema,
    ConfigError,
    CredentialsRefused,
    DistributaryError,
    RegistryBusy,
    RegistryFault,
    RegistryUnavailable,
    SchemaNotFound,
)
from distributary.registry.base import Guid, Reference, SubjectVersion
from distributary.registry.disk.cache import DiskCache
from distributary.registry.glue.client import translated
from distributary.registry.glue.registry import GlueRegistry

FIRST = Guid("b7b4a7f0-9c96-4e4a-a687-fb5de9ef0c63")
SECOND = Guid("b7b4a7f0-9c96-4e4a-a687-fb5de9ef0c64")
PROTOBUF, PENDING, FLATBUFFERS, NOBODYS = (
    Guid(f"0c1e9b1a-8d1f-4b43-9d0e-3f1f6ab1b00{n}") for n in (2, 3, 4, 9)
)


def test_a_schema_version_is_had_by_its_uuid_once() -> None:
    glue = RecordedGlue()
    with recorded(glue) as registry:
        schema = registry.by_ref(FIRST)
        assert (schema.id, schema.type, schema.guid, schema.references) == (0, "AVRO", FIRST, ())
        assert registry.by_ref(FIRST) == schema
    assert len(glue.asked) == 1
    assert glue.closed


def test_each_of_several_is_answered_for_itself() -> None:
    answers = recorded(RecordedGlue()).by_refs([FIRST, PROTOBUF, PENDING, FLATBUFFERS, NOBODYS])
    assert [type(answer).__name__ for answer in answers.values()] == [
        "Schema",
        "Schema",
        "SchemaNotFound",
        "BadSchema",
        "SchemaNotFound",
    ]
    assert "not available (PENDING)" in str(answers[PENDING])
    assert "of format FLATBUFFERS" in str(answers[FLATBUFFERS])


def test_a_version_that_comes_without_its_definition_is_at_fault_alone() -> None:
    class Without(RecordedGlue):
        def get_schema_version(self, **asked: Any) -> dict[str, Any]:
            held = super().get_schema_version(**asked)
            return held if asked["SchemaVersionId"] != FIRST else {"Status": "AVAILABLE"}

    answers = recorded(Without()).by_refs([FIRST, PROTOBUF])
    assert [type(answer).__name__ for answer in answers.values()] == ["RegistryFault", "Schema"]


def test_a_list_that_leads_back_to_its_own_page_ends() -> None:
    class Turning(RecordedGlue):
        def list_schemas(self, **asked: Any) -> dict[str, Any]:
            return {"Schemas": [{"SchemaName": "a"}], "NextToken": "again"}

    with pytest.raises(RegistryFault, match="the same page again"):
        recorded(Turning()).subjects()


@pytest.mark.parametrize("ref", [7, Guid("../schemas"), Guid("x" * 200)], ids=str)
def test_what_can_be_no_version_is_asked_of_nobody(ref: int | Guid) -> None:
    glue = RecordedGlue()
    with pytest.raises(SchemaNotFound):
        recorded(glue).by_ref(ref)
    assert glue.asked == []


def test_available_versions_are_listed_oldest_first_over_all_pages() -> None:
    listed = recorded(RecordedGlue()).versions("game-events")
    assert listed == (SubjectVersion("game-events", 1, FIRST), SubjectVersion("game-events", 2, SECOND))


@pytest.mark.parametrize("name", ["new-events", "no-events"])
def test_a_name_without_a_version_is_not_found_and_asked_for_once(name: str) -> None:
    glue = RecordedGlue()
    registry = recorded(glue)
    for _ in range(2):
        with pytest.raises(SchemaNotFound, match=name):
            registry.versions(name)
    assert len(glue.asked) == 1


def test_names_of_schemas_are_listed() -> None:
    assert recorded(RecordedGlue()).subjects() == ["game-events", "shop-events"]


class EndpointConnectionError(Exception):
    """As botocore's."""


class NoCredentialsError(Exception):
    """As botocore's."""


@pytest.mark.parametrize(
    ("error", "meaning"),
    [
        (ClientError("InternalServiceException"), RegistryFault),
        (ClientError("ThrottlingException"), RegistryFault),
        (ClientError("InvalidInputException"), RegistryFault),
        (EndpointConnectionError("hush"), RegistryUnavailable),
        (KeyError("hush"), RegistryUnavailable),
        (ClientError("AccessDeniedException"), CredentialsRefused),
        (ClientError("ExpiredTokenException"), CredentialsRefused),
        (NoCredentialsError("hush"), ConfigError),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_trouble_is_never_a_no_and_quotes_nothing(error: Exception, meaning: type[DistributaryError]) -> None:
    everything = dict.fromkeys(("get_schema_version", "list_schemas"), error)
    with pytest.raises(meaning) as raised:
        recorded(RecordedGlue(**everything)).by_ref(FIRST)
    assert "hush" not in str(raised.value)
    assert not isinstance(raised.value, SchemaNotFound)


@pytest.mark.parametrize(
    ("code", "status"), [("ThrottlingException", 400), ("Throttling", 400), ("429", 429)]
)
def test_too_much_to_do_is_nobodys_fault(code: str, status: int) -> None:
    error = ClientError(code, status)
    assert isinstance(translated(error, "a schema", "registry"), RegistryBusy)


def test_a_version_that_alone_fails_is_a_fault_of_its_own() -> None:
    glue = RecordedGlue(get_schema_version=ClientError("InternalServiceException"))
    answer = recorded(glue).by_refs([FIRST])[FIRST]
    assert isinstance(answer, RegistryFault)


def test_a_definition_that_does_not_go_with_the_others_is_refused() -> None:
    with pytest.raises(BadSchema, match="does not go with the versions"):
        recorded(RecordedGlue()).register("game-events", "{}", "JSON")


def test_a_definition_that_glue_does_not_take_is_refused() -> None:
    glue = RecordedGlue(get_schema_by_definition=ClientError("InvalidInputException"))
    with pytest.raises(BadSchema, match="Glue refuses a JSON schema of the name 'game-events'"):
        recorded(glue).register("game-events", "{", "JSON")


def test_references_are_refused() -> None:
    with pytest.raises(BadSchema, match="no references"):
        recorded(RecordedGlue()).register("a", "{}", "JSON", [Reference("b", "b", 1)])


def test_what_is_kept_on_disk_is_had_while_glue_is_away(tmp_path: Path) -> None:
    kept = DiskCache(recorded(RecordedGlue()), tmp_path, GAMES.where)
    versions, schema = kept.versions("game-events"), kept.by_ref(FIRST)
    down = EndpointConnectionError("down")
    away = RecordedGlue(get_schema_version=down, list_schema_versions=down, list_schemas=down)
    later = DiskCache(recorded(away), tmp_path, GAMES.where, lambda _: None)
    assert later.versions("game-events") == versions
    assert isinstance(later.versions("game-events")[0].id, Guid)
    assert later.by_ref(FIRST) == schema
    assert later.offline


def test_without_boto3_the_settings_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "boto3", None)
    with pytest.raises(ConfigError, match=r"install distributary\[aws\]"):
        GlueRegistry(GAMES, IMPATIENT)
