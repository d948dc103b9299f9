from __future__ import annotations

from importlib.metadata import PackageNotFoundError

import pytest

from distributary.errors import SetupError
from distributary.ingest.spark.versions import check_installed, check_running

FITTING = {"pyspark": "4.0.5", "delta-spark": "4.4.0"}


def test_what_is_installed_here_fits() -> None:
    check_installed()
    check_installed(FITTING.__getitem__)


@pytest.mark.parametrize(
    ("package", "version"), [("pyspark", "4.1.0"), ("pyspark", "3.5.6"), ("delta-spark", "4.0.0")]
)
def test_a_version_that_does_not_fit_is_named_with_the_remedy(package: str, version: str) -> None:
    with pytest.raises(SetupError, match=f"{package} {version} is installed, .* pip install 'pyspark>="):
        check_installed((FITTING | {package: version}).__getitem__)


def test_a_missing_package_is_named() -> None:
    def none(package: str) -> str:
        raise PackageNotFoundError(package)

    with pytest.raises(SetupError, match="pyspark is not installed: pip install"):
        check_installed(none)


@pytest.mark.parametrize(
    ("spark", "scala"), [("4.1.0", "2.13.16"), ("4.0.5", "2.12.18"), ("3.5.6", "2.12.18")]
)
def test_another_spark_is_named_with_its_place(spark: str, scala: str) -> None:
    with pytest.raises(SetupError, match=f"Spark {spark} with Scala {scala} runs from /opt/spark"):
        check_running(spark, scala, "4.4.0", "/opt/spark")


def test_another_delta_is_named() -> None:
    with pytest.raises(SetupError, match=r"Delta 4\.0\.0 is on Spark's class path"):
        check_running("4.0.5", "2.13.16", "4.0.0", "/opt/spark")
    check_running("4.0.1", "2.13.16", "4.4.2", "/opt/spark")
