"""A store that can be put farther away, and tells what it was asked."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path

_PROGRAM = Path(__file__).with_name("slow_store.py")


@dataclass(frozen=True, slots=True)
class Distance:
    """The way to a store, at a port of its own."""

    port: int

    def set(self, seconds: float) -> None:
        """Let each request take so much longer."""
        self._told("PUT", f"/-/delay?{seconds}")

    def asked(self) -> list[str]:
        """The requests since it was last asked for them: the method, a space, and the target."""
        return self._told("DELETE", "/-/asked").splitlines()

    def _told(self, method: str, target: str) -> str:
        with closing(HTTPConnection("127.0.0.1", self.port, timeout=60)) as connection:
            connection.request(method, target)
            return connection.getresponse().read().decode()


@contextmanager
def distance(store: int) -> Iterator[Distance]:
    """A way to the store at this port of this machine, for as long as the block lasts."""
    command = [sys.executable, str(_PROGRAM), str(store)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield Distance(int(process.stdout.readline()))
        finally:
            process.terminate()
