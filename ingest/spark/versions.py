"""Whether Python, PySpark, delta-spark, the jars and the Spark that runs are versions that belong together."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version

import pyspark

from distributary.errors import SetupError
from distributary.ingest.spark.supported import SPARKS, SparkLine, line_of, spark_line

# What is installed where nobody says otherwise.
_USUAL = SPARKS[-1]


def version_here(package: str) -> str:
    """The version of a distribution, as `importlib.metadata.version` answers it. Raises PackageNotFoundError.

    On a cluster PySpark is part of Spark, and no distribution: then it says itself which one it is.
    """
    try:
        return version(package)
    except PackageNotFoundError:
        if package != "pyspark":
            raise
        return pyspark.__version__


def installed_spark(
    installed: Callable[[str], str] = version_here, python: tuple[int, int] = sys.version_info[:2]
) -> SparkLine:
    """The Spark of the installed packages. Raises SetupError where it is not supported, or they do not belong together.

    `installed` answers the version of a distribution, as `importlib.metadata.version` does; `python` is who asks.
    """
    spark = _version("pyspark", _USUAL, installed)
    line = spark_line(spark)
    if line is None or _numbers(spark) < _numbers(line.pyspark):
        raise SetupError(
            f"pyspark {spark} is installed, but distributary runs on {_supported()}: {_pip(_USUAL)}"
        )
    delta = _version("delta-spark", line, installed)
    if line_of(delta) != line_of(line.delta_revision):
        raise SetupError(
            f"delta-spark {delta} is installed, but pyspark {spark} goes with {line_of(line.delta_revision)}.x: {_pip(line)}"
        )
    here = ".".join(map(str, python))
    if here not in line.pythons:
        raise SetupError(
            f"pyspark {spark} is installed, which runs in Python {' or '.join(line.pythons)}, and this is Python {here}: "
            f"take such a Python, or {_pip(_USUAL)}"
        )
    return line


def check_running(line: SparkLine, spark: str, scala: str, home: str) -> None:
    """Raise SetupError unless the Spark that answers, and its Scala, are those of the installed packages.

    `home` is where that Spark is installed, for the message.
    """
    if line_of(spark) != line.name or line_of(scala) != line.scala:
        raise SetupError(
            f"Spark {spark} with Scala {scala} runs from {home}, but pyspark {line.name} is installed, which goes with Spark"
            f" {line.name}.x and Scala {line.scala}: unset SPARK_HOME, or {_same(spark)}"
        )


def _same(spark: str) -> str:
    """What else is to be done where a Spark runs that is not the one installed."""
    line = spark_line(spark)
    return "submit with such a Spark" if line is None else _pip(line)


def _supported() -> str:
    told = [f"Spark {line.name} ({' '.join(line.packages)})" for line in SPARKS]
    return f"{', '.join(told[:-1])} and {told[-1]}"


def _pip(line: SparkLine) -> str:
    return f"pip install {' '.join(map(repr, line.packages))}"


def _version(package: str, line: SparkLine, installed: Callable[[str], str]) -> str:
    try:
        return installed(package)
    except PackageNotFoundError as error:
        raise SetupError(f"{package} is not installed: {_pip(line)}") from error


def _numbers(full: str) -> tuple[int, ...]:
    """The version as it is ordered; a word that stands behind its numbers, such as `.dev1`, is not looked at."""
    numbers = []
    for part in full.split("."):
        if not part.isdecimal():
            break
        numbers.append(int(part))
    return tuple(numbers)
