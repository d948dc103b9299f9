from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from distributary.errors import BadSchema, RegistryUnavailable
from distributary.registry.base import Reference
from distributary.registry.confluent.catalogue import Catalogue

if TYPE_CHECKING:
    from tests.registry.conftest import AnswerServer, Connect

CHECK = "/compatibility/subjects/a%2Fb/versions"


@pytest.fixture
def catalogue(server: AnswerServer, connect: Connect) -> Catalogue:
    return Catalogue(connect(server.url).connection)


@pytest.mark.parametrize(
    ("body", "messages"),
    [
        ({"is_compatible": True}, ()),
        ({"is_compatible": True, "messages": []}, ()),
        ({"is_compatible": True, "messages": ["a\n  b", "c"]}, ("a b", "c")),
        ({"is_compatible": True, "messages": "one text"}, ("one text",)),
        ({"isCompatible": True, "message": None}, ()),
    ],
)
def test_a_verdict_is_read_however_it_is_spelt(
    server: AnswerServer, catalogue: Catalogue, body: object, messages: tuple[str, ...]
) -> None:
    server.on(CHECK, server.json(body))
    verdict = catalogue.check("a/b", "text", "PROTOBUF", [Reference("c.proto", "c", 1)])
    assert (verdict.compatible, verdict.messages) == (True, messages)
    method, path, _, sent = server.seen[-1]
    assert (method, path) == ("POST", f"{CHECK}?verbose=true")
    assert json.loads(sent) == {
        "schema": "text",
        "schemaType": "PROTOBUF",
        "references": [{"name": "c.proto", "subject": "c", "version": 1}],
    }


@pytest.mark.parametrize("body", [{}, [], None, {"is_compatible": "yes"}, "text"])
def test_a_verdict_that_says_nothing_is_no_verdict(
    server: AnswerServer, catalogue: Catalogue, body: object
) -> None:
    server.on(CHECK, server.json(body))
    with pytest.raises(RegistryUnavailable, match="lacks what it should say"):
        catalogue.check("a/b", "{}", "AVRO")


def test_what_is_no_schema_is_a_bad_schema(server: AnswerServer, catalogue: Catalogue) -> None:
    server.on(CHECK, server.json({"error_code": 42201, "message": "Invalid schema"}, 422))
    with pytest.raises(BadSchema, match="Invalid schema"):
        catalogue.check("a/b", "{nope", "AVRO")


def test_where_there_is_no_level_none_is_told(server: AnswerServer, catalogue: Catalogue) -> None:
    assert catalogue.level("s") is None
    server.on("/config", server.json({"compatibility": "FULL"}))
    assert catalogue.level("s") == "FULL"
    server.on("/config/s", server.json({"compatibilityLevel": "NONE"}))
    assert catalogue.level("s") == "NONE"


@pytest.mark.parametrize("status", [200, 204])
def test_an_empty_list_of_subjects_is_no_answer(
    server: AnswerServer, catalogue: Catalogue, status: int
) -> None:
    server.on("/subjects", server.raw(b"", status))
    with pytest.raises(RegistryUnavailable):
        catalogue.subjects()


@pytest.mark.parametrize("body", [{"version": 1}, {"version": 1, "id": None}, {"version": "x", "id": 1}])
def test_a_latest_version_that_lacks_something_is_no_answer(
    server: AnswerServer, catalogue: Catalogue, body: object
) -> None:
    server.on("/subjects/s/versions/latest", server.json(body))
    with pytest.raises(RegistryUnavailable, match="latest version of subject 's'"):
        catalogue.latest("s")
