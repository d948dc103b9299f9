"""A session whose Spark has no Delta of ours, as on Databricks: tables that delta-rs masters need none."""

from __future__ import annotations

import subprocess
import sys

import pytest
from pyspark.sql import SparkSession
from tests.ingest.e2e.pipeline_kit import PATIENCE_SECONDS, PipelineKit

# It takes a JVM of its own; what a session lacks, and that it is taken, is also in tests/ingest/spark/test_session.py.
pytestmark = [pytest.mark.spark, pytest.mark.stack, pytest.mark.heavy, pytest.mark.folder]

PROGRAM = """\
import sys
from pyspark.sql import SparkSession
import distributary
from distributary.errors import DistributaryError
from distributary.ingest.spark.artifacts import spark_jars
jars = ",".join(str(jar) for jar in spark_jars() if "delta" not in jar.name)
own = SparkSession.builder.master("local[2]").config("spark.jars", jars).config("spark.ui.enabled", "false")
own.config("spark.driver.host", "127.0.0.1").getOrCreate()
try:
    print(distributary.run(distributary.Settings.from_file(sys.argv[1])).summary.written)
except DistributaryError as error:
    print(error)
"""


def run(kit: PipelineKit) -> str:
    """What a run in a notebook without Delta prints last."""
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(kit.settings_file)],
        env=kit.environment() | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
        cwd=kit.folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.splitlines()[-1]


def test_plain_tables_are_made_grown_and_filled_and_one_with_a_condition_is_refused_by_name(
    kit: PipelineKit, spark: SparkSession
) -> None:
    for version in (1, 2):
        sent = kit.simulate(version, 200, 2)
        assert run(kit) == str(sent.records)
    kit.assert_clean()

    table = kit.root / kit.folder_of(0)
    spark.sql(f"ALTER TABLE delta.`{table}` ADD CONSTRAINT some CHECK (1 = 1)")
    before = kit.versions()
    kit.simulate(2, 20, 2)
    said = run(kit)
    assert f"table {table}" in said
    assert "That takes Delta in Spark, and Delta is not on the class path of this Spark session" in said
    assert kit.versions() == before
