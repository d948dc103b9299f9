"""Hadoop's HDFS for tests, in one jar: where it is once `make test-stores` has fetched it."""

from __future__ import annotations

from pathlib import Path

from distributary.ingest.spark.artifact_list import ArtifactList, read_artifact_list
from distributary.ingest.spark.artifacts import cache_folder, resolve


def wanted() -> ArtifactList:
    """The jar and its checksum."""
    return read_artifact_list(Path(__file__).with_name("hdfs_jar.lock"))


def fetched() -> Path | None:
    """The jar; None where nobody has fetched it."""
    jars = wanted()
    path = cache_folder() / "artifacts" / f"{jars.name}-{jars.fingerprint}" / jars.artifacts[0].file_name
    return path if path.is_file() else None


if __name__ == "__main__":
    resolve(wanted())
