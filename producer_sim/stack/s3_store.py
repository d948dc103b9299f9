"""A store that speaks S3, on loopback and in memory: gofakes3 where it is there, which is quick, otherwise moto."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from http.client import HTTPConnection, HTTPException
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from distributary.errors import SetupError
from distributary.producer_sim.stack.ports import LOOPBACK
from distributary.producer_sim.stack.service import Service

# Both promise that of all who put one new name exactly one is first; s3rver and Adobe's S3Mock, for two, do not.
Server = Literal["gofakes3", "moto"]

BUCKET = "lake"

REGION = "us-east-1"

MOTO_SERVER = Path(__file__).with_name("moto_server.py")

# Where `make test-stores` puts moto in a checkout: what it needs would change versions in the environment beside it.
_OF_A_CHECKOUT = ".venv-stores"


class S3Store(Service):
    """The local stack's object store, with one empty bucket; it holds all in memory, so that nothing outlives it."""

    name = "S3 store"
    port_option = "--s3-port"
    keeps = False

    def __init__(self, folder: Path, port: int | None = None, server: Server | None = None) -> None:
        """Manage the store of this folder; see `Service`.

        `server`: what it is run by; by default what is there.
        """
        super().__init__(folder, port)
        self._server = server

    @property
    def url(self) -> str:
        """The bucket, as `sink.root` takes it."""
        return f"s3://{BUCKET}"

    @property
    def endpoint(self) -> str:
        """What clients of S3 take as their endpoint."""
        return self._address(self.port)

    def storage(self) -> dict[str, Any]:
        """How the store is reached, as a settings file takes it for `storage`. Any key is right."""
        login = {"access_key_id": "anybody", "secret_access_key": "${S3_SECRET:-anything}"}
        return {"s3": {"endpoint": self.endpoint, "region": REGION, "login": login}}

    def prepare(self) -> Server:
        """What it will be run by. Raises SetupError where none of them is there."""
        for server in (self._server,) if self._server else _SERVERS:
            if _SERVERS[server]() is not None:
                return server
        raise SetupError(
            f"there is no {self._server or 'server'} to run the {self.name} by: install distributary[s3-server],"
            " or run `make test-stores` in a checkout"
        )

    def _command(self, ports: Mapping[str, int]) -> Sequence[str]:
        server = self.prepare()
        program = str(_SERVERS[server]())
        if server == "moto":
            return [program, str(MOTO_SERVER.resolve()), str(ports["main"]), self._mark]
        where = f"{LOOPBACK}:{ports['main']}"
        # What stands behind the two dashes it does not look at.
        return [program, "-backend", "memory", "-host", where, "-quiet", "--", self._mark]

    def _address(self, port: int) -> str:
        return f"http://{LOOPBACK}:{port}"

    def _ready(self) -> bool:
        try:
            with closing(HTTPConnection(LOOPBACK, self.port, timeout=5)) as connection:
                connection.request("PUT", f"/{BUCKET}")
                # The other one is what it says of a bucket that is there.
                return connection.getresponse().status in (200, 409)
        except (OSError, HTTPException):
            return False


def _gofakes3() -> str | None:
    """The program, of this environment or of the machine."""
    return shutil.which("gofakes3", path=os.pathsep.join((f"{sys.prefix}/bin", os.environ.get("PATH", ""))))


def _python_with_moto() -> str | None:
    if all(find_spec(name) for name in ("moto", "flask", "flask_cors")):
        return sys.executable
    beside = Path(sys.prefix).with_name(_OF_A_CHECKOUT) / "bin" / "python"
    return str(beside) if beside.is_file() else None


# What runs each of them, the quicker one first.
_SERVERS: Mapping[Server, Callable[[], str | None]] = {"gofakes3": _gofakes3, "moto": _python_with_moto}
