"""Whether anybody listens where the brokers should be: Java's client says of a refused connection only that time ran out."""

from __future__ import annotations

import http.client
import socket
import ssl
from urllib.parse import SplitResult, urlsplit

_SECONDS = 1.0

# A server that takes connections may be hung; one that works says something to any question sooner.
_ANSWER_SECONDS = 5.0

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
    """The same of an HTTP server by its URL, and why none of its answers can be had; empty for what is no URL.

    A server of tokens that hangs is no wrong credential, and a client tells both alike.
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    server = parts.netloc.rpartition("@")[2]
    has_port = server.rpartition(":")[2].isdigit()
    place = server if has_port else f"{server}:{80 if parts.scheme == 'http' else 443}"
    return what_is_wrong(place) or _no_answer(place, parts)


def _no_answer(place: str, url: SplitResult) -> str:
    """Empty where it answers anything but that it does not work; it is told nothing that the address holds beside its path."""
    try:
        asked = _connection(place, url)
        try:
            asked.request("GET", url.path or "/")
            status = asked.getresponse().status
        finally:
            asked.close()
    except TimeoutError:
        return f"{place}: it takes connections and gives no answer"
    except (OSError, ValueError, http.client.HTTPException):
        return ""
    return f"{place}: it answers {status}" if status >= http.client.INTERNAL_SERVER_ERROR else ""


def _connection(place: str, url: SplitResult) -> http.client.HTTPConnection:
    if url.scheme == "http":
        return http.client.HTTPConnection(place, timeout=_ANSWER_SECONDS)
    # Whoever it is: only whether it answers is asked.
    return http.client.HTTPSConnection(
        place,
        timeout=_ANSWER_SECONDS,
        context=ssl._create_unverified_context(),  # noqa: S323
    )


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
