"""Bounds on a registry's answers: one that comes byte by byte would hold whoever waits for ever, one without end would take all memory.

The client's own time-out is for each wait for more, and of size it knows none.
"""

from __future__ import annotations

from time import monotonic
from typing import Any

# A whole answer may take so many times what one wait for more of it may.
WAITS = 6

# Far more than any registry takes for a schema, and than a list of a million subjects has.
MOST_BYTES = 128 * 2**20


class BoundsPassed(Exception):
    """An answer takes too long, or is too large."""


def bounded(session: Any, seconds: float) -> None:
    """Have no answer to this `httpx.Client` take more than so many seconds, or hold more than MOST_BYTES.

    BoundsPassed is raised in place of one that does.
    """

    def read(response: Any) -> None:
        parts, size = list[bytes](), 0
        # As it is unpacked: of a packed answer few bytes may be many.
        for part in response.iter_bytes():
            parts.append(part)
            size += len(part)
            if size > MOST_BYTES:
                raise BoundsPassed(f"an answer of more than {MOST_BYTES} bytes")
        response._content = b"".join(parts)

    session.event_hooks = {**session.event_hooks, "response": [*session.event_hooks["response"], read]}
    for transport in {session._transport, *session._mounts.values()} - {None}:
        transport._pool._network_backend = _Connecting(transport._pool._network_backend, seconds)


class _Connecting:
    """httpcore's way to servers, by connections that bound how long an answer takes."""

    def __init__(self, inner: Any, seconds: float) -> None:
        self._inner, self._seconds = inner, seconds

    def connect_tcp(self, *args: Any, **named: Any) -> _Bounded:
        return _Bounded(self._inner.connect_tcp(*args, **named), self._seconds)

    def connect_unix_socket(self, *args: Any, **named: Any) -> _Bounded:
        return _Bounded(self._inner.connect_unix_socket(*args, **named), self._seconds)

    def sleep(self, seconds: float) -> None:
        self._inner.sleep(seconds)


class _Bounded:
    """A connection whose answer has to be there so many seconds after the question was sent."""

    def __init__(self, inner: Any, seconds: float) -> None:
        self._inner, self._seconds = inner, seconds
        self._until = monotonic() + seconds

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        left = self._until - monotonic()
        if left <= 0:
            raise BoundsPassed(f"an answer that was not whole after {self._seconds:g} s")
        return bytes(self._inner.read(max_bytes, left if timeout is None else min(timeout, left)))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._inner.write(buffer, timeout)
        self._until = monotonic() + self._seconds

    def close(self) -> None:
        self._inner.close()

    def start_tls(self, *args: Any, **named: Any) -> _Bounded:
        return _Bounded(self._inner.start_tls(*args, **named), self._seconds)

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)
