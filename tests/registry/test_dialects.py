"""Answers as Confluent's registry, Karapace, Apicurio and Redpanda give them, recorded, and what they mean to us."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from distributary.errors import BadSchema, ConfigError, RegistryUnavailable, SchemaNotFound
from distributary.registry.base import Guid, Reference, SchemaRef
from distributary.registry.protobuf.text import compile_text

if TYPE_CHECKING:
    from tests.registry.conftest import AnswerServer, Connect

ID = "/schemas/ids/7"
PROTO = 'syntax = "proto3"; message A { int32 a = 1; }'

# What confluent-kafka's ProtobufSerializer registered and Apicurio handed back for `message A { int32 a = 1; }`.
BASE64 = "CgdhLnByb3RvIgwKAUESBwoBYRgBIAEoBWIGcHJvdG8z"


def test_an_answer_without_type_and_references_is_avro(server: AnswerServer, connect: Connect) -> None:
    server.on(ID, server.json({"schema": '"string"'}))
    schema = connect(server.url).by_ref(7)
    assert (schema.id, schema.type, schema.text, schema.references) == (7, "AVRO", '"string"', ())


@pytest.mark.parametrize(
    "extra",
    [
        {"references": []},
        {"references": None},
        {"references": [], "metadata": None, "ruleSet": None, "maxId": 9},
        {"id": 7, "guid": str(uuid4()), "subject": "s", "version": 1, "deleted": False, "ts": 1},
    ],
)
def test_fields_that_only_some_registries_send_do_no_harm(
    server: AnswerServer, connect: Connect, extra: dict[str, object]
) -> None:
    server.on(ID, server.json({"schema": PROTO, "schemaType": "PROTOBUF", **extra}))
    schema = connect(server.url).by_ref(7)
    assert (schema.type, schema.text, schema.references) == ("PROTOBUF", PROTO, ())


def test_a_base64_descriptor_is_handed_on_and_compiles(server: AnswerServer, connect: Connect) -> None:
    server.on(ID, server.json({"schema": BASE64, "schemaType": "PROTOBUF"}))
    schema = connect(server.url).by_ref(7)
    assert compile_text(schema.text, schema.imports)


def test_references_list_only_direct_ones_and_are_followed(server: AnswerServer, connect: Connect) -> None:
    server.on(
        ID,
        server.json(
            {
                "schema": "top",
                "schemaType": "PROTOBUF",
                "references": [{"name": "b.proto", "subject": "a/b", "version": 2}],
            }
        ),
    )
    below = [{"name": "c.proto", "subject": "c", "version": 1}]
    server.version("a/b", 2, 5, schema="middle", schemaType="PROTOBUF", references=below)
    server.version("c", 1, 4, schema="bottom", schemaType="PROTOBUF")
    schema = connect(server.url).by_ref(7)
    assert schema.references == (Reference("b.proto", "a/b", 2),)
    assert list(schema.imports.items()) == [("c.proto", "bottom"), ("b.proto", "middle")]
    assert "deleted=true" in server.seen[-1][1].lower()


def test_a_schema_whose_reference_is_gone_is_not_found(server: AnswerServer, connect: Connect) -> None:
    references = [{"name": "b.proto", "subject": "b", "version": 2}]
    server.on(ID, server.json({"schema": "x", "schemaType": "PROTOBUF", "references": references}))
    server.on("/subjects/b/versions/2", server.unknown(40402))
    with pytest.raises(SchemaNotFound, match=r"schema id 7 cannot be used.*version 2 of subject 'b'"):
        connect(server.url).by_ref(7)


def test_a_type_that_nobody_here_reads_is_a_bad_schema_and_asked_for_once(
    server: AnswerServer, connect: Connect
) -> None:
    server.on(ID, server.json({"schema": "x", "schemaType": "THRIFT"}))
    registry = connect(server.url)
    for _ in range(2):
        with pytest.raises(BadSchema, match="THRIFT"):
            registry.by_ref(7)
    assert server.calls(ID) == 1


@pytest.mark.parametrize(
    ("place", "kind"), [("domainRules", "ENCRYPT"), ("encodingRules", "ENCRYPT_PAYLOAD")]
)
def test_encryption_rules_are_named_and_make_a_schema_unusable(
    server: AnswerServer, connect: Connect, place: str, kind: str
) -> None:
    rules = [
        {"name": "pii", "kind": "TRANSFORM", "mode": "WRITEREAD", "type": kind, "tags": ["PII"]},
        {"name": "off", "kind": "TRANSFORM", "mode": "WRITEREAD", "type": "JSONATA", "disabled": True},
    ]
    server.on(ID, server.json({"schema": '"string"', "ruleSet": {place: rules}}))
    schema = connect(server.url).by_ref(7)
    assert schema.rules == (kind,)
    assert "encrypted in the client" in schema.unusable


@pytest.mark.parametrize(
    "body",
    [
        {"error_code": 40403, "message": "Schema 7 not found"},
        {"error_code": "40403", "message": ["Schema", "not found"]},
        {"error_code": 40403, "message": ""},
        {"error_code": 40403},
    ],
)
def test_a_no_with_a_registrys_code_is_not_found(
    server: AnswerServer, connect: Connect, body: dict[str, object]
) -> None:
    server.on(ID, server.json(body, 404))
    with pytest.raises(SchemaNotFound, match="schema id 7"):
        connect(server.url).by_ref(7)


@pytest.mark.parametrize(
    "body", [b'"Not Found"', b"", b"<html>404</html>", b'{"error_code":404}', b"[]", b"null"]
)
def test_a_bare_404_counts_only_from_what_is_a_registry(
    server: AnswerServer, connect: Connect, body: bytes
) -> None:
    """A wrong address, or a proxy without its backend, must not turn every record into a bad one."""
    server.on(ID, server.raw(body, 404))
    with pytest.raises(SchemaNotFound, match="does not offer"):
        connect(server.url).by_ref(7)
    server.on("/schemas/types", server.raw(body, 404))
    with pytest.raises(RegistryUnavailable, match=r"check the address"):
        connect(server.url).by_ref(7)


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (200, b"<html>maintenance</html>"),
        (200, b'"text"'),
        (200, b"[]"),
        (200, b"{}"),
        (200, b'{"schema": 5}'),
        (200, b'{"schema": "x", "references": [{"name": "n"}]}'),
        (204, b""),
        (301, b""),
        (400, b'{"error_code":400,"message":["a","b"]}'),
        (405, b""),
        (422, b'{"error_code":0,"message":"odd"}'),
        (500, b"plain text"),
    ],
)
def test_any_other_odd_answer_is_no_answer(
    server: AnswerServer, connect: Connect, status: int, body: bytes
) -> None:
    server.on(ID, server.raw(body, status))
    with pytest.raises(RegistryUnavailable, match="no usable answer for schema id 7"):
        connect(server.url).by_ref(7)


def test_a_long_answer_is_quoted_in_short(server: AnswerServer, connect: Connect) -> None:
    server.on(ID, server.raw(b"<html>" + b"x" * 1_000_000, 500))
    with pytest.raises(RegistryUnavailable) as caught:
        connect(server.url).by_ref(7)
    assert len(str(caught.value)) < 1_000


def test_a_schema_is_found_by_guid_where_the_registry_offers_it(
    server: AnswerServer, connect: Connect
) -> None:
    guid = Guid(uuid4())
    server.on(
        f"/schemas/guids/{guid}", server.json({"schema": PROTO, "schemaType": "PROTOBUF", "guid": guid})
    )
    schema = connect(server.url).by_ref(guid)
    assert (schema.id, schema.guid, schema.text) == (0, guid, PROTO)


def test_a_guid_is_not_found_where_the_registry_does_not_offer_it(
    server: AnswerServer, connect: Connect
) -> None:
    with pytest.raises(SchemaNotFound, match="does not offer schema GUID"):
        connect(server.url).by_ref(Guid(uuid4()))


def test_an_id_is_asked_for_in_its_subjects_context_and_so_are_its_references(
    server: AnswerServer, connect: Connect
) -> None:
    """Ids of another context are other ids; a reference that names no context is meant in its parent's."""
    references = [{"name": "b.proto", "subject": "b", "version": 1}]
    server.on(ID, server.json({"schema": "top", "schemaType": "PROTOBUF", "references": references}))
    server.version(":.games:b", 1, 3, schema="below", schemaType="PROTOBUF")
    registry = connect(server.url)
    assert dict(registry.by_ref(7, ":.games:a-value").imports) == {"b.proto": "below"}
    paths = [path for _, path, _, _ in server.seen]
    assert paths[0] == f"{ID}?subject=%3A.games%3Aa-value"
    server.on(ID, server.json({"schema": '"string"'}))
    assert registry.by_ref(7).text == '"string"'
    assert registry.by_ref(7, ":.games:a-value").text == "top"


@pytest.mark.parametrize("ref", [-1, 2**31, Guid("../subjects"), Guid(""), Guid("x" * 36)])
def test_what_no_registry_can_know_is_not_asked_for(
    server: AnswerServer, connect: Connect, ref: SchemaRef
) -> None:
    with pytest.raises(SchemaNotFound):
        connect(server.url, unknown_id_wait_seconds=60).by_ref(ref)
    assert server.seen == []


def test_versions_come_sorted_with_their_ids(server: AnswerServer, connect: Connect) -> None:
    server.on("/subjects/s/versions", server.json([2, 1]))
    server.version("s", 1, 70, schema='"int"')
    server.version("s", 2, 71, schema='"long"', schemaType="AVRO", references=[])
    versions = connect(server.url).versions("s")
    assert [(version.version, version.id) for version in versions] == [(1, 70), (2, 71)]


@pytest.mark.parametrize("code", [40401, 40404])
def test_an_unknown_or_deleted_subject_is_not_found(
    server: AnswerServer, connect: Connect, code: int
) -> None:
    server.on("/subjects/s/versions", server.unknown(code))
    with pytest.raises(SchemaNotFound, match="subject 's'"):
        connect(server.url).versions("s")


def test_a_subject_without_versions_is_not_found(server: AnswerServer, connect: Connect) -> None:
    server.on("/subjects/s/versions", server.json([]))
    with pytest.raises(SchemaNotFound, match="no versions"):
        connect(server.url).versions("s")


@pytest.mark.parametrize("status", [200, 204])
def test_a_list_of_versions_without_a_body_is_no_answer(
    server: AnswerServer, connect: Connect, status: int
) -> None:
    server.on("/subjects/s/versions", server.raw(b"", status))
    with pytest.raises(RegistryUnavailable, match="no usable answer"):
        connect(server.url).versions("s")


def test_registering_sends_type_text_and_references(server: AnswerServer, connect: Connect) -> None:
    server.on("/subjects/a%2Fb/versions", server.json({"id": 9}))
    reference = Reference("b.proto", "b", 1)
    assert connect(server.url).register("a/b", PROTO, "PROTOBUF", [reference]) == 9
    method, _, _, body = server.seen[-1]
    assert method == "POST"
    assert json.loads(body) == {
        "schema": PROTO,
        "schemaType": "PROTOBUF",
        "references": [{"name": "b.proto", "subject": "b", "version": 1}],
    }


@pytest.mark.parametrize(
    ("status", "code", "message"),
    [
        (409, 409, "Incompatible schema, compatibility_mode=BACKWARD"),
        (422, 42201, ["Invalid", "schema"]),
        (422, 0, ""),
        (422, 44302, "JSON Schema references are not supported"),
        (400, 400, "bad request"),
    ],
)
def test_a_refused_schema_is_a_bad_schema(
    server: AnswerServer, connect: Connect, status: int, code: int, message: object
) -> None:
    server.on("/subjects/s/versions", server.json({"error_code": code, "message": message}, status))
    with pytest.raises(BadSchema, match="subject 's'"):
        connect(server.url).register("s", PROTO, "PROTOBUF")


@pytest.mark.parametrize("status", [401, 403])
def test_refused_credentials_are_a_matter_of_settings(
    server: AnswerServer, connect: Connect, status: int
) -> None:
    server.on(ID, server.raw(b"", status))
    with pytest.raises(ConfigError, match=r"registry\.user"):
        connect(server.url, retry_seconds=60, unknown_id_wait_seconds=60).by_ref(7)
    assert server.calls(ID) == 1
