"""A real HTTP server that gives the answers it is told, so that dialects, outages and TLS meet the real client."""

from __future__ import annotations

import json
import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Lock, Thread
from typing import Any
from urllib.parse import quote

import pytest

from distributary.registry.confluent.options import RegistryOptions
from distributary.registry.confluent.registry import ConfluentRegistry


@dataclass(frozen=True)
class Reply:
    """One HTTP answer; a `hold` keeps it back until the event is set."""

    status: int
    body: bytes
    content_type: str = "application/vnd.schemaregistry.v1+json"
    hold: Event | None = None


class AnswerServer(ThreadingHTTPServer):
    """Answers each path with the replies given for it, one after another, the last one for ever.

    A path may end in `?deleted=true`; all other queries are ignored, as registries ignore what they do not know.
    """

    daemon_threads = True
    # More than these at once are not even heard, and a client waits for a second until it tries again.
    request_queue_size = 128

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_side=True)
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{self.server_address[1]}"
        self.seen: list[tuple[str, str, dict[str, str], bytes]] = []
        self._replies: dict[str, list[Reply]] = {"/schemas/types": [self.json(["AVRO", "JSON", "PROTOBUF"])]}
        self._lock = Lock()
        self._end = Event()

    @staticmethod
    def json(body: object, status: int = 200) -> Reply:
        """An answer in JSON."""
        return Reply(status, json.dumps(body).encode())

    @staticmethod
    def raw(body: bytes, status: int, content_type: str = "text/html") -> Reply:
        """An answer of any bytes."""
        return Reply(status, body, content_type)

    @staticmethod
    def unknown(code: int = 40403, message: object = "not found") -> Reply:
        """What registries answer for what they do not know."""
        return AnswerServer.json({"error_code": code, "message": message}, 404)

    def hangs(self, path: str) -> None:
        """Never answer this path while the test runs."""
        self.on(path, Reply(200, b"{}", hold=self._end))

    def version(self, subject: str, version: int, schema_id: int, **fields: object) -> None:
        """Hold this version; `fields` are those of its schema."""
        body = {"subject": subject, "version": version, "id": schema_id, **fields}
        self.on(f"/subjects/{quote(subject, safe='')}/versions/{version}", self.json(body))

    def latest(self, subject: str, version: int, schema_id: int, **fields: object) -> None:
        """Give this version as the latest one."""
        body = {"subject": subject, "version": version, "id": schema_id, **fields}
        self.on(f"/subjects/{quote(subject, safe='')}/versions/latest", self.json(body))

    def release(self) -> None:
        """Let go of the callers that hang."""
        self._end.set()

    def on(self, path: str, *replies: Reply) -> None:
        with self._lock:
            self._replies[path] = list(replies)

    def answer(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Reply:
        with self._lock:
            self.seen.append((method, path, headers, body))
            plain, _, query = path.partition("?")
            # What is given for a path counts for all its queries, unless something is given for deleted ones too.
            with_deleted = f"{plain}?deleted=true" if "deleted=true" in query.lower() else plain
            replies = self._replies.get(with_deleted) or self._replies.get(plain)
            if not replies:
                return Reply(404, b'"Not Found"')
            return replies.pop(0) if len(replies) > 1 else replies[0]

    def calls(self, path: str) -> int:
        with self._lock:
            return sum(seen.partition("?")[0] == path for _, seen, _, _ in self.seen)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Stay quiet: a client that gives up, or distrusts the certificate, is what some tests are about."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: AnswerServer

    def do_GET(self) -> None:
        self._reply()

    def do_POST(self) -> None:
        self._reply()

    def do_PUT(self) -> None:
        self._reply()

    def do_DELETE(self) -> None:
        self._reply()

    def _reply(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        answer = self.server.answer(self.command, self.path, headers, body)
        if answer.hold is not None:
            answer.hold.wait(30)
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(answer.body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is http.server's
        """Say nothing on standard error."""


def serving(tls: ssl.SSLContext | None) -> Iterator[AnswerServer]:
    """A server that runs until it is asked for again."""
    with AnswerServer(tls) as server:
        thread = Thread(target=lambda: server.serve_forever(poll_interval=0.01), daemon=True)
        thread.start()
        yield server
        server.release()
        server.shutdown()
        thread.join()


@pytest.fixture
def server() -> Iterator[AnswerServer]:
    yield from serving(None)


@pytest.fixture
def serve_tls() -> Iterator[Callable[[ssl.SSLContext], AnswerServer]]:
    running = []

    def start(tls: ssl.SSLContext) -> AnswerServer:
        running.append(serving(tls))
        return next(running[-1])

    yield start
    for each in running:
        next(each, None)


Connect = Callable[..., ConfluentRegistry]


@pytest.fixture
def connect() -> Iterator[Connect]:
    """Makes registry clients of little patience, and closes them after the test."""
    made: list[ConfluentRegistry] = []

    def make(url: str, **options: Any) -> ConfluentRegistry:
        impatient = {"timeout_seconds": 5.0, "retry_seconds": 0.0, "unknown_id_wait_seconds": 0.0}
        made.append(ConfluentRegistry(RegistryOptions(url=url, **{**impatient, **options})))
        return made[-1]

    yield make
    for registry in made:
        registry.close()
