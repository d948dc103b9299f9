"""The table of what goes with what, held to everything else that says it: the lists of jars, the packages, the docs."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pyspark
import pytest
from packaging.requirements import Requirement

from distributary.ingest.spark.artifact_list import read_artifact_list
from distributary.ingest.spark.supported import SPARKS, SparkLine, spark_line
from distributary.ingest.spark.versions import installed_spark

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PAGE = (ROOT / "docs/reference/what-runs-with-what.md").read_text(encoding="utf-8")

EACH = pytest.mark.parametrize("line", SPARKS, ids=lambda line: line.name)


@EACH
def test_the_list_of_jars_is_what_the_table_says(line: SparkLine) -> None:
    listed = read_artifact_list(line.jar_list).artifacts
    assert tuple(f"{jar.org}:{jar.name}:{jar.revision}" for jar in listed) == line.jars, "tools/lock_jars.py"


@EACH
def test_a_spark_has_seven_jars_and_no_second_kafka_client(line: SparkLine) -> None:
    names = [coordinates.split(":")[1] for coordinates in line.jars]
    assert (len(names), names.count("kafka-clients")) == (7, 1)
    assert all(name.endswith(f"_{line.scala}") for name in names if name.startswith("spark-"))


@EACH
def test_the_project_lets_each_supported_spark_be_installed(line: SparkLine) -> None:
    pyspark_range, delta_range = (
        next(one for one in map(Requirement, PROJECT["dependencies"]) if one.name == name).specifier
        for name in ("pyspark", "delta-spark")
    )
    assert line.pyspark in pyspark_range and f"{line.name}.99" in pyspark_range
    assert line.delta_revision in delta_range
    for wanted, version in zip(
        map(Requirement, line.packages), (line.pyspark, line.delta_revision), strict=True
    ):
        assert version in wanted.specifier


def test_the_project_lets_no_other_spark_be_installed_than_those_between() -> None:
    wanted = next(one for one in map(Requirement, PROJECT["dependencies"]) if one.name == "pyspark").specifier
    assert not [one for one in ("3.4.4", "3.5.2", "4.0.0", "4.1.0", "4.2.0", "5.0.0") if one in wanted]


@EACH
def test_it_runs_in_pythons_that_the_project_has(line: SparkLine) -> None:
    assert all(
        f"{python}.1" in Requirement(f"x{PROJECT['requires-python']}").specifier for python in line.pythons
    )


def test_the_installed_spark_has_the_scala_and_the_hadoop_of_the_table() -> None:
    jars = [path.name for path in (Path(pyspark.__file__).parent / "jars").iterdir()]
    line = installed_spark()
    assert f"hadoop-client-api-{line.hadoop}.jar" in jars
    assert any(name.startswith(f"scala-library-{line.scala}.") for name in jars)


@pytest.mark.parametrize(("version", "name"), [("4.0.5", "4.0"), ("4.1.0.dev1", "4.1"), ("3.5.9", "3.5")])
def test_a_spark_is_found_by_its_full_version(version: str, name: str) -> None:
    line = spark_line(version)
    assert line is not None and line.name == name


def test_a_spark_that_is_not_supported_is_found_by_none() -> None:
    assert [spark_line(one) for one in ("3.4.1", "4.10.0", "5.0.0", "")] == [None] * 4


def row(line: SparkLine) -> list[str]:
    """What the documentation's table has of a Spark."""
    return [
        line.name,
        f"`{line.packages[0]}`",
        f"`{line.packages[1]}`",
        line.scala,
        " or ".join(map(str, line.javas)),
        f"{line.pythons[0]} to {line.pythons[-1]}",
        line.connectors,
        f"`{line.delta}`",
        f"`hadoop-aws:{line.hadoop}`",
        f"`spark-protobuf_{line.scala}`",
    ]


def test_the_docs_tell_the_same_table() -> None:
    told = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in PAGE.splitlines()
        if re.match(r"\| \d", line)
    ]
    assert told == [row(line) for line in SPARKS]


@pytest.mark.parametrize("line", [one for one in SPARKS if one.name != "4.0"], ids=lambda line: line.name)
def test_each_other_spark_has_a_lock_to_be_tested_with(line: SparkLine) -> None:
    lock = (ROOT / f"requirements-spark-{line.name}.lock").read_text(encoding="utf-8")
    for wanted in map(Requirement, line.packages):
        (pinned,) = re.findall(rf"^{wanted.name}==(\S+)", lock, re.MULTILINE)
        assert pinned in wanted.specifier
