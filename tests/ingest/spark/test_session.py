from __future__ import annotations

import fcntl
import os
import stat
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from tests.standalone import SHORT_LIVED_BY, SPARK_HOME, standalone

from distributary.errors import SetupError
from distributary.ingest.spark.artifacts import spark_jars
from distributary.ingest.spark.session import spark_session

pytestmark = pytest.mark.spark

ROOT = Path(__file__).resolve().parents[3]


def run(command: list[str], cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a process, and so in a JVM, of its own."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("SPARK_", "PYSPARK_"))}
    clean |= {name: os.environ[name] for name in SHORT_LIVED_BY}
    clean |= {"PYTHONPATH": str(ROOT / "src"), "SPARK_HOME": str(SPARK_HOME), **environment}
    return subprocess.run(
        command, capture_output=True, text=True, timeout=280, check=False, cwd=cwd, env=clean
    )


def python(source: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return run([sys.executable, "-c", source], cwd, **environment)


def submit(options: list[str], cwd: Path) -> subprocess.CompletedProcess[str]:
    program = cwd / "program.py"
    program.write_text(SUBMITTED, encoding="utf-8")
    return run(
        [str(SPARK_HOME / "bin" / "spark-submit"), *options, str(program)],
        cwd,
        PYSPARK_PYTHON=sys.executable,
        SPARK_LOCAL_IP="127.0.0.1",
    )


def test_session_reads_and_writes_delta_and_knows_kafka(spark: SparkSession, lake: Path) -> None:
    spark.range(3).write.format("delta").save(str(lake / "table"))
    assert spark.read.format("delta").load(str(lake / "table")).count() == 3
    with pytest.raises(Exception, match="subscribe"):
        spark.read.format("kafka").option("kafka.bootstrap.servers", "127.0.0.1:1").load()


def test_what_the_jvm_puts_away_is_for_nobody_else_to_see_and_goes_with_who_made_it(
    spark: SparkSession,
) -> None:
    """Rows that are shuffled, among others: of a JVM that is killed they would stay, for everybody to read."""
    jvm: Any = spark.sparkContext._jvm
    folder = Path(jvm.java.lang.System.getProperty("java.io.tmpdir"))
    assert stat.S_IMODE(folder.stat().st_mode) == stat.S_IRWXU
    assert [*folder.glob("blockmgr-*")]
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with pytest.raises(BlockingIOError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.close(handle)


def test_local_tasks_are_retried(spark: SparkSession, tmp_path: Path) -> None:
    seen = str(tmp_path / "seen")

    def fails_once(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        if not os.path.exists(seen):
            with open(seen, "w", encoding="utf-8"):
                raise OSError("the first attempt fails")
        yield from batches

    assert spark.range(0, 5, 1, 1).mapInArrow(fails_once, "id long").count() == 5


def test_workers_run_the_same_interpreter(spark: SparkSession) -> None:
    found = spark.sparkContext.parallelize([0], 1).map(lambda _: sys.executable).collect()
    assert found == [sys.executable]


def test_an_existing_session_is_used_and_its_changeable_settings_set(spark: SparkSession) -> None:
    key = "spark.sql.files.maxRecordsPerFile"
    again = spark_session("another", "local[7]", {key: "77", "spark.driver.memory": "9g"})
    assert again is spark
    assert spark.conf.get(key) == "77"
    spark.conf.unset(key)


def test_a_remote_session_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_REMOTE", "sc://localhost")
    with pytest.raises(SetupError, match="unset SPARK_REMOTE"):
        spark_session("remote")


# A process of Spark's that has just ended has no command line any more.
QUIET = """\
import logging
import sys
import psutil
from distributary.ingest.spark.session import spark_session
session = spark_session("x", conf={"spark.hadoop.fs.s3a.secret.key": "planted"})
print(session.sparkContext.master, session.sparkContext.uiWebUrl, session.conf.get("spark.sql.session.timeZone"))
shown = []
for process in psutil.Process().children(recursive=True):
    try:
        shown.append(process.cmdline())
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        continue
print(len(shown) > 0, "planted" in str(shown), session.sparkContext._jsc.hadoopConfiguration().get("fs.s3a.secret.key"))
session.range(1).write.format("delta").save("table")
print("here it is quiet", file=sys.stderr)
logging.getLogger("SQLQueryContextLogger").disabled = True
session.conf.set("spark.sql.ansi.enabled", "true")
told = session.sql("SELECT concat('hush', id) AS told FROM range(1)")
for fails in (lambda: told.selectExpr("cast(told AS INT)").collect(), lambda: told.rdd.map(lambda row: int(row.told)).collect()):
    try:
        fails()
    except Exception:
        print("failed")
session.stop()
"""


# All of one start: each would take a JVM of its own.
def test_a_session_is_quiet_leaves_nothing_where_it_was_started_and_tells_no_list_of_processes_a_secret(
    tmp_path: Path,
) -> None:
    answer = python(QUIET, tmp_path)
    assert answer.stdout == "local[*,4] None UTC\nTrue False planted\nfailed\nfailed\n", answer
    before, _, said = answer.stderr.partition("here it is quiet\n")
    assert before == ""
    # Where a task failed, and nothing of the row at which it did.
    assert "SparkNumberFormatException: [CAST_INVALID_INPUT]\n\tat org.apache.spark" in said
    assert "Traceback" not in said
    assert "in <lambda>\nValueError\n" in said
    assert "hush" not in said
    assert [path.name for path in tmp_path.iterdir()] == ["table"]


SUBMITTED = """\
from pyspark.sql import SparkSession
from distributary.errors import SetupError
from distributary.ingest.spark.delta import why_no_delta
from distributary.ingest.spark.session import spark_session
try:
    session = spark_session("ours", "local[7]", {"spark.sql.files.maxRecordsPerFile": "5"})
except SetupError as error:
    print(error)
else:
    conf = session.conf
    print(session.sparkContext.master, conf.get("spark.sql.shuffle.partitions"), end=" ")
    print(conf.get("spark.databricks.delta.snapshotPartitions"), conf.get("spark.sql.files.maxRecordsPerFile"))
    session.stop()
    foreign = SparkSession.builder.getOrCreate()
    assert spark_session("x") is foreign
    print(why_no_delta(foreign))
"""


# A JVM of its own; lighter: test_an_existing_session_is_used_and_its_changeable_settings_set.
@pytest.mark.heavy
# Both of one start: each would take a JVM of its own.
def test_spark_submits_master_and_settings_are_respected_and_a_session_without_delta_is_taken_and_told_of(
    tmp_path: Path,
) -> None:
    jars = ",".join(str(jar) for jar in spark_jars())
    options = ["--master", "local[1,2]", "--jars", jars, "--conf", "spark.sql.shuffle.partitions=3"]
    answer = submit(options, tmp_path)
    told, lacking = answer.stdout.splitlines()[-2:]
    assert told == "local[1,2] 3 2 5", answer
    assert "made without spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension" in lacking


# A JVM for one sentence; the one above shows what a session under `spark-submit` lacks, too.
@pytest.mark.heavy
def test_spark_submit_without_the_jars_says_how_to_submit(tmp_path: Path) -> None:
    answer = submit(["--master", "local[1]"], tmp_path)
    assert "Spark's Kafka source is not on the class path" in answer.stdout, answer
    assert 'spark-submit --jars "$(distributary jars --paths)"' in answer.stdout


STANDALONE = """\
import sys
from distributary.ingest.spark.session import spark_session
session = spark_session("standalone", sys.argv[1], {"spark.executor.memory": "512m"})
session.range(0, 4, 1, 2).mapInArrow(lambda batches: batches, "id long").write.format("delta").save("table")
print(session.sparkContext.master)
session.stop()
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[str]:
    """The address of a cluster of one worker."""
    with standalone(tmp_path) as running:
        running.start_worker("one", tmp_path / "work")
        yield running.url


# Four JVMs: that an executor of another process gets what the driver has is shown here alone, what a session is given
# also by test_spark_submits_master_and_settings_are_respected_and_a_session_without_delta_is_taken_and_told_of.
@pytest.mark.heavy
def test_a_standalone_cluster_gets_the_jars_from_the_driver(cluster: str, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(STANDALONE, encoding="utf-8")
    answer = run([sys.executable, str(program), cluster], tmp_path)
    assert answer.stdout == f"{cluster}\n", answer
    assert DeltaTable(tmp_path / "table").to_pyarrow_table().num_rows == 4
