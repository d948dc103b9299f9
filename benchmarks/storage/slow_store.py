"""A store as far away as one likes, as a program: passes requests on to a store on this machine, each so much later.

    python slow_store.py 20001

Its port is the first line that it prints. `PUT /-/delay?0.03` sets the delay in seconds; `DELETE /-/asked` tells the requests since
it was last told, a line each: the method and the target. It is a process of its own, so that it waits for nobody's lock.
"""

from __future__ import annotations

import asyncio
import sys
from asyncio import StreamReader, StreamWriter

# A head is read as a whole; those of signed requests have a few hundred bytes.
_LONGEST = 1 << 20

_PIECE = 1 << 16


class SlowStore:
    """Passes on what each connection asks by a connection of its own."""

    def __init__(self, store: int) -> None:
        self._store = store
        self._delay = 0.0
        self._asked: list[str] = []

    async def serve(self, asker: StreamReader, asked: StreamWriter) -> None:
        """One connection, until either side has enough of it."""
        store: tuple[StreamReader, StreamWriter] | None = None
        try:
            while head := await _head(asker):
                method, target = head.decode("latin-1").split(" ", 2)[:2]
                body = await asker.readexactly(_length(head) or 0)
                if target.startswith("/-/"):
                    asked.write(self._told(target))
                    continue
                self._asked.append(f"{method} {target}")
                if self._delay:
                    await asyncio.sleep(self._delay)
                store = store or await asyncio.open_connection("127.0.0.1", self._store, limit=_LONGEST)
                store[1].write(head + body)
                if not await _pass_on(method, store[0], asked):
                    break
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            for writer in (asked, *(store[1:] if store else ())):
                writer.close()

    def _told(self, target: str) -> bytes:
        told = ""
        if target.startswith("/-/delay?"):
            self._delay = float(target.partition("?")[2])
        elif target == "/-/asked":
            told, self._asked = "\n".join(self._asked), []
        content = told.encode()
        return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(content), content)


async def _head(reader: StreamReader) -> bytes:
    """Up to the empty line; nothing where there is no more."""
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return b""


def _length(head: bytes) -> int | None:
    return next((int(value) for name, value in _headers(head) if name == b"content-length"), None)


def _headers(head: bytes) -> list[tuple[bytes, bytes]]:
    lines = (line.partition(b":") for line in head.lower().split(b"\r\n")[1:])
    return [(name, value.strip()) for name, _, value in lines]


async def _pass_on(method: str, store: StreamReader, asker: StreamWriter) -> bool:
    """Pass on one answer; whether the store goes on listening."""
    head = await _head(store)
    asker.write(head)
    headers, length = _headers(head), _length(head)
    empty = method == "HEAD" or head.split(b" ", 2)[1] in (b"204", b"304")
    chunked = (b"transfer-encoding", b"chunked") in headers
    if chunked and not empty:
        await _pass_on_chunks(store, asker)
    elif not empty:
        await _pass_on_bytes(length, store, asker)
    await asker.drain()
    ends = empty or chunked or length is not None
    return ends and (b"connection", b"close") not in headers


async def _pass_on_chunks(store: StreamReader, asker: StreamWriter) -> None:
    size = 1
    while size:
        line = await store.readline()
        size = int(line, 16)
        asker.write(line + await store.readexactly(size + 2))


async def _pass_on_bytes(length: int | None, store: StreamReader, asker: StreamWriter) -> None:
    """So many; all that come where nobody says how many there are."""
    left = sys.maxsize if length is None else length
    while left and (piece := await store.read(min(left, _PIECE))):
        asker.write(piece)
        left -= len(piece)


async def main(store: int) -> None:
    """Serve until the process is ended."""
    slow = SlowStore(store)
    server = await asyncio.start_server(slow.serve, "127.0.0.1", 0, limit=_LONGEST)
    print(server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
