"""A real Apicurio Registry, which speaks Confluent's API, on loopback, with its schemas in a file."""

from __future__ import annotations

import json
import os
import shutil
import tarfile
from collections.abc import Mapping, Sequence
from contextlib import closing
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from distributary.files import file_lock
from distributary.ingest.spark.artifact_list import read_artifact_list
from distributary.ingest.spark.artifacts import Report, resolve, to_stderr
from distributary.ingest.spark.java import find_java
from distributary.producer_sim.stack.ports import LOOPBACK
from distributary.producer_sim.stack.service import Service

REGISTRY_ARCHIVE = Path(__file__).with_name("registry_archive.lock")

CONFLUENT_API = "/apis/ccompat/v7"

# More options for the registry's Java; the script that starts it in its own image reads it too.
JAVA_OPTIONS_VARIABLE = "JAVA_OPTS_APPEND"


class ApicurioRegistry(Service):
    """The local stack's schema registry; schemas and their ids are kept in the folder."""

    name = "schema registry"
    port_option = "--registry-port"

    def __init__(self, folder: Path, port: int | None = None, report: Report = to_stderr) -> None:
        """Manage the registry of this folder; see `Service`."""
        super().__init__(folder, port)
        self._report = report

    @property
    def url(self) -> str:
        """What Confluent's registry clients take as `url`."""
        return self._address(self.port)

    def prepare(self) -> Path:
        """The registry's runnable jar, fetched and unpacked once for this user."""
        archive = resolve(read_artifact_list(REGISTRY_ARCHIVE), self._report)[0]
        unpacked = archive.parent / "unpacked"
        if not unpacked.is_dir():
            with file_lock(archive.parent / "unpacking.lock"):
                _unpack(archive, unpacked)
        return next(unpacked.glob("*-runner.jar"))

    def _command(self, ports: Mapping[str, int]) -> Sequence[str]:
        # WRITE_DELAY=0: an id that was given out is on disk, whatever ends the process.
        database = f"jdbc:h2:file:{self.folder / 'data' / 'db'};WRITE_DELAY=0"
        return [
            *(str(find_java().path), "-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+ExitOnOutOfMemoryError"),
            *os.environ.get(JAVA_OPTIONS_VARIABLE, "").split(),
            *(self._mark, f"-Dquarkus.http.host={LOOPBACK}", f"-Dquarkus.http.port={ports['main']}"),
            *("-Dapicurio.storage.kind=sql", "-Dapicurio.storage.sql.kind=h2"),
            *(f"-Dapicurio.datasource.url={database}", "-Dquarkus.log.level=WARN"),
            *("-Dquarkus.http.access-log.enabled=false", "-jar", str(self.prepare())),
        ]

    def _address(self, port: int) -> str:
        return f"http://{LOOPBACK}:{port}{CONFLUENT_API}"

    def _ready(self) -> bool:
        try:
            self._call("GET", "/subjects")
            return self._require_compatibility()
        except (OSError, HTTPException, ValueError):
            return False

    def _require_compatibility(self) -> bool:
        # Apicurio's default is NONE, Confluent's is BACKWARD; a level that a user chose is left alone. It is
        # written back either way: a registry that cannot write yet is not ready.
        level = self._call("GET", "/config")["compatibilityLevel"]
        wanted = "BACKWARD" if level == "NONE" else level
        self._call("PUT", "/config", {"compatibility": wanted})
        return bool(self._call("GET", "/config")["compatibilityLevel"] == wanted)

    def _call(self, method: str, path: str, body: Mapping[str, str] | None = None) -> dict[str, str]:
        with closing(HTTPConnection(LOOPBACK, self.port, timeout=5)) as connection:
            content = json.dumps(body) if body is not None else None
            connection.request(method, CONFLUENT_API + path, content, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            text = answer.read()
        if answer.status != 200:
            raise HTTPException(f"{method} {path}: {answer.status}")
        found: dict[str, str] = json.loads(text)
        return found


def _unpack(archive: Path, target: Path) -> None:
    if target.is_dir():
        return
    draft = target.with_suffix(".draft")
    shutil.rmtree(draft, ignore_errors=True)
    with tarfile.open(archive) as content:
        # As an attribute, because early patch releases of Python 3.10 and 3.11 do not know the argument.
        content.extraction_filter = getattr(tarfile, "data_filter", lambda member, _: member)
        content.extractall(draft)  # noqa: S202 (the archive's checksum was verified)
    draft.rename(target)
