from __future__ import annotations

from importlib.metadata import PackageNotFoundError

import pytest

from distributary.errors import SetupError
from distributary.ingest.spark.supported import SPARKS
from distributary.ingest.spark.versions import check_running, installed_spark

FITTING = {"pyspark": "4.0.5", "delta-spark": "4.4.0"}
SPARK_4_0 = installed_spark(FITTING.__getitem__, (3, 11))


def test_what_is_installed_here_fits() -> None:
    assert installed_spark() in SPARKS


@pytest.mark.parametrize(
    ("spark", "delta", "name"),
    [
        ("3.5.3", "3.3.2", "3.5"),
        ("4.0.1", "4.4.0", "4.0"),
        ("4.0.5", "4.4.2", "4.0"),
        ("4.1.4.dev2", "4.4.0", "4.1"),
    ],
)
def test_a_supported_spark_is_told_by_what_is_installed(spark: str, delta: str, name: str) -> None:
    assert installed_spark({"pyspark": spark, "delta-spark": delta}.__getitem__, (3, 11)).name == name


@pytest.mark.parametrize("version", ["3.4.1", "3.5.2", "4.0.0", "4.2.0", "5.0.0", "unknown"])
def test_a_spark_that_is_not_supported_is_named_with_those_that_are(version: str) -> None:
    with pytest.raises(
        SetupError, match=f"pyspark {version} is installed, .* pip install 'pyspark>="
    ) as caught:
        installed_spark((FITTING | {"pyspark": version}).__getitem__, (3, 11))
    assert all(f"Spark {line.name} (pyspark>={line.pyspark}" in str(caught.value) for line in SPARKS)


@pytest.mark.parametrize(
    ("spark", "delta", "wanted"),
    [
        ("4.0.5", "4.0.0", r"4\.4\.x: pip install 'pyspark>=4\.0\.1,<4\.1' 'delta-spark>=4\.4\.0,<4\.5'"),
        ("3.5.9", "4.4.0", r"3\.3\.x: pip install 'pyspark>=3\.5\.3,<3\.6' 'delta-spark>=3\.3\.2,<3\.4'"),
    ],
)
def test_a_delta_that_does_not_go_with_the_spark_is_named_with_the_remedy(
    spark: str, delta: str, wanted: str
) -> None:
    with pytest.raises(
        SetupError, match=f"delta-spark {delta} is installed, but pyspark {spark} goes with {wanted}"
    ):
        installed_spark({"pyspark": spark, "delta-spark": delta}.__getitem__, (3, 11))


def test_a_python_that_the_spark_does_not_run_in_is_named() -> None:
    installed = {"pyspark": "3.5.9", "delta-spark": "3.3.2"}
    with pytest.raises(
        SetupError, match=r"pyspark 3\.5\.9 .* runs in Python 3\.10 or 3\.11, and this is Python 3\.13"
    ):
        installed_spark(installed.__getitem__, (3, 13))


def test_a_missing_package_is_named() -> None:
    def none(package: str) -> str:
        raise PackageNotFoundError(package)

    with pytest.raises(SetupError, match="pyspark is not installed: pip install"):
        installed_spark(none)


@pytest.mark.parametrize(
    ("spark", "scala"),
    [("4.1.0", "2.13.16"), ("4.0.5", "2.12.18"), ("3.5.6", "2.12.18"), ("2.4.8", "2.11.12")],
)
def test_another_spark_is_named_with_its_place(spark: str, scala: str) -> None:
    with pytest.raises(SetupError, match=f"Spark {spark} with Scala {scala} runs from /opt/spark"):
        check_running(SPARK_4_0, spark, scala, "/opt/spark")


def test_another_patch_of_the_same_spark_will_do() -> None:
    check_running(SPARK_4_0, "4.0.1", "2.13.16", "/opt/spark")
