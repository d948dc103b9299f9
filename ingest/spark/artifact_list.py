"""The exact lists of jars and archives that the product ships: coordinates, sha256 and size of each."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from distributary.errors import SetupError


@dataclass(frozen=True, slots=True)
class Artifact:
    """One file of an artifact repository, pinned to its content."""

    org: str
    name: str
    revision: str
    classifier: str
    extension: str
    sha256: str
    bytes: int

    @property
    def file_name(self) -> str:
        """The file's name in the cache, as artifact repositories spell it."""
        classifier = f"-{self.classifier}" if self.classifier else ""
        return f"{self.name}-{self.revision}{classifier}.{self.extension}"


@dataclass(frozen=True, slots=True)
class ArtifactList:
    """All artifacts of one purpose, such as Spark's class path."""

    name: str
    artifacts: tuple[Artifact, ...]

    @property
    def bytes(self) -> int:
        """The size of all files together."""
        return sum(artifact.bytes for artifact in self.artifacts)

    @property
    def fingerprint(self) -> str:
        """Eight hex digits of the list's content: two releases never share, or spoil, each other's folder."""
        content = repr(self.artifacts).encode()
        return hashlib.sha256(content).hexdigest()[:8]


def read_artifact_list(path: Path) -> ArtifactList:
    """The list in a file with lines `organisation:name:revision[:classifier:extension] sha256 bytes`."""
    lines = enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
    artifacts = tuple(
        _artifact(line.split(), f"{path}:{number}") for number, line in lines if line and line[0] != "#"
    )
    return ArtifactList(path.stem, artifacts)


def _artifact(fields: list[str], where: str) -> Artifact:
    coordinates = fields[0].split(":")
    if (
        len(fields) != 3
        or len(coordinates) not in (3, 5)
        or len(fields[1]) != 64
        or not fields[2].isdecimal()
    ):
        raise SetupError(
            f"{where}: not a line `organisation:name:revision[:classifier:extension] sha256 bytes`;"
            " install distributary again"
        )
    org, name, revision, classifier, extension = [*coordinates, "", "jar"][:5]
    return Artifact(org, name, revision, classifier, extension, fields[1], int(fields[2]))
