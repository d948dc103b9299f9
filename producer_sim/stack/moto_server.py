"""moto's S3 as a program of its own: in memory, on a port of 127.0.0.1, with a PUT that is one step.

    python moto_server.py 20001

moto checks `If-None-Match` and then puts, with nothing in between that keeps another thread out; S3 promises more, and so a
lock goes around both. It is run by the Python that has moto, which need not have this package: nothing else is imported here.
"""

from __future__ import annotations

import logging
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


def main(port: int) -> None:
    """Serve until the process is ended."""
    # It would write a line for every request.
    logging.getLogger("werkzeug").setLevel(logging.WARNING)
    setattr(S3Response, "put_object", _put_in_one_step(S3Response.put_object))  # noqa: B010
    application = DomainDispatcherApplication(create_backend_app)
    make_server("127.0.0.1", port, application, threaded=True).serve_forever()


if __name__ == "__main__":
    main(int(sys.argv[1]))
