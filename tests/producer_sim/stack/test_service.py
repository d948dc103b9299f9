from __future__ import annotations

import socket
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from itertools import chain, repeat
from pathlib import Path

import pytest

from distributary.errors import SetupError
from distributary.producer_sim.stack import service
from distributary.producer_sim.stack.ports import LOOPBACK, free_port, is_open
from distributary.producer_sim.stack.service import Service

LISTENS = """
import signal, socket, sys
servers = [socket.create_server(("127.0.0.1", int(port))) for port in sys.argv[2:]]
signal.pause()
"""


class TwoPorts(Service):
    """The smallest server there is with a second port, of which nothing is asked before it listens there."""

    name = "server"
    port_option = "--port"
    port_names = ("main", "second")

    def _command(self, ports: Mapping[str, int]) -> Sequence[str]:
        return [sys.executable, "-c", LISTENS, self._mark, str(ports["second"]), str(ports["main"])]

    def _address(self, port: int) -> str:
        return f"{LOOPBACK}:{port}"

    def _ready(self) -> bool:
        return is_open(self.port)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[TwoPorts]:
    started = TwoPorts(tmp_path / "server")
    yield started
    started.kill()


@pytest.fixture
def taken() -> Iterator[int]:
    with closing(socket.create_server((LOOPBACK, free_port()))) as holder:
        yield holder.getsockname()[1]


def test_a_server_whose_free_port_is_taken_before_it_listens_starts_on_another(
    server: TwoPorts, taken: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = chain([free_port(), taken, free_port(), taken, free_port(), free_port()])
    monkeypatch.setattr(service, "free_port", lambda: next(given))
    server.start()
    assert is_open(server.port)
    assert next(given, None) is None


def test_a_server_that_never_finds_a_free_port_says_how_its_log_ends(
    server: TwoPorts, taken: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = chain.from_iterable([free_port(), taken] for _ in repeat(None))
    monkeypatch.setattr(service, "free_port", lambda: next(given))
    with pytest.raises(SetupError, match=r"the server ended while starting; its log is .* ends with:"):
        server.start()


def test_a_server_that_had_ports_once_is_not_moved_from_them(
    server: TwoPorts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.start()
    port = server.port
    server.kill()
    monkeypatch.setattr(TwoPorts, "_command", lambda *_: [sys.executable, "-c", "raise SystemExit(1)"])
    again = TwoPorts(tmp_path / "server")
    with pytest.raises(SetupError, match="ended while starting"):
        again.start()
    assert again.port == port
