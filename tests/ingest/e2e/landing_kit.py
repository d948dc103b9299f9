"""A pipeline that reads files as they land, in a folder or in a store; it needs neither broker nor registry."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from tests.ingest.e2e.pipeline_kit import _laid_over, _storage
from tests.ingest.e2e.settings_file import SettingsFile
from tests.ingest.storage.stores import Store
from typing_extensions import Self

from distributary.ingest.failpoints import VARIABLE
from distributary.ingest.run import run
from distributary.ingest.settings.model import Settings
from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.opening import open_files
from distributary.ingest.supervision.outcome import Outcome
from distributary.ingest.tables.handle import is_there, opened
from distributary.producer_sim.verify.comparison import verify
from distributary.producer_sim.verify.verdict import Verdict

PATIENCE_SECONDS = 240.0


class LandingKit:
    """One pipeline with a folder, a lake and a checkpoint of its own. `land` brings files, `run` ingests what is there, `rows` shows it."""

    def __init__(self, folder: Path, spark: SparkSession) -> None:
        self.folder, self.spark = folder, spark
        self._file = SettingsFile(folder / "landed.yaml")
        self._document: dict[str, Any] = {
            "name": "landed",
            "source": {"files": {"path": "./landing"}},
            "route": {"by": "topic", "table": "silver_{entity}"},
            "sink": {"root": "./lake"},
            "trigger": {"available_now": True, "interval_seconds": 0},
            "supervisor": {"failures": {"max": 0}},
            "spark": {"master": "local[2]"},
        }

    def configured(self, **changed: Any) -> Self:
        """Lay settings over those there are, group by group."""
        self._document = _laid_over(self._document, changed)
        return self

    def in_store(self, store: Store) -> Self:
        """The pipeline with all that it has, and what it reads, in a place of a store that nobody else has."""
        place = f"{store.url}/{uuid.uuid4().hex}"
        return self.configured(
            checkpoint=f"{place}/checkpoint",
            decode={"schema_location": f"{place}/schemas"},
            sink={"root": f"{place}/lake"},
            source={"files": {"path": f"{place}/landing"}},
            storage=_storage(store),
        )

    @property
    def settings_file(self) -> Path:
        """The settings as a file that the command line takes, written now."""
        return self._file.written(self._document)

    @property
    def settings(self) -> Settings:
        """The settings as they are now."""
        return self._file.read(self._document)

    @property
    def landing(self) -> Files:
        """The folder that files land in."""
        files = self.settings.source.files
        assert files is not None
        return open_files(files.path, self.settings.storage)

    def land(self, files: Mapping[str, bytes]) -> None:
        """Have these files there."""
        for path, content in files.items():
            self.landing.put(path, content)

    def run(self) -> Outcome:
        """Ingest what is there now, in this process."""
        return run(self.settings, spark=self.spark)

    def run_apart(self, failpoints: str = "") -> subprocess.CompletedProcess[str]:
        """Ingest what is there now by the command line, in a process and a JVM of its own."""
        return subprocess.run(
            [
                sys.executable,
                "-m",
                "distributary",
                "run",
                str(self.settings_file),
                "--available-now",
                "--json",
            ],
            env={**os.environ, VARIABLE: failpoints},
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )

    def rows(self, table: str = "silver_landing") -> pa.Table:
        """All rows of a table; none where it is not there."""
        place = open_files(self.settings.sink.root, self.settings.storage).below(table)
        return opened(place).to_pyarrow_table() if is_there(place) else pa.table({})

    def numbers(self, column: str = "n") -> list[int]:
        """The values of a column, sorted."""
        return sorted(self.rows()[column].to_pylist())

    def quarantined(self) -> list[tuple[str, str, int]]:
        """The reason, path and row of what tells of a file in quarantine."""
        rows = self.rows("quarantine").to_pylist()
        told = [(row["reason"], json.loads(row["value"])["distributary_file"]) for row in rows]
        return sorted((reason, of["path"], of["row"]) for reason, of in told)

    def assert_clean(self) -> Verdict:
        """The ledger's sums agree with the tables and with the register."""
        verdict = verify(self.settings)
        assert not verdict.differences, "\n".join(map(str, verdict.differences))
        return verdict


def lines(numbers: range) -> bytes:
    """A file of JSON lines."""
    return b"".join(b'{"n": %d, "of": "%d"}\n' % (number, number) for number in numbers)
