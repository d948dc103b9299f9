"""Spark's JVM dies within a run: the run ends and says so, and the next one goes on."""

from __future__ import annotations

import subprocess
import sys

import pytest
from tests.ingest.e2e.pipeline_kit import PATIENCE_SECONDS, PipelineKit
from tests.ingest.spark.test_jvm import SAID

pytestmark = [pytest.mark.spark, pytest.mark.stack]

# Kills its own JVM at a moment of a run, and then tries in the same process whatever needs one.
SCRIPT = """
import sys
from pathlib import Path
import psutil
from distributary.errors import PipelineError
from distributary.ingest.pipeline import Pipeline
from distributary.ingest.progress import Silent
from distributary.ingest.run import run
from distributary.ingest.settings.model import load
from distributary.ingest.spark.session import spark_session

moment, settings = sys.argv[1], load(Path(sys.argv[2]))
spark = spark_session("tests", "local[2]")
jvm = psutil.Process(spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid())

def reached(here):
    if here == moment:
        jvm.kill()
        jvm.wait(60)

class Watching(Silent):
    def reading(self):
        reached("query")
    def batch_done(self, *told):
        reached("batch")
    def failure(self, error, wait):
        print("tried again after:", error)

def records_waiting(pipeline, ask=Pipeline.records_waiting):
    reached("count")
    return ask(pipeline)

Pipeline.records_waiting = records_waiting
for attempt in (
    lambda: run(settings, Watching(), spark=spark),
    lambda: run(settings, spark=spark),
    lambda: run(settings),
    lambda: spark_session("another"),
):
    try:
        attempt()
    except PipelineError as error:
        print(error)
"""


# A JVM a moment: tests/ingest/spark/test_jvm.py has one that dies while a command asks Kafka.
@pytest.mark.heavy
@pytest.mark.parametrize("moment", ["count", "query", "batch"])
def test_a_run_whose_jvm_dies_says_so_and_the_next_one_goes_on(moment: str, kit: PipelineKit) -> None:
    kit.configured(supervisor={"failures": {"max": 3, "first_wait_seconds": 0}})
    kit.simulate(events=100)
    died = subprocess.run(
        [sys.executable, "-c", SCRIPT, moment, str(kit.settings_file)],
        cwd=kit.folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert died.stdout.splitlines() == [SAID] * 4, died.stderr
    assert died.returncode == 0
    assert kit.run().summary.failures == 0
    kit.assert_clean()
