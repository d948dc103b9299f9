"""moto's S3 as a process of its own: in memory, on a free port of 127.0.0.1, with a PUT that is one step.

moto checks `If-None-Match` and then puts, with nothing in between that keeps another thread out; S3 promises more, and so a
lock goes around both. The port is the first line that it prints; it ends when its standard input does.
"""

from __future__ import annotations

import sys
import threading
from typing import Any

from moto.s3.responses import S3Response
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

_one_at_a_time = threading.Lock()


def _put_in_one_step(put: Any) -> Any:
    def locked(self: Any, *given: Any, **named: Any) -> Any:
        with _one_at_a_time:
            return put(self, *given, **named)

    return locked


def main() -> None:
    """Serve until nobody holds the other end of standard input."""
    setattr(S3Response, "put_object", _put_in_one_step(S3Response.put_object))  # noqa: B010
    server = make_server("127.0.0.1", 0, DomainDispatcherApplication(create_backend_app), threaded=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_port, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
