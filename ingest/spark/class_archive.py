"""The archive of classes from which Spark's JVM starts: read and checked once for this user, not at each start.

Java's dynamic class-data sharing (JEP 350, https://openjdk.org/jeps/350). A JVM that an archive does not fit, by its version, its class
path or its options, goes on without it and says nothing.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

import pyspark

from distributary.ingest.spark.artifacts import cache_folder
from distributary.ingest.spark.java import Java

JAVA_OPTIONS = "spark.driver.extraJavaOptions"

SILENT = "-Xlog:cds*=error"

# Options are parted at spaces and read as a shell reads them, Java parts archives at colons: no session would start.
_PARTING = re.compile(r"""[\s:'"\\]""")


def starting_from_archive(java: Java) -> dict[str, str]:
    """The setting by which a session's JVM takes its classes from the archive; none where nobody wrote one."""
    options = taking_classes_from(class_archive(java))
    return {JAVA_OPTIONS: options} if options else {}


def taking_classes_from(archive: Path | None) -> str:
    """Options of a JVM that starts from an archive; none where there is no such file, or its path cannot be told."""
    usable = archive is not None and archive.is_file() and not is_parted(archive)
    return f"-XX:SharedArchiveFile={archive} {SILENT}" if usable else ""


def is_parted(path: Path) -> bool:
    """Whether an option of Java's does not lead to a path, since it is parted amid it."""
    return bool(_PARTING.search(str(path)))


def class_archive(java: Java) -> Path:
    """Where the archive for this Java and the installed PySpark is, or would be."""
    asked = hashlib.sha256("\n".join(_identity(java)).encode()).hexdigest()
    return cache_folder() / "classes" / f"spark-{pyspark.__version__}-{asked[:12]}.jsa"


def _identity(java: Java) -> Iterator[str]:
    yield str(Path(pyspark.__file__).parent)
    yield pyspark.__version__
    for file in (java.home / "release", java.home / "lib" / "modules"):
        yield str(file)
        if file.exists():
            yield str(file.stat().st_mtime_ns)
