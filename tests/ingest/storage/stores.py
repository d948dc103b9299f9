"""Real stores on 127.0.0.1 for the tests of the seam: one of each kind in a run, each test in a place of its own."""

from __future__ import annotations

import base64
import hmac
import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import formatdate
from http.client import HTTPConnection
from pathlib import Path
from types import MappingProxyType

import pyspark
import pytest
from tests.ingest.storage import hdfs_jar
from tests.ingest.storage.relay import Relay, relayed

from distributary.ingest.spark.java import find_java
from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.opening import open_files
from distributary.ingest.storage.options import Azure, StorageOptions
from distributary.ingest.storage.place import Place
from distributary.ingest.storage.s3_options import S3, S3Login

_MOTO = Path(__file__).with_name("s3_server.py")

_MOTO_PYTHON = Path(__file__).parents[3] / ".venv-stores" / "bin" / "python"

_HDFS = Path(__file__).with_name("MiniDfs.java")

_BUCKET = "lake"

_ACCOUNT = "tests"


@dataclass(frozen=True)
class Store:
    """A store that runs.

    options_by    how it is reached at a port, and so by way of a relay, too
    names_raced   how many names are raced for: fewer where a request takes long
    names_listed  how many names a long listing has, more than a store tells at once
    """

    url: str
    port: int
    options_by: Callable[[int], StorageOptions]
    names_raced: int = 60
    names_listed: int = 2_500

    def files(self, port: int | None = None) -> Files:
        """The files of a place that nobody else has."""
        place = Place.parse(self.url) / uuid.uuid4().hex
        return open_files(place, self.options_by(self.port if port is None else port))

    @contextmanager
    def relayed(self) -> Iterator[tuple[Relay, Files]]:
        """A relay that loses answers, and the files of a place behind it."""
        with relayed(self.port) as relay:
            yield relay, self.files(relay.port)


@contextmanager
def folder(path: Path) -> Iterator[Store]:
    """A folder."""
    yield Store(str(path), 0, lambda _: StorageOptions())


@contextmanager
def s3(path: Path) -> Iterator[Store]:
    """gofakes3, which is quick, where it is on the PATH; otherwise moto."""
    quick = _program("gofakes3")
    with _gofakes3(quick) if quick else moto() as port:
        raced, listed = (60, 2_500) if quick else (4, 1_010)
        yield Store(f"s3://{_BUCKET}/tests", port, _s3, raced, listed)


def _s3(port: int) -> StorageOptions:
    login = S3Login(access_key_id="anybody", secret_access_key="anything")  # noqa: S106
    return StorageOptions(s3=S3(endpoint=f"http://127.0.0.1:{port}", region="us-east-1", login=login))


@contextmanager
def moto() -> Iterator[int]:
    """moto as a process of its own, at this port."""
    if not _MOTO_PYTHON.is_file():
        pytest.skip("neither gofakes3 nor moto is there (make test-stores)")
    # Beside the environment of the tests: what moto needs would change versions in it.
    command = [str(_MOTO_PYTHON), str(_MOTO)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        port = int(server.stdout.readline())
        _ask(port, "PUT", f"/{_BUCKET}")
        yield port
        # It ends when nobody holds its standard input, which leaving this block lets go.


@contextmanager
def _gofakes3(program: str) -> Iterator[int]:
    port = _free_port()
    with _process(
        program, "-backend", "memory", "-host", f"127.0.0.1:{port}", "-initialbucket", _BUCKET
    ) as server:
        _wait_for(port, server)
        yield port


@contextmanager
def azure(path: Path) -> Iterator[Store]:
    """Azurite's Blob Storage, which is checked, conditions and signatures, as Azure's is."""
    program = _program("azurite-blob")
    if program is None:
        pytest.skip("Azurite is not there (make test-stores)")
    port, key = _free_port(), base64.b64encode(secrets.token_bytes(64)).decode()
    where = ("--blobHost", "127.0.0.1", "--blobPort", str(port), "--inMemoryPersistence")
    how = ("--silent", "--disableTelemetry", "--skipApiVersionCheck")
    with _process(program, *where, *how, AZURITE_ACCOUNTS=f"{_ACCOUNT}:{key}") as server:
        _wait_for(port, server)
        _make_container(port, key)

        def options(port: int) -> StorageOptions:
            endpoint = f"http://127.0.0.1:{port}/{_ACCOUNT}"
            return StorageOptions(azure=Azure(account=_ACCOUNT, endpoint=endpoint, account_key=key))

        yield Store(f"az://{_BUCKET}/tests", port, options)


@contextmanager
def hdfs(path: Path) -> Iterator[Store]:
    """HDFS in a JVM of its own: a name node and a data node."""
    jar = hdfs_jar.fetched()
    if jar is None:
        pytest.skip("HDFS is not there (make test-stores)")
    spark = Path(pyspark.__file__).parent / "jars" / "*"
    command = [str(find_java().path), "-cp", f"{jar}:{spark}", str(_HDFS), str(path)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=path
    ) as server:
        assert server.stdout is not None
        told = next(line for line in server.stdout if line.startswith("port "))
        # It tells a thousand names at once.
        yield Store(f"hdfs://127.0.0.1:{told.split()[1]}/tests", 0, lambda _: StorageOptions(), 60, 1_010)


def _make_container(port: int, key: str) -> None:
    """As https://learn.microsoft.com/en-us/rest/api/storageservices/authorize-with-shared-key says."""
    now, version = formatdate(usegmt=True), "2021-08-06"
    named = f"x-ms-date:{now}\nx-ms-version:{version}\n/{_ACCOUNT}/{_ACCOUNT}/{_BUCKET}\nrestype:container"
    text = "PUT" + "\n" * 12 + named
    digest = hmac.digest(base64.b64decode(key), text.encode(), "sha256")
    signature = base64.b64encode(digest).decode()
    headers = {
        "x-ms-date": now,
        "x-ms-version": version,
        "Authorization": f"SharedKey {_ACCOUNT}:{signature}",
    }
    _ask(port, "PUT", f"/{_ACCOUNT}/{_BUCKET}?restype=container", {**headers, "Content-Length": "0"})


@contextmanager
def _process(*command: str, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, **environment}
    ) as server:
        try:
            yield server
        finally:
            server.terminate()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def _wait_for(port: int, server: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + 60
    while not _answers(port):
        assert server.poll() is None and time.monotonic() < until, "the store did not start"


def _answers(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def _ask(port: int, method: str, target: str, headers: Mapping[str, str] = MappingProxyType({})) -> None:
    connection = HTTPConnection("127.0.0.1", port)
    connection.request(method, target, headers=dict(headers))
    answer = connection.getresponse()
    assert answer.status in (200, 201), answer.read()
    connection.close()


def _program(name: str) -> str | None:
    """A program of this environment, or of the machine."""
    return shutil.which(name, path=os.pathsep.join((f"{sys.prefix}/bin", os.environ["PATH"])))


KINDS = {"posix": folder, "s3": s3, "azure": azure, "hdfs": hdfs}

# They take seconds to start and to answer; a folder and S3 show the same in `make test`.
HEAVY = {"azure", "hdfs"}
