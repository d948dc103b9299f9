"""Something on this machine that takes OpenLineage's events, as a data catalogue does."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Listener:
    """What it was told, and how it answers; it does not until `opened` is set.

    asked  the paths and headers of the requests
    """

    url: str
    status: int = 200
    events: list[dict[str, Any]] = field(default_factory=list)
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    opened: threading.Event = field(default_factory=threading.Event)


@contextmanager
def listening(*, answers: bool = True) -> Iterator[Listener]:
    """It, on a port of its own, until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            listener.asked.append((self.path, dict(self.headers)))
            listener.events.append(json.loads(body))
            listener.opened.wait(60)
            self.send_response(listener.status)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 its name is the base's
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    listener = Listener(f"http://127.0.0.1:{server.server_address[1]}")
    if answers:
        listener.opened.set()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield listener
    finally:
        listener.opened.set()
        server.shutdown()
        server.server_close()
        thread.join()
