"""A registry that answers as a real one behind it does, except where a test wants it to deny; it counts what it is asked."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

NOT_FOUND = b'{"error_code": 40403, "message": "Schema not found"}'

BROKEN = b'{"error_code": 50001, "message": "Error in the backend data store"}'

UNAUTHORIZED = b'{"error_code": 401, "message": "Unauthorized"}'


class RegistryProxy:
    """`asked` counts requests for schemas by the id; `deny` makes the next requests for an id a 404, `refusing` all a 401.

    `failing` are the ids for which it answers 500, ends of addresses likewise, None among them for all questions.
    Nothing is answered while `awake` is not set.
    """

    def __init__(self, behind: str) -> None:
        self._behind = urlsplit(behind)
        self._lock = threading.Lock()
        self._denials: Counter[str] = Counter()
        self.asked: Counter[str] = Counter()
        self.url = ""
        self.refusing = False
        self.failing: set[int | str | None] = set()
        self.awake = threading.Event()
        self.awake.set()

    def deny(self, schema_id: int, times: int) -> None:
        """Deny this id so many times, as registries do for a moment after their start."""
        self._denials[str(schema_id)] = times

    def answer(self, path: str) -> tuple[int, bytes]:
        """The status and the body for a GET."""
        self.awake.wait()
        _, found, rest = path.partition("/schemas/ids/")
        schema_id = rest.partition("?")[0]
        with self._lock:
            self.asked[schema_id] += bool(found)
            denied = self._denials[schema_id] > 0
            self._denials[schema_id] -= denied
        if self.refusing:
            return 401, UNAUTHORIZED
        ends = tuple(one for one in self.failing if isinstance(one, str))
        ids = {str(one) for one in self.failing if isinstance(one, int)}
        if None in self.failing or schema_id in ids or path.partition("?")[0].endswith(ends):
            return 500, BROKEN
        return (404, NOT_FOUND) if denied else self._passed_on(path)

    def _passed_on(self, path: str) -> tuple[int, bytes]:
        connection = HTTPConnection(str(self._behind.hostname), self._behind.port, timeout=30)
        try:
            connection.request("GET", self._behind.path + path)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()


@contextmanager
def registry_proxy(behind: str) -> Iterator[RegistryProxy]:
    """A proxy before the registry at this address, listening on a loopback port inside the `with` block."""
    proxy = RegistryProxy(behind)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = proxy.answer(self.path)
            # Who has waited for long enough is gone by now.
            with suppress(BrokenPipeError, ConnectionResetError):
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    proxy.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        proxy.awake.set()
        server.shutdown()
        server.server_close()
        thread.join()
