"""How the client behaves over real HTTP: patience, caches, threads, time-outs."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Barrier, Event, Thread
from time import monotonic
from typing import TYPE_CHECKING

import pytest

from distributary.errors import CredentialsRefused, RegistryFault, RegistryUnavailable, SchemaNotFound
from distributary.producer_sim.stack.apicurio import ApicurioRegistry
from distributary.registry.base import Schema
from distributary.registry.confluent import bounds
from distributary.registry.confluent.options import RegistryOptions
from distributary.registry.confluent.registry import ConfluentRegistry

if TYPE_CHECKING:
    from tests.registry.conftest import AnswerServer, Connect

ID = "/schemas/ids/7"
BODY = {"schema": '"string"'}


def test_a_known_id_is_asked_for_once(server: AnswerServer, connect: Connect) -> None:
    server.on(ID, server.json(BODY))
    registry = connect(server.url)
    assert registry.by_ref(7) == registry.by_ref(7) == registry.by_refs([7])[7]
    assert server.calls(ID) == 1


def test_the_cache_of_schemas_is_bounded(server: AnswerServer, connect: Connect) -> None:
    for number in (1, 2, 3):
        server.on(f"/schemas/ids/{number}", server.json(BODY))
    registry = connect(server.url, cached_schemas=2)
    for number in (1, 2, 3, 1):
        registry.by_ref(number)
    assert server.calls("/schemas/ids/1") == 2


def test_what_a_subject_s_versions_hold_is_asked_for_at_once(
    server: AnswerServer, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each start asks for all that there are: one by one, a subject that is years old takes as long as it has versions."""
    server.on("/subjects/s/versions", server.json([*range(1, 17)]))
    for number in range(1, 17):
        server.version("s", number, 100 + number, schema='"string"')
    asked, together = ConfluentRegistry._version, Barrier(4, timeout=10)

    def slow(registry: ConfluentRegistry, subject: str, version: int) -> object:
        together.wait()
        return asked(registry, subject, version)

    monkeypatch.setattr(ConfluentRegistry, "_version", slow)
    found = connect(server.url).versions("s")
    assert [(one.version, one.id) for one in found] == [(number, 100 + number) for number in range(1, 17)]


def test_an_id_that_becomes_known_within_the_wait_is_found(server: AnswerServer, connect: Connect) -> None:
    server.on(ID, server.unknown(), server.unknown(), server.json(BODY))
    assert connect(server.url, unknown_id_wait_seconds=30).by_ref(7).text == '"string"'
    assert server.calls(ID) == 3


def test_an_unknown_id_is_asked_again_until_the_wait_is_over_and_then_remembered(
    server: AnswerServer, connect: Connect
) -> None:
    server.on(ID, server.unknown())
    registry = connect(server.url, unknown_id_wait_seconds=0.2)
    began = monotonic()
    with pytest.raises(SchemaNotFound, match=server.url):
        registry.by_ref(7)
    assert monotonic() - began >= 0.2
    calls = server.calls(ID)
    assert calls > 2
    with pytest.raises(SchemaNotFound):
        registry.by_ref(7)
    assert isinstance(registry.by_refs([7])[7], SchemaNotFound)
    assert server.calls(ID) == calls


def test_a_remembered_no_ends_with_its_time(server: AnswerServer, connect: Connect) -> None:
    server.on(ID, server.unknown(), server.json(BODY))
    registry = connect(server.url, unknown_id_cache_seconds=0.0)
    with pytest.raises(SchemaNotFound):
        registry.by_ref(7)
    assert registry.by_ref(7).id == 7


def test_what_is_remembered_as_unknown_is_bounded(server: AnswerServer, connect: Connect) -> None:
    for number in range(5):
        server.on(f"/schemas/ids/{number}", server.unknown())
    registry = connect(server.url, cached_schemas=2)
    for number in (*range(5), 4, 0):
        with pytest.raises(SchemaNotFound):
            registry.by_ref(number)
    assert server.calls("/schemas/ids/4") == 1
    assert server.calls("/schemas/ids/0") == 2


def test_a_hundred_unknown_ids_cost_one_wait(server: AnswerServer, connect: Connect) -> None:
    for number in range(100):
        server.on(f"/schemas/ids/{number}", server.unknown())
    server.on(ID, server.json(BODY))
    began = monotonic()
    answers = connect(server.url, unknown_id_wait_seconds=0.5).by_refs(range(100))
    assert monotonic() - began < 10
    assert list(answers) == list(range(100))
    assert [ref for ref, answer in answers.items() if isinstance(answer, Schema)] == [7]


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_what_passes_is_asked_again(server: AnswerServer, connect: Connect, status: int) -> None:
    trouble = server.json({"error_code": status * 100 + 3, "message": "no master yet"}, status)
    server.on(ID, trouble, trouble, server.json(BODY))
    assert connect(server.url, retry_seconds=30).by_ref(7).id == 7
    assert server.calls(ID) == 3


def test_registering_is_tried_again_while_there_is_no_master(server: AnswerServer, connect: Connect) -> None:
    no_master = server.json({"error_code": 50003, "message": "Error while forwarding"}, 500)
    server.on("/subjects/s/versions", no_master, server.json({"id": 3}))
    assert connect(server.url, retry_seconds=30).register("s", '"int"', "AVRO") == 3


def test_trouble_that_stays_is_unavailable_after_the_time_for_it(
    server: AnswerServer, connect: Connect
) -> None:
    server.on(ID, server.raw(b"", 503))
    began = monotonic()
    with pytest.raises(RegistryUnavailable, match=rf"schema id 7 at {server.url}.*503"):
        connect(server.url, retry_seconds=0.3, unknown_id_wait_seconds=60).by_ref(7)
    assert 0.3 <= monotonic() - began < 10
    assert server.calls(ID) > 1


def test_unavailable_is_never_remembered_as_unknown(server: AnswerServer, connect: Connect) -> None:
    server.on(ID, server.raw(b"", 503), server.json(BODY))
    registry = connect(server.url)
    with pytest.raises(RegistryUnavailable):
        registry.by_refs([7])
    assert registry.by_ref(7).id == 7


def test_a_registry_that_hangs_is_given_up_after_the_time_out(server: AnswerServer, connect: Connect) -> None:
    server.hangs(ID)
    began = monotonic()
    with pytest.raises(RegistryUnavailable, match="Timeout"):
        connect(server.url, timeout_seconds=0.2).by_ref(7)
    assert monotonic() - began < 10


def test_a_hundred_ids_at_a_registry_that_hangs_cost_one_time_out(
    server: AnswerServer, connect: Connect
) -> None:
    for number in range(100):
        server.hangs(f"/schemas/ids/{number}")
    began = monotonic()
    with pytest.raises(RegistryUnavailable):
        connect(server.url, timeout_seconds=0.5).by_refs(range(100))
    assert monotonic() - began < 5


def test_an_id_that_no_answer_comes_for_is_waited_for_no_longer_than_one_that_fails(
    server: AnswerServer, connect: Connect
) -> None:
    """The registry answers everything else, so that whoever waited for it would wait for ever."""
    server.hangs(ID)
    server.on("/subjects", server.json([]))
    for number in range(8, 40):
        server.on(f"/schemas/ids/{number}", server.json(BODY))
    registry = connect(
        server.url,
        timeout_seconds=0.3,
        retry_seconds=0.1,
        failing_id_wait_seconds=1.0,
        latest_cache_seconds=0.0,
    )
    began = monotonic()
    answers = registry.by_refs(range(7, 40))
    assert isinstance(answers.pop(7), RegistryFault)
    assert all(isinstance(answer, Schema) for answer in answers.values())
    assert 1.0 <= monotonic() - began < 10
    # The same id hanging is an outage where nothing else is answered, either.
    server.hangs("/subjects")
    with pytest.raises(RegistryUnavailable):
        registry.by_refs([7])


@pytest.mark.parametrize("status", [301, 302, 500, 599])
def test_an_id_that_is_answered_with_what_is_no_answer_is_waited_for_no_longer_than_one_that_fails(
    server: AnswerServer, connect: Connect, status: int
) -> None:
    server.on(ID, server.raw(b"<html>", status))
    server.on("/subjects", server.json([]))
    answer = connect(server.url, retry_seconds=0.1, failing_id_wait_seconds=0.3).by_refs([7])[7]
    assert isinstance(answer, RegistryFault)


@pytest.mark.parametrize("status", [401, 403, 408, 429])
def test_an_id_that_is_refused_while_others_are_answered_holds_up_none_and_ends_nothing(
    server: AnswerServer, connect: Connect, status: int
) -> None:
    server.on(ID, server.json({"error_code": status, "message": "no"}, status))
    server.on("/subjects", server.json(["one"]))
    for number in range(8, 40):
        server.on(f"/schemas/ids/{number}", server.json(BODY))
    registry = connect(server.url, retry_seconds=0.1, failing_id_wait_seconds=0.3)
    answers = registry.by_refs(range(7, 40))
    assert isinstance(answers.pop(7), RegistryFault)
    assert all(isinstance(answer, Schema) for answer in answers.values())


def test_credentials_that_see_nothing_are_refused(server: AnswerServer, connect: Connect) -> None:
    server.on(ID, server.json({"error_code": 403, "message": "no"}, 403))
    # What registries with rights a subject list to who has none.
    server.on("/subjects", server.json([]))
    with pytest.raises(CredentialsRefused):
        connect(server.url, failing_id_wait_seconds=30).by_ref(7)


def test_what_was_answered_before_the_registry_went_away_is_not_asked_again(
    server: AnswerServer, connect: Connect
) -> None:
    server.on(ID, server.json(BODY))
    server.on("/schemas/ids/8", server.raw(b"", 429), server.raw(b"", 429), server.json(BODY))
    registry = connect(server.url, retry_seconds=0.0)
    with pytest.raises(RegistryUnavailable):
        registry.by_refs([7, 8])
    with pytest.raises(RegistryUnavailable):
        registry.by_refs([7, 8])
    assert registry.by_refs([7, 8]).keys() == {7, 8}
    assert server.calls(ID) == 1


@pytest.mark.parametrize("part", ["head", "body"])
def test_an_answer_that_comes_byte_by_byte_is_given_up(connect: Connect, part: str) -> None:
    """Each byte comes in time, so that no wait for more is too long."""
    with dripping(part) as url:
        began = monotonic()
        with pytest.raises(RegistryUnavailable, match=r"not whole after|Timeout"):
            connect(url, timeout_seconds=0.2, retry_seconds=0.0).by_ref(7)
        assert 1.0 <= monotonic() - began < 10


def test_an_answer_without_end_is_given_up(
    server: AnswerServer, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "MOST_BYTES", 100)
    server.on(ID, server.json({"schema": '"string"' + " " * 200}))
    with pytest.raises(RegistryUnavailable, match="more than 100 bytes"):
        connect(server.url, retry_seconds=0.0).by_ref(7)


@contextmanager
def dripping(part: str) -> Iterator[str]:
    """The address of a server that sends its answer, or the answer's head, without end, a byte each 20 ms."""
    over = Event()
    whole = b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n"
    start = whole + b"\r\n" if part == "body" else whole + b"X: "

    def serve(listening: socket.socket) -> None:
        while not over.is_set():
            try:
                answering, _ = listening.accept()
            except OSError:
                return
            with answering, suppress(OSError):
                answering.recv(65_536)
                answering.sendall(start)
                while not over.wait(0.02):
                    answering.sendall(b" ")

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = Thread(target=serve, args=(listening,), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            over.set()
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()


def test_a_port_where_nobody_listens_is_unavailable(connect: Connect) -> None:
    # Bound all the while, so that nobody else gets it.
    with socket.socket() as bound, pytest.raises(RegistryUnavailable, match="ConnectError"):
        bound.bind(("127.0.0.1", 0))
        connect(f"http://127.0.0.1:{bound.getsockname()[1]}").by_ref(7)


def test_a_second_address_is_tried_when_the_first_is_silent(server: AnswerServer, connect: Connect) -> None:
    server.on(ID, server.json(BODY))
    assert connect(f"http://127.0.0.1:9,{server.url}/").by_ref(7).id == 7


def test_versions_are_kept_for_their_time_and_each_one_read_once(
    server: AnswerServer, connect: Connect
) -> None:
    path = "/subjects/s/versions"
    server.on(path, server.json([1]))
    server.version("s", 1, 70, schema='"int"')
    server.version("s", 2, 71, schema='"long"')
    kept, fresh = connect(server.url), connect(server.url, latest_cache_seconds=0.0)
    assert kept.versions("s") == kept.versions("s") == fresh.versions("s")
    assert server.calls(path) == 2
    server.on(path, server.json([1, 2]))
    assert (len(kept.versions("s")), len(fresh.versions("s"))) == (1, 2)
    assert server.calls(f"{path}/1") == 2


def test_an_unknown_subject_is_remembered_no_longer_than_versions_are(
    server: AnswerServer, connect: Connect
) -> None:
    path = "/subjects/s/versions"
    server.on(path, server.unknown(40401))
    kept, fresh = connect(server.url), connect(server.url, latest_cache_seconds=0.0)
    for registry in (kept, kept, fresh, fresh):
        with pytest.raises(SchemaNotFound):
            registry.versions("s")
    assert server.calls(path) == 3


def test_registering_makes_older_knowledge_of_the_subject_and_id_void(
    server: AnswerServer, connect: Connect
) -> None:
    server.on(ID, server.unknown(), server.json(BODY))
    server.on("/subjects/s/versions", server.unknown(40401), server.json({"id": 7}), server.json([1]))
    server.version("s", 1, 7, **BODY)
    registry = connect(server.url)
    with pytest.raises(SchemaNotFound):
        registry.by_ref(7)
    with pytest.raises(SchemaNotFound):
        registry.versions("s")
    assert registry.register("s", '"string"', "AVRO") == 7
    assert registry.by_ref(7).id == registry.versions("s")[0].id == 7


def test_it_closes_itself_at_the_end_of_a_with_block(server: AnswerServer) -> None:
    server.on(ID, server.json(BODY))
    with ConfluentRegistry(RegistryOptions(url=server.url, retry_seconds=0.0)) as registry:
        assert registry.by_ref(7).id == 7
    with pytest.raises(RegistryUnavailable, match="closed"):
        registry.by_ref(8)


# A pipeline waits for a real registry in tests/ingest/e2e/test_records_unknown_schema.py, a client for a server above.
@pytest.mark.stack
@pytest.mark.heavy
def test_a_real_registry_that_goes_and_comes_back_is_waited_for(tmp_path: Path, connect: Connect) -> None:
    apicurio = ApicurioRegistry(tmp_path / "registry")
    apicurio.prepare()
    apicurio.start()
    try:
        patient, impatient = connect(apicurio.url, retry_seconds=120), connect(apicurio.url)
        registered = patient.register("s", '"int"', "AVRO")
        apicurio.stop()
        with pytest.raises(RegistryUnavailable, match="ConnectError"):
            impatient.by_ref(registered)
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(patient.by_ref, registered)
            apicurio.start()
            assert waiting.result(120).text == '"int"'
    finally:
        apicurio.stop()
