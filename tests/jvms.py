"""The JVMs that tests and drills start by the dozen, and that live for seconds: told to be up soon."""

from __future__ import annotations

import os
import sys
from pathlib import Path

# The second compiler and the parallel collector cost them more than they give.
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

# What tells each kind of JVM so, and the archive of classes from which it starts in half the time, if `make` wrote it.
JVMS = {
    "SPARK_SUBMIT_OPTS": "spark",
    "SPARK_LAUNCHER_OPTS": "",
    "KAFKA_JVM_PERFORMANCE_OPTS": "broker",
    "JAVA_OPTS_APPEND": "registry",
}
ARCHIVES = Path(sys.prefix) / ".classes"


def make_jvms_start_fast() -> None:
    """Put it into the environment of whatever this process starts, where nobody says otherwise."""
    for variable, archive in JVMS.items():
        os.environ.setdefault(variable, f"{SHORT_LIVED} {_shared(ARCHIVES / f'{archive}.jsa')}".strip())


def _shared(archive: Path) -> str:
    # The options are parted at spaces.
    usable = archive.is_file() and " " not in str(archive)
    return f"-XX:SharedArchiveFile={archive} -Xlog:cds*=error" if usable else ""
