"""Loopback ports: a free one, or the given one if nobody has it."""

from __future__ import annotations

import secrets
import socket
from contextlib import closing, suppress

import psutil

from distributary.errors import SetupError

LOOPBACK = "127.0.0.1"

# A server listens some time after its ports were chosen: until then only we know that they are taken.
_given: set[int] = set()


def free_port() -> int:
    """A loopback port that nobody listens on, and that stays free while its server is down for a moment.

    A program gets no port twice: it may have given it to a server that is not listening yet.

    It lies below the range from which systems take the ports of outgoing connections. A port of that range
    can be lost to any client, and a client that keeps trying to reach a server that is down can even end up
    connected to itself there, after which the server cannot come back.
    """
    while True:
        port = secrets.choice(range(15_000, 32_000))
        if port not in _given and _can_listen(port):
            _given.add(port)
            return port


def require_free(port: int, service: str, option: str) -> None:
    """Raise SetupError, naming the port, its holder and `option`, unless `port` can be listened on."""
    if not 1 <= port <= 65_535:
        raise SetupError(
            f"{port} is no port for the {service}: give {option} a number up to 65535 (0: any free one)"
        )
    if not _can_listen(port):
        raise SetupError(
            f"port {port} for the {service} is taken{_holder(port)}: end what listens there,"
            f" or choose another port with {option} (0: any free one)"
        )


def is_open(port: int) -> bool:
    """Whether something accepts connections on this loopback port."""
    with suppress(OSError), closing(socket.create_connection((LOOPBACK, port), timeout=1)):
        return True
    return False


def _can_listen(port: int) -> bool:
    with closing(socket.socket()) as probe:
        # As the servers do: a port whose last connections are only waiting to time out is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return not is_open(port)


def _holder(port: int) -> str:
    with suppress(psutil.Error):
        for connection in psutil.net_connections("tcp"):
            # An empty address means none; a listening socket always has one.
            listens = connection.status == psutil.CONN_LISTEN and port in tuple(connection.laddr)[1:]
            if listens and connection.pid:
                return f" by {psutil.Process(connection.pid).name()} (process {connection.pid})"
    return ""
