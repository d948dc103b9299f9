"""A login that needs a token from a server which is down, or which knows another secret."""

from __future__ import annotations

import http.server
import json
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import cast

import pytest
from pyspark.sql import SparkSession

from distributary.errors import BrokerUnavailable, ConfigError, DistributaryError, PipelineError, SetupError
from distributary.ingest.kafka import reachable, time_overflow
from distributary.ingest.kafka.cluster import KafkaCluster
from distributary.ingest.kafka.connection import connect
from distributary.ingest.kafka.reachable import what_is_wrong_at
from distributary.ingest.kafka.source import TopicReader
from distributary.ingest.kafka.time_overflow import before_overflows
from distributary.ingest.settings.groups import Source
from distributary.producer_sim.stack.ports import LOOPBACK, free_port

PLANTED = "planted-secret"

MODULE = "org.apache.kafka.common.security.oauthbearer"

Connect = Callable[..., AbstractContextManager[KafkaCluster]]


@pytest.fixture(params=["librdkafka", pytest.param("java", marks=pytest.mark.spark)])
def connecting(request: pytest.FixtureRequest) -> Connect:
    """Connects by one of the clients."""
    return partial(connect, spark=request.getfixturevalue("spark") if request.param == "java" else None)


@pytest.fixture
def quiet(capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """The secret is in nothing that Python or the JVM writes or logs."""
    yield
    assert PLANTED not in "".join(capfd.readouterr())
    # By now its text is that of what comes after a test.
    assert not [one for one in caplog.get_records("call") if PLANTED in one.getMessage()]


@contextmanager
def refusing() -> Iterator[int]:
    """A port where nobody listens."""
    yield free_port()


@contextmanager
def silent() -> Iterator[int]:
    """A port where connections are taken and nothing is said."""
    with socket.create_server((LOOPBACK, free_port())) as server:
        yield int(server.getsockname()[1])


@contextmanager
def answering(status: int) -> Iterator[int]:
    """The port of a server that answers so, and says the secret that it was asked with."""

    class Endpoint(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.do_POST()

        def do_POST(self) -> None:
            body = json.dumps({"error": "invalid_client", "error_description": PLANTED}).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Endpoint) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield int(server.server_address[1])
        finally:
            server.shutdown()
            thread.join()


def source_of(token_port: int, address: str = "{place}/token") -> Source:
    """A broker that is never reached, and the server of tokens that it needs."""
    kafka = {
        "bootstrap.servers": "127.0.0.1:1",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": f'{MODULE}.OAuthBearerLoginModule required clientId="me" clientSecret="{PLANTED}";',
        "sasl.login.callback.handler.class": f"{MODULE}.secured.OAuthBearerLoginCallbackHandler",
        "sasl.oauthbearer.token.endpoint.url": "http://" + address.format(place=f"127.0.0.1:{token_port}"),
        # As long as that a server is asked again.
        "sasl.login.retry.backoff.ms": "50",
        "sasl.login.retry.backoff.max.ms": "100",
    }
    return Source.model_validate({"kafka": kafka, "topics": ["events"]})


def failure(
    connecting: Connect, token_port: int, timeout_seconds: float, address: str = "{place}/token"
) -> DistributaryError:
    """What is said in one sentence, without the secret, of a broker that is never reached."""
    with (
        pytest.raises(DistributaryError) as caught,
        connecting(source_of(token_port, address), timeout_seconds=timeout_seconds) as cluster,
    ):
        cluster.cluster_id()
    said = str(caught.value)
    assert PLANTED not in said
    assert "\n" not in said
    assert not re.search(r"\bat (org|java)\.|Exception", said)
    return caught.value


SILENCES: dict[str, Callable[[], AbstractContextManager[int]]] = {
    "refuses": refusing,
    "is silent": silent,
    "fails": partial(answering, 500),
    "is busy": partial(answering, 503),
}


@pytest.mark.parametrize("server", SILENCES.values(), ids=SILENCES.keys())
def test_a_server_of_tokens_that_is_down_is_an_outage(
    server: Callable[[], AbstractContextManager[int]], connecting: Connect, quiet: None
) -> None:
    # Nobody answers, however long one waits.
    with server() as port:
        error = failure(connecting, port, timeout_seconds=0.5)
    assert isinstance(error, BrokerUnavailable)


@pytest.mark.parametrize("how", ["is silent", "fails", "is busy"])
def test_a_server_of_tokens_that_takes_connections_and_is_down_is_told_from_one_that_refuses(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # librdkafka has one error for both, and gives up on a silent server after 20 seconds.
    monkeypatch.setattr(reachable, "_ANSWER_SECONDS", 0.2)
    with SILENCES[how]() as port:
        assert what_is_wrong_at(f"http://127.0.0.1:{port}/token?key={PLANTED}").startswith(
            f"127.0.0.1:{port}: "
        )
    with answering(401) as port:
        assert what_is_wrong_at(f"http://127.0.0.1:{port}/token") == ""


def test_a_server_of_tokens_that_hangs_behind_tls_is_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reachable, "_ANSWER_SECONDS", 0.2)
    with silent() as port:
        assert "gives no answer" in what_is_wrong_at(f"https://127.0.0.1:{port}/token")


def test_a_secret_that_the_server_of_tokens_does_not_know_is_a_wrong_setting(
    connecting: Connect, quiet: None
) -> None:
    with answering(401) as port:
        error = failure(connecting, port, timeout_seconds=2.0)
    assert isinstance(error, ConfigError | SetupError)


@pytest.mark.parametrize("address", [f"me:{PLANTED}@{{place}}/token", f"{{place}}/token?key={PLANTED}"])
def test_a_secret_in_the_address_of_the_server_of_tokens_is_not_told(
    address: str, connecting: Connect, quiet: None
) -> None:
    # Which Java quotes whole.
    with answering(404) as port:
        failure(connecting, port, 1.0, address)


def test_the_secret_is_not_told_where_records_are_read_around_sparks_source(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, quiet: None
) -> None:
    monkeypatch.setattr(time_overflow, "_PATIENCE_SECONDS", 1.0)
    with answering(401) as port:
        # No session: it is a consumer of librdkafka's that reads.
        topics = TopicReader(cast("SparkSession", None), "games", source_of(port), headers=True)
        with pytest.raises(PipelineError, match="cannot either"):
            before_overflows(topics, {"events": {0: (0, 5)}})
    assert "OIDC" in caplog.text, "librdkafka says what the server answers"
