"""The JVMs that tests and drills start by the dozen, and that live for seconds: told to be up soon."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from distributary.errors import SetupError
from distributary.ingest.spark.class_archive import class_archive, taking_classes_from
from distributary.ingest.spark.java import find_java

# The second compiler and the parallel collector cost them more than they give.
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def _spark() -> Path | None:
    # Many tests need no Java.
    with suppress(SetupError):
        return class_archive(find_java())
    return None


# What tells each kind of JVM so, and the archive of classes from which it starts in half the time, if `make` wrote it.
ARCHIVES = Path(sys.prefix) / ".classes"
JVMS: dict[str, Callable[[], Path | None]] = {
    # For those that spark-submit starts, which our sessions' settings do not reach.
    "SPARK_SUBMIT_OPTS": _spark,
    "SPARK_LAUNCHER_OPTS": lambda: None,
    "KAFKA_JVM_PERFORMANCE_OPTS": lambda: ARCHIVES / "broker.jsa",
    "JAVA_OPTS_APPEND": lambda: ARCHIVES / "registry.jsa",
}


def make_jvms_start_fast() -> None:
    """Put it into the environment of whatever this process starts, where nobody says otherwise."""
    for variable, archive in JVMS.items():
        os.environ.setdefault(variable, f"{SHORT_LIVED} {taking_classes_from(archive())}".strip())
