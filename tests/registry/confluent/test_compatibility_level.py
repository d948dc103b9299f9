"""A level set aside is as it was afterwards, whoever spoke last; tests/producer_sim/sending/test_registration.py does it to Apicurio."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from distributary.errors import RegistryUnavailable
from distributary.registry.confluent.compatibility_level import registry_at_none, subject_at_none
from distributary.registry.confluent.connection import Connection

if TYPE_CHECKING:
    from tests.registry.conftest import AnswerServer, Connect

OF_SUBJECT = "/config/a%2Fb"


@pytest.fixture
def connection(server: AnswerServer, connect: Connect) -> Connection:
    return connect(server.url).connection


def changes(server: AnswerServer) -> list[tuple[str, str, str | None]]:
    """Everything that was set or taken away, in order."""
    return [
        (method, path, json.loads(body)["compatibility"] if body else None)
        for method, path, _, body in server.seen
        if method != "GET"
    ]


def test_a_subject_without_a_level_has_none_again(server: AnswerServer, connection: Connection) -> None:
    server.on(OF_SUBJECT, server.unknown(40408), server.json({"compatibility": "NONE"}))
    with subject_at_none(connection, "a/b"):
        assert changes(server) == [("PUT", OF_SUBJECT, "NONE")]
    assert changes(server)[1:] == [("DELETE", OF_SUBJECT, None)]


def test_a_subject_with_a_level_has_it_again_whatever_happens(
    server: AnswerServer, connection: Connection
) -> None:
    server.on(OF_SUBJECT, server.json({"compatibilityLevel": "FULL"}))
    with pytest.raises(ZeroDivisionError), subject_at_none(connection, "a/b"):
        raise ZeroDivisionError
    assert changes(server) == [("PUT", OF_SUBJECT, "NONE"), ("PUT", OF_SUBJECT, "FULL")]


def test_the_registry_s_level_is_set_aside_inside_of_the_subject_s(
    server: AnswerServer, connection: Connection
) -> None:
    server.on(OF_SUBJECT, server.json({"compatibilityLevel": "FULL"}))
    server.on("/config", server.json({"compatibilityLevel": "BACKWARD"}))
    with registry_at_none(connection, "a/b"):
        assert changes(server) == [("PUT", OF_SUBJECT, "NONE"), ("PUT", "/config", "NONE")]
    assert changes(server)[2:] == [("PUT", "/config", "BACKWARD"), ("PUT", OF_SUBJECT, "FULL")]


def test_a_level_that_is_not_told_is_not_touched(server: AnswerServer, connection: Connection) -> None:
    server.on("/config", server.json({}))
    with pytest.raises(RegistryUnavailable, match="does not tell"), registry_at_none(connection, "a/b"):
        pytest.fail("nobody would know how to set it back")
    assert changes(server) == []
