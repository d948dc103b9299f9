"""The Spark settings that distributary depends on, and how they give way to the user's own."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyspark

from distributary.ingest.spark.daemon import preloading
from distributary.ingest.spark.supported import spark_line

DELTA_EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"

DELTA_CATALOG = "org.apache.spark.sql.delta.catalog.DeltaCatalog"

LOG_SETTINGS = Path(__file__).with_name("spark_log4j2.xml")

# Spark's own expression overlooks logins of registries and JAAS strings without the word "password".
REDACTED = r"(?i)secret|password|passwd|token|(?:access|account|private|encryption)[._-]?key|\.sas\.|jaas|credential|user[._]info|authorization"

_TASK_ATTEMPTS = 4

_CHECKPOINT_FILES = "spark.sql.streaming.checkpointFileManagerClass"

_LISTS = {"spark.jars": ",", "spark.sql.extensions": ",", "spark.driver.extraJavaOptions": " "}


def retrying(master: str) -> str:
    """The master with tasks that are tried again: in plain `local[…]` the first failure ends the query."""
    match = re.fullmatch(r"local(?:\[([^,\]]+)\])?", master)
    return f"local[{match[1] or 1},{_TASK_ATTEMPTS}]" if match else master


def on_this_machine(master: str) -> bool:
    """Whether driver and workers all run here, so that nothing needs to leave the loopback interface."""
    return re.match(r"local\b|spark://(127\.0\.0\.1|localhost)[:,]", master) is not None


def settings(master: str, jars: Sequence[Path]) -> dict[str, str]:
    """What a session of ours is made with, before the user's own settings are laid over it."""
    everywhere = {
        "spark.jars": ",".join(str(jar) for jar in jars),
        "spark.sql.extensions": DELTA_EXTENSION,
        "spark.sql.catalog.spark_catalog": DELTA_CATALOG,
        # Timestamps mean the same on every machine.
        "spark.sql.session.timeZone": "UTC",
        # Casts that overflow fail, as workers have it: Spark 3.5 would make another number, or nothing, of them.
        "spark.sql.ansi.enabled": "true",
        # A date that is none is a malformed record; Spark 3.5 would end the query over what Spark 2 made of it.
        "spark.sql.legacy.timeParserPolicy": "CORRECTED",
        # Times of any year are of today's calendar, in Parquet, too; Spark 3.5 would end over those before 1900.
        "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
        "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
        "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
        "spark.sql.parquet.int96RebaseModeInWrite": "CORRECTED",
        # 50 tasks to read one small table's log is Delta's default.
        "spark.databricks.delta.snapshotPartitions": "2",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "20000",
        # Workers are warm after the first batch, and say where a native decoder died.
        "spark.python.worker.reuse": "true",
        "spark.python.worker.faulthandler.enabled": "true",
        # A decoder's panic is caught and becomes a record in quarantine; its stack would only be noise.
        "spark.executorEnv.RUST_BACKTRACE": "0",
        # What a worker is handed at once, whatever the size of its records: docs/adr/0021-bytes-bounded-by-the-size-of-records.md.
        "spark.sql.execution.arrow.maxBytesPerBatch": str(64 * 2**20),
        "spark.redaction.regex": REDACTED,
        "spark.sql.redaction.options.regex": f"{REDACTED}|url",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={LOG_SETTINGS.resolve().as_uri()}",
    }
    here = _SMALL if on_this_machine(master) else {}
    # Only here is it certain that the workers' Python has the daemon's module before it is sent a task.
    return everywhere | _checkpoint_files() | here | (preloading() if master.startswith("local") else {})


def _checkpoint_files() -> dict[str, str]:
    """A query's own files are in a temporary folder of the driver, of which nobody asks what a loss of power leaves.

    The usual manager starts a process for each `chmod` and `readlink`: twenty a batch.
    """
    line = spark_line(pyspark.__version__)
    return {} if line is None else {_CHECKPOINT_FILES: line.plain_checkpoint_files}


# On one machine: loopback only, and no more partitions than a laptop has use for.
_SMALL = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "2g",
    "spark.sql.shuffle.partitions": "4",
}


def laid_over(ours: Mapping[str, str], theirs: Mapping[str, str]) -> dict[str, str]:
    """`ours` with `theirs` winning, except that jars, extensions and Java options are joined, not replaced."""
    result = {**ours, **theirs}
    for key, separator in _LISTS.items():
        if ours.get(key) and theirs.get(key):
            parts = [*ours[key].split(separator), *theirs[key].split(separator)]
            result[key] = separator.join(dict.fromkeys(parts))
    return result
