"""Renews the lists of jars of each supported Spark, `ingest/spark/spark_jars_*.lock`, from the table in `ingest/spark/supported.py`.

`python tools/lock_jars.py [4.0 ...]` fetches the jars anew with the Ivy that PySpark ships, which checks what the artifact
repository says of them, and writes their sha256 and size.
"""

from __future__ import annotations

import hashlib
import sys
import tempfile
from pathlib import Path

from distributary.ingest.spark.artifact_list import Artifact
from distributary.ingest.spark.ivy import retrieve
from distributary.ingest.spark.supported import SPARKS, SparkLine

HEADING = """\
# The jars on Spark {name}'s class path: Delta, Spark's Kafka source and Avro. Made by tools/lock_jars.py.
# organisation:name:revision[:classifier:extension]  sha256  bytes
"""


def lock(line: SparkLine) -> None:
    """Write the list of one Spark."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder, "jars")
        wanted = [_unknown(coordinates) for coordinates in line.jars]
        retrieve(wanted, target, Path(folder, "work"))
        lines = [
            _told(coordinates, (target / artifact.file_name).read_bytes())
            for coordinates, artifact in zip(line.jars, wanted, strict=True)
        ]
    line.jar_list.write_text(HEADING.format(name=line.name) + "".join(lines), encoding="utf-8")


def _unknown(coordinates: str) -> Artifact:
    org, name, revision = coordinates.split(":")
    return Artifact(org, name, revision, "", "jar", "", 0)


def _told(coordinates: str, content: bytes) -> str:
    return f"{coordinates} {hashlib.sha256(content).hexdigest()} {len(content)}\n"


if __name__ == "__main__":
    for each in SPARKS:
        if not sys.argv[1:] or each.name in sys.argv[1:]:
            lock(each)
