"""A relay in front of a store on this machine, which loses answers to what the store has done."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Literal, TypeVar

# How an answer gets lost: the connection breaks, or somebody in between answers in the store's place.
Loss = Literal["cut", "500", "503", "429", "403", "400"]


def no(status: str) -> bytes:
    """An answer in the store's place."""
    # It says that the connection ends: a client that kept it for its next request would find it ended, now and then.
    return f"HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode()


_ANSWERS = {
    "500": no("500 Internal Server Error"),
    "503": no("503 Slow Down"),
    "429": no("429 Too Many Requests"),
    "403": no("403 Forbidden"),
    # As S3 says that a token has expired.
    "400": no("400 Bad Request"),
}

_CONFLICT = no("409 Conflict")


@dataclass(frozen=True)
class Head:
    """A request's method and target, and its headers by their names in small letters."""

    method: str
    target: str
    headers: Mapping[str, str]

    @classmethod
    def of(cls, request: bytes) -> Head:
        """A request's, whatever follows it."""
        first, *lines = request.partition(b"\r\n\r\n")[0].decode("latin-1").split("\r\n")
        named = (line.partition(":") for line in lines)
        method, target, _ = first.split(" ")
        return cls(method, target, {name.lower(): value.strip() for name, _, value in named})


@dataclass
class Relay:
    """Passes on requests, one a connection, and answers; `lose` takes away the answers to the next PUTs, or to others.

    of         what the first line of those has in it
    conflicts  so many of the next PUTs are answered with 409 and never reach the store
    before     called once, between the next PUT's arrival and its way to the store
    away       how every request is answered while nothing reaches the store
    behind     what it shows of itself where it is reached by TLS
    heads      what came before the bodies, each request's
    """

    store: int
    port: int = 0
    losses: list[Loss] = field(default_factory=list)
    of: bytes = b"PUT "
    conflicts: int = 0
    before: Callable[[], None] | None = None
    away: Loss | None = None
    behind: ssl.SSLContext | None = None
    heads: list[Head] = field(default_factory=list)

    def lose(self, *how: Loss, of: bytes = b"PUT ") -> None:
        """Let the store do what the next PUTs ask, or others by what their first line has in it, and its answers be lost in these ways."""
        self.losses, self.of = list(how), of

    def serve(self, listener: socket.socket) -> None:
        """Until the listener is closed."""
        with suppress(OSError):
            while True:
                threading.Thread(target=self._pass_on, args=(listener.accept()[0],), daemon=True).start()

    def _pass_on(self, accepted: socket.socket) -> None:
        with accepted, suppress(OSError), self._spoken(accepted) as client:
            request = _one_message(client)
            self.heads.append(Head.of(request))
            if self.away is not None:
                client.sendall(_ANSWERS.get(self.away, b""))
                return
            meant = self.of in request.partition(b"\r\n")[0]
            client.sendall(self._put(request) if meant else self._asked(request))

    def _spoken(self, accepted: socket.socket) -> socket.socket:
        return accepted if self.behind is None else self.behind.wrap_socket(accepted, server_side=True)

    def _put(self, request: bytes) -> bytes:
        if self.conflicts:
            self.conflicts -= 1
            return _CONFLICT
        if self.before is not None:
            call, self.before = self.before, None
            call()
        answer = self._asked(request)
        return _ANSWERS.get(self.losses.pop(0), b"") if self.losses else answer

    def _asked(self, request: bytes) -> bytes:
        head, _, body = request.partition(b"\r\n\r\n")
        with socket.create_connection(("127.0.0.1", self.store)) as store:
            # One answer, and then the end: so no length has to be counted.
            store.sendall(head + b"\r\nConnection: close\r\n\r\n" + body)
            return b"".join(iter(lambda: store.recv(1 << 16), b""))


def _one_message(client: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        data += _more(client)
    head = data.partition(b"\r\n\r\n")[0]
    lines = head.lower().split(b"\r\n")
    length = next((int(line.partition(b":")[2]) for line in lines if line.startswith(b"content-length:")), 0)
    while len(data) < len(head) + 4 + length:
        data += _more(client)
    return data


def _more(client: socket.socket) -> bytes:
    got = client.recv(1 << 16)
    if not got:
        raise ConnectionResetError
    return got


_R = TypeVar("_R", bound=Relay)


@contextmanager
def served(relay: _R) -> Iterator[_R]:
    """The relay at a port of its own, for as long as the `with` block lasts."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        relay.port = listener.getsockname()[1]
        thread = threading.Thread(target=relay.serve, args=(listener,), daemon=True)
        thread.start()
        yield relay
        # Closing alone does not wake who waits in `accept`.
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


@contextmanager
def relayed(store: int, behind: ssl.SSLContext | None = None) -> Iterator[Relay]:
    """A relay in front of the store at this port; reached by TLS with what is shown then."""
    with served(Relay(store, behind=behind)) as relay:
        yield relay
