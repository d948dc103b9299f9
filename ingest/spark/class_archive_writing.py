"""Writing the archive of Spark's classes, by a session that does a little of what pipelines do.

`python -m distributary.ingest.spark.class_archive_writing FILE` is that session.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from distributary.errors import SetupError
from distributary.files import file_lock, make_folder, sweep, sync_all, temporary_name
from distributary.ingest.spark.artifacts import Report, to_stderr
from distributary.ingest.spark.class_archive import JAVA_OPTIONS, SILENT, class_archive
from distributary.ingest.spark.java import Java
from distributary.ingest.spark.session import spark_session

# Java, PySpark and whole environments are renewed, and 180 MB stay from each.
_KEPT = 4

_BYTES = 200e6

_PATIENCE_SECONDS = 300.0

# Its own name is another one while it is the program.
_MODULE = "distributary.ingest.spark.class_archive_writing"


def write_class_archive(java: Java, report: Report = to_stderr) -> None:
    """Write the archive for this Java and the installed PySpark, if it is not there yet.

    A session of a process of its own does a little of what pipelines do, and writes down what it loaded. Where that does not
    succeed `report` is told, and sessions take a few seconds longer to start. Raises SetupError where the cache cannot be used.
    """
    archive = class_archive(java)
    if archive.is_file():
        return
    try:
        make_folder(archive.parent)
        with file_lock(archive.parent / "writing.lock"):
            if not archive.is_file():
                _write(archive, report)
    except OSError as error:
        raise SetupError(f"cannot write {archive}: {error.strerror or error}") from error


def _write(archive: Path, report: Report) -> None:
    # Of a writer that was killed, as nobody else writes now.
    sweep(archive.parent, 0)
    if shutil.disk_usage(archive.parent).free < 2 * _BYTES:
        report(
            f"no archive of Spark's classes: less than {2 * _BYTES / 1e6:.0f} MB are free in {archive.parent}"
        )
        return
    report("writing an archive of Spark's classes, from which sessions start sooner, once for this user ...")
    temporary = archive.with_name(temporary_name())
    try:
        ended = subprocess.run(
            [sys.executable, "-m", _MODULE, str(temporary)],
            env=_alone(os.environ),
            capture_output=True,
            text=True,
            timeout=_PATIENCE_SECONDS,
            check=False,
        )
        if ended.returncode or not temporary.is_file():
            said = (ended.stderr.strip().splitlines() or ["Java wrote none"])[-1]
            report(f"no archive of Spark's classes ({said}): sessions start without it")
            return
        # Java believes what it finds in an archive: one that a loss of power left half written would end each JVM.
        sync_all([str(temporary)])
        temporary.replace(archive)
        sync_all([], [str(archive.parent)])
    except subprocess.TimeoutExpired:
        report("no archive of Spark's classes: a session took too long; sessions start without it")
    finally:
        temporary.unlink(missing_ok=True)
    _forget_old(archive.parent)


def _alone(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment without what would make the session another one than users' are."""
    return {
        name: value
        for name, value in environment.items()
        if not name.startswith(("PYSPARK_", "SPARK_SUBMIT_", "SPARK_REMOTE", "SPARK_CONF_"))
    }


def _forget_old(folder: Path) -> None:
    archives = sorted(folder.glob("spark-*.jsa"), key=lambda file: file.stat().st_mtime_ns)
    for file in archives[:-_KEPT]:
        file.unlink(missing_ok=True)


def main(archive: str) -> None:
    """Start a session whose JVM writes the archive when it ends, and have it load what pipelines load."""
    told = {JAVA_OPTIONS: f"-XX:ArchiveClassesAtExit={archive} {SILENT}"}
    session = spark_session("classes", "local[2]", told)
    with tempfile.TemporaryDirectory() as folder:
        _work(session, Path(folder))
    _end(session)


def _work(session: SparkSession, folder: Path) -> None:
    """One stream through Python's workers to a Delta table, which is read."""

    def write(records: DataFrame, _batch_id: int) -> None:
        passed_on = records.mapInArrow(lambda batches: batches, records.schema)
        passed_on.write.format("delta").mode("append").save(f"{folder}/table")

    session.range(3).selectExpr("cast(id as string) as value").write.parquet(f"{folder}/records")
    records = session.readStream.schema("value string").parquet(f"{folder}/records")
    writer = records.writeStream.foreachBatch(write).option("checkpointLocation", f"{folder}/checkpoint")
    writer.trigger(availableNow=True).start().awaitTermination()
    session.read.format("delta").load(f"{folder}/table").where("value = '0'").count()


def _end(session: SparkSession) -> None:
    """End the JVM too, and wait for it: it writes the archive then."""
    gateway = session.sparkContext._gateway
    session.stop()
    if gateway is not None:
        gateway.proc.stdin.close()
        gateway.proc.wait()


if __name__ == "__main__":
    main(sys.argv[1])
