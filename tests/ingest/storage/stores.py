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
from dataclasses import dataclass, replace
from email.utils import formatdate
from http.client import HTTPConnection
from pathlib import Path
from types import MappingProxyType

import pyspark
import pytest
from tests.ingest.storage import hdfs_jar
from tests.ingest.storage.google_xml import google, service_account_key
from tests.ingest.storage.relay import Relay, relayed

from distributary.errors import SetupError
from distributary.ingest.spark.java import find_java
from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.opening import open_files
from distributary.ingest.storage.options import Azure, Gcs, StorageOptions
from distributary.ingest.storage.place import Place
from distributary.ingest.storage.s3_options import S3, S3Login
from distributary.producer_sim.stack.ports import free_port
from distributary.producer_sim.stack.s3_store import REGION, S3Store, Server

_HDFS = Path(__file__).with_name("MiniDfs.java")

_BUCKET = "lake"

_ACCOUNT = "tests"


@dataclass(frozen=True)
class Store:
    """A store that runs.

    options_by    how it is reached at a port, and so by way of a relay, too
    names_raced   how many names are raced for: fewer where a request takes long
    names_listed  how many names a long listing has, more than a store tells at once
    odd_keys      whether it keeps keys of control characters, and one of a slash alone, as the stores do that it stands for
    """

    url: str
    port: int
    options_by: Callable[[int], StorageOptions]
    names_raced: int = 60
    names_listed: int = 2_500
    odd_keys: bool = True

    def require_odd_keys(self) -> None:
        """Skips a test that is about such keys where the store answers with others, or does not take them."""
        if not self.odd_keys:
            pytest.skip("moto tells a carriage return as a line feed, and has no key of a slash alone")

    def files(self, port: int | None = None) -> Files:
        """The files of a place that nobody else has."""
        return self.files_at(f"{self.url}/{uuid.uuid4().hex}", port)

    def files_at(self, url: str, port: int | None = None) -> Files:
        """The files of a place."""
        return open_files(Place.parse(url), self.options_by(self.port if port is None else port))

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
    """The local stack's store: gofakes3, which is quick, where it is there; otherwise moto."""
    with s3_store(path) as running:
        yield of_stack(running)


def of_stack(running: S3Store) -> Store:
    """The local stack's store as one for these tests."""
    url = f"{running.url}/tests"
    if running.prepare() == "gofakes3":
        return Store(url, running.port, _s3)
    return Store(url, running.port, _s3, names_raced=4, names_listed=1_010, odd_keys=False)


def _s3(port: int) -> StorageOptions:
    login = S3Login(access_key_id="anybody", secret_access_key="anything")  # noqa: S106
    return StorageOptions(s3=S3(endpoint=f"http://127.0.0.1:{port}", region=REGION, login=login))


@contextmanager
def s3_store(path: Path, server: Server | None = None) -> Iterator[S3Store]:
    """The local stack's store, run by this server or by what is there; what needs it is skipped where nothing is."""
    store = S3Store(path / "store", server=server)
    try:
        store.prepare()
    except SetupError as missing:
        pytest.skip(str(missing))
    try:
        store.start()
        yield store
    finally:
        store.kill()


@contextmanager
def azure(path: Path) -> Iterator[Store]:
    """Azurite's Blob Storage, which is checked, conditions and signatures, as Azure's is."""
    program = _program("azurite-blob")
    if program is None:
        pytest.skip("Azurite is not there (make test-stores)")
    port, key = free_port(), base64.b64encode(secrets.token_bytes(64)).decode()
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
def gcs(path: Path) -> Iterator[Store]:
    """The local stack's store, as Google's clients speak: a stand-in, for none of Google's own is to be had."""
    with s3_store(path) as running, google(running.port) as standing_in:
        behind = of_stack(running)

        def options(port: int) -> StorageOptions:
            return StorageOptions(
                gcs=Gcs(endpoint=f"http://127.0.0.1:{port}", service_account_key=service_account_key())
            )

        yield replace(behind, url=f"gs://{_BUCKET}/tests", port=standing_in.port, options_by=options)


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


KINDS = {"posix": folder, "s3": s3, "azure": azure, "gcs": gcs, "hdfs": hdfs}

# They take seconds to start or to answer; a folder and S3 show the same in `make test`.
HEAVY = {"azure", "gcs", "hdfs"}
