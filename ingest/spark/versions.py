"""Whether PySpark, delta-spark, the jars and the Spark that runs are versions that belong together."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version

from distributary.errors import SetupError
from distributary.ingest.spark.artifact_list import Artifact, read_artifact_list
from distributary.ingest.spark.artifacts import SPARK_JARS

_REMEDY = "pip install 'pyspark>=4.0.1,<4.1' 'delta-spark>=4.4.0,<4.5'"


def check_installed(installed: Callable[[str], str] = version) -> None:
    """Raise SetupError unless the installed packages fit the jars of `spark_jars.lock`.

    `installed` answers the version of a distribution, as `importlib.metadata.version` does.
    """
    delta = _delta_jar()
    spark = delta.name.split("_")[1]
    for package, wanted in (("pyspark", spark), ("delta-spark", _line(delta.revision))):
        found = _installed(package, installed)
        if _line(found) != wanted:
            raise SetupError(f"{package} {found} is installed, but distributary needs {wanted}.x: {_REMEDY}")


def check_running(spark: str, scala: str, delta: str, home: str) -> None:
    """Raise SetupError unless the Spark that answers, its Scala and its Delta are the lines of our jars.

    `home` is where that Spark is installed, for the message.
    """
    jar = _delta_jar()
    _, wanted_spark, wanted_scala = jar.name.split("_")
    if _line(spark) != wanted_spark or _line(scala) != wanted_scala:
        raise SetupError(
            f"Spark {spark} with Scala {scala} runs from {home}, but distributary needs Spark"
            f" {wanted_spark}.x with Scala {wanted_scala}: unset SPARK_HOME, or submit with such a Spark"
        )
    if _line(delta) != _line(jar.revision):
        raise SetupError(
            f"Delta {delta} is on Spark's class path, but distributary needs {_line(jar.revision)}.x:"
            " take the other jars away, or submit with the ones that distributary fetches"
        )


def _delta_jar() -> Artifact:
    # Its name holds the lines of Spark and Scala, its revision that of Delta: delta-spark_4.0_2.13, 4.4.0.
    return next(
        jar for jar in read_artifact_list(SPARK_JARS).artifacts if jar.name.startswith("delta-spark_")
    )


def _installed(package: str, installed: Callable[[str], str]) -> str:
    try:
        return installed(package)
    except PackageNotFoundError as error:
        raise SetupError(f"{package} is not installed: {_REMEDY}") from error


def _line(full: str) -> str:
    return ".".join(full.split(".")[:2])
