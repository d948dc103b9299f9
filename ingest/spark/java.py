"""The Java on this machine: where it is, whether Spark and the local stack can run on it, and where Spark's puts things away."""

from __future__ import annotations

import atexit
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from distributary.errors import SetupError
from distributary.files import TemporaryFolder
from distributary.ingest.spark.supported import SparkLine

# The registry and the broker run on both.
SUPPORTED = (17, 21)

REMEDY = "install a Java 17 or 21 runtime and put it on PATH, or point JAVA_HOME at it"


@dataclass(frozen=True, slots=True)
class Java:
    """A Java launcher that was run once, and the major version it reported."""

    path: Path
    major: int

    @property
    def home(self) -> Path:
        """What JAVA_HOME has to be for this launcher to be used."""
        return self.path.resolve().parent.parent


def find_java(environment: Mapping[str, str] | None = None, line: SparkLine | None = None) -> Java:
    """The Java of JAVA_HOME, else the first on PATH. Raises SetupError if there is none, or one that `line` does not run on.

    Without a `line` it is for something else, which runs on Java 17 and 21.
    """
    path, named_by = _launcher(os.environ if environment is None else environment)
    major, wanted = _major(path), SUPPORTED if line is None else line.javas
    if major in wanted:
        return Java(path, major)
    if major in SUPPORTED and line is not None:
        raise SetupError(
            f"Spark {line.name} runs on Java {' or '.join(map(str, wanted))}, but {path} (from {named_by}) is Java {major}:"
            " point JAVA_HOME at such a Java, or install a newer pyspark"
        )
    raise SetupError(f"Java 17 or 21 is needed, but {path} (from {named_by}) is Java {major}: {REMEDY}")


def have_paths_read_as_utf8(environment: MutableMapping[str, str]) -> None:
    """Have a Java that is started in this environment read paths as this Python does."""
    # Java does not even start in a folder with an umlaut then. Where only LANG says so, Python has changed the environment by itself.
    if environment.get("LC_ALL") in ("C", "POSIX"):
        environment["LC_ALL"] = "C.UTF-8"


def _launcher(environment: Mapping[str, str]) -> tuple[Path, str]:
    home = environment.get("JAVA_HOME")
    if home:
        path = Path(home) / "bin" / "java"
        if not os.access(path, os.X_OK):
            raise SetupError(f"JAVA_HOME is {home}, but there is no Java at {path}: {REMEDY}")
        return path, "JAVA_HOME"
    found = shutil.which("java", path=environment.get("PATH", ""))
    if found is None:
        raise SetupError(f"no Java found: JAVA_HOME is not set and there is no `java` on PATH: {REMEDY}")
    return Path(found), "PATH"


def _major(path: Path) -> int:
    # `java -version` goes to stderr, and a JAVA_TOOL_OPTIONS notice may stand before it.
    try:
        answer = subprocess.run(
            [str(path), "-version"], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SetupError(f"{path} cannot be run ({error}): {REMEDY}") from error
    text = answer.stderr + answer.stdout
    match = re.search(r'version "(?:1\.)?(\d+)', text)
    if match is None:
        raise SetupError(f"{path} does not say its version: {REMEDY}")
    return int(match[1])


@cache
def temporary_folder() -> Path:
    """A folder for what the one JVM of this process puts away; it goes with the process, or with the next one that makes its own."""
    folder = TemporaryFolder("distributary-spark-")
    atexit.register(folder.close)
    return folder.path
