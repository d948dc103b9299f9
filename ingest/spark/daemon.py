"""The process that forks Spark's Python workers, with what they need imported before it forks them.

Spark starts it in place of `pyspark.daemon` where `spark.python.daemon.module` names this module, and it is that
daemon from there on. A worker forked from it has its modules already: its first batch takes a fraction of the time.
"""

from __future__ import annotations

import gc
import os
import socket
import zipimport
from collections.abc import Callable, Iterable
from contextlib import suppress
from importlib import import_module
from io import BufferedReader, RawIOBase
from typing import IO, Any, TypeAlias

_BUFFER = 2**16

FOR_WORKERS = (
    "distributary.ingest.worker.demux",
    "distributary.codecs.avro.codec",
    "distributary.codecs.json.codec",
    "distributary.codecs.jsonschema.codec",
    "distributary.codecs.mixed.codec",
    "distributary.codecs.protobuf.codec",
    "ptars",
    "pyarrow.compute",
    "pyarrow.json",
    "pyarrow.parquet",
    "pyspark.sql.pandas.serializers",
)
"""What a pipeline's tasks import. None of it starts a thread or opens a connection when it is imported."""


def preloading() -> dict[str, str]:
    """The Spark settings with which workers are forked from a process that has imported what they need."""
    return {"spark.python.daemon.module": __name__}


def prepare(modules: Iterable[str]) -> None:
    """Import these modules and hold everything there is now out of the workers' garbage collections.

    A module that cannot be imported is left to the task that needs it, whose error then tells of it. Modules that
    start a thread when they are imported must not be named: a fork takes no thread along.
    """
    for module in modules:
        with suppress(ImportError):
            import_module(module)
    # Spark asks for this before every task. The archives on the path do not change while it runs, and reading their
    # directories again takes a tenth of a second.
    zipimport.zipimporter.invalidate_caches = _keep  # type: ignore[method-assign, assignment]
    # Spark collects garbage after every task: without what all workers share there is nearly nothing to look through.
    gc.collect()
    gc.freeze()


def _keep(_: zipimport.zipimporter) -> None:
    """Keep what is known of an archive."""


Serve: TypeAlias = Callable[[IO[bytes], IO[bytes]], object]
"""Serves one task that comes by the first and is answered by the second."""


class Acknowledged(RawIOBase):
    """A connection's bytes, of which the kernel tells the sender at once that they are there.

    Spark sends a task and what it is about in small pieces, and its end of the connection holds each back until the one before is
    acknowledged (Nagle's algorithm, RFC 896). The kernel's own acknowledgement of it waits for an answer to go with, forty milliseconds
    (RFC 1122, 4.2.3.2), which every task then lasts longer. https://man7.org/linux/man-pages/man7/tcp.7.html
    """

    def __init__(self, connection: socket.socket) -> None:
        """`connection` is by TCP, on Linux."""
        self._connection = connection

    def readable(self) -> bool:
        """As it is."""
        return True

    def readinto(self, buffer: Any) -> int:
        """How many bytes came; 0 at the end."""
        count = self._connection.recv_into(buffer)
        # The kernel forgets it with each answer that is sent; one that does not know it is as slow as it was.
        with suppress(OSError):
            self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
        return count


def without_delay(serve: Serve) -> Serve:
    """The same, but neither side of a connection by TCP waits for the other's acknowledgement."""

    def served(coming: IO[bytes], going: IO[bytes]) -> object:
        with socket.socket(fileno=os.dup(going.fileno())) as connection:
            if connection.family not in (socket.AF_INET, socket.AF_INET6) or not hasattr(
                socket, "TCP_QUICKACK"
            ):
                return serve(coming, going)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            # Nothing was read ahead: Spark sends the task once the secret it shares was answered.
            return serve(BufferedReader(Acknowledged(connection), _BUFFER), going)

    return served


def main() -> None:
    """Import what a pipeline's tasks do, then fork a worker for whoever asks, until Spark closes standard input."""
    from pyspark import daemon  # noqa: PLC0415 (it imports the kind of worker that the arguments name)

    prepare(FOR_WORKERS)
    daemon.worker_main = without_delay(daemon.worker_main)
    daemon.manager()  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    main()
