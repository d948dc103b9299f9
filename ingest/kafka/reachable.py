"""Whether anybody listens where the brokers should be: Java's client says of a refused connection only that time ran out."""

from __future__ import annotations

import socket
from urllib.parse import urlsplit

_SECONDS = 1.0

# Each may take a second.
_MOST_TRIED = 3


def what_is_wrong(servers: str) -> str:
    """Why no connection comes about, server by server; empty where one of them takes connections."""
    tried = [server.strip() for server in servers.split(",")][:_MOST_TRIED]
    troubles = {server: _trouble(server) for server in tried}
    if not all(troubles.values()):
        return ""
    return ", ".join(f"{server}: {trouble}" for server, trouble in troubles.items())


def what_is_wrong_at(url: str) -> str:
    """The same of a server by its URL; empty for what is no URL."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    server = parts.netloc.rpartition("@")[2]
    has_port = server.rpartition(":")[2].isdigit()
    return what_is_wrong(server if has_port else f"{server}:{80 if parts.scheme == 'http' else 443}")


def _trouble(server: str) -> str:
    """Empty where it takes a connection, or the address has no form that is known here."""
    host, _, port = server.rpartition(":")
    host = host.rpartition("//")[2].strip("[]")
    if not port.isdigit():
        return ""
    try:
        socket.create_connection((host, int(port)), _SECONDS).close()
    except OSError as error:
        return error.strerror or str(error) or type(error).__name__
    except ValueError:  # a host name with an empty or too long label
        return "no host can have this name"
    return ""
