"""A session of Spark 3.4.1 with its own from_protobuf and from_avro: only `make test-compat` has that Spark."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest
from hypothesis import settings
from pyspark.sql import SparkSession
from tests.compat import spark_fronts

from distributary.ingest.spark.artifact_list import read_artifact_list
from distributary.ingest.spark.artifacts import resolve

SPARK = "3.4.1"
JARS = Path(__file__).with_name("compat_jars.lock")

# The ordinary run has another Spark and collects nothing here.
collect_ignore_glob = [] if pyspark.__version__ == SPARK else ["test_*.py"]

settings.register_profile("compat", derandomize=True, deadline=None)


def pytest_configure(config: pytest.Config) -> None:
    if pyspark.__version__ != SPARK:
        return
    spark_fronts.use(pytest.MonkeyPatch())
    settings.load_profile("compat")
    config.addinivalue_line("filterwarnings", r"ignore:unclosed <socket\.socket:ResourceWarning")
    config.addinivalue_line("filterwarnings", r"ignore:subprocess \d+ is still running:ResourceWarning")


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The one session of the run, its jars fetched as the product's are: by exact list, with checksums."""
    os.environ.pop("SPARK_HOME", None)
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYSPARK_PYTHON"] = sys.executable
    jars = ",".join(str(path) for path in resolve(read_artifact_list(JARS)))
    session = (
        SparkSession.builder.master("local[1]")
        .appName("compat")
        .config("spark.jars", jars)
        .config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        # Queries of a few rows: compiling them takes far longer than reading them.
        .config("spark.sql.codegen.wholeStage", "false")
        .config("spark.sql.codegen.factoryMode", "NO_CODEGEN")
        .config("spark.sql.adaptive.enabled", "false")
        .getOrCreate()
    )
    assert session.version == SPARK
    yield session
    session.stop()
